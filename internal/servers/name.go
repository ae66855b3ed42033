package servers

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// fallbackName is for text that has no letter or digit a name may have.
const fallbackName = "server"

var (
	notInName = regexp.MustCompile(`[^a-z0-9]+`)
	// Names that Windows gives to devices: no page could be called so there.
	deviceName = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])$`)
)

// ValidName makes a server name of any text: "My Server" becomes my-server. A
// name for which taken is true gets -2, -3 and so on behind it; nil takes none.
func ValidName(s string, taken func(string) bool) string {
	base := strings.Trim(notInName.ReplaceAllString(strings.ToLower(s), "-"), "-")
	if base == "" {
		base = fallbackName
	}
	if deviceName.MatchString(base) {
		base += "-" + fallbackName
	}
	name := shorten(base, "")
	for n := 2; taken != nil && taken(name); n++ {
		name = shorten(base, "-"+strconv.Itoa(n))
	}
	return name
}

// shorten cuts base so that suffix fits behind it.
func shorten(base, suffix string) string {
	return strings.TrimRight(base[:min(len(base), crib.MaxServerName-len(suffix))], "-") + suffix
}
