package secret

import (
	"math"
	"regexp"
	"strings"
)

// MinKeyLength is the length, in bytes, from which a random-looking value
// under a telling name is taken for a key.
const MinKeyLength = 20

// minKeyEntropy is the least entropy, in bits for each character, of a value
// that is taken for a key. Words are below it or have no digits; hexadecimal
// and base64 keys are above.
const minKeyEntropy = 3.0

var (
	// The beginnings that well-known services give to their keys.
	wellKnownKey = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|gh[opusr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|` +
		`xox[a-z]-[A-Za-z0-9-]{10,}|A[KS]IA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{16,}|glpat-[A-Za-z0-9_-]{12,}|` +
		`npm_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|[rs]k_(live|test)_[A-Za-z0-9]{10,}|` +
		`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)*)`)
	privateKey  = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	urlPassword = regexp.MustCompile(`://[^/\s:@]*:[^/\s@]+@`)
	withScheme  = regexp.MustCompile(`(?i)\b(bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{16,}`)
	tellingName = regexp.MustCompile(`(?i)TOKEN|KEY|SECRET|PASSWORD|PASSWD|AUTH|CREDENTIAL`)
	tokenText   = regexp.MustCompile(`^[A-Za-z0-9+/=_.~-]+$`)
)

// LooksLikeKey reports whether value, literal text given to the header,
// variable or argument called name, looks like a credential: it begins like
// the keys of a well-known service, follows an authorization scheme, is a
// private key or a URL with a password, or is long and random under a name
// such as API_KEY.
func LooksLikeKey(name, value string) bool {
	for _, re := range []*regexp.Regexp{wellKnownKey, withScheme, privateKey, urlPassword} {
		if re.MatchString(value) {
			return true
		}
	}
	value = strings.TrimSpace(value)
	return tellingName.MatchString(name) && len(value) >= MinKeyLength && tokenText.MatchString(value) &&
		!isPath(value) && hasLetterAndDigit(value) && entropy(value) >= minKeyEntropy
}

// isPath reports whether value is a file name as programs take them, so that
// KEY_FILE=/etc/keys/server2.pem is not taken for a key.
func isPath(value string) bool {
	return strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") || strings.HasPrefix(value, "~/")
}

func hasLetterAndDigit(value string) bool {
	letter := strings.ContainsFunc(value, func(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' })
	return letter && strings.ContainsAny(value, "0123456789")
}

// entropy is Shannon's, over the bytes of s, in bits for each byte.
func entropy(s string) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	sum := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			sum -= p * math.Log2(p)
		}
	}
	return sum
}
