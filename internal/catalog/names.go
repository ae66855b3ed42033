// Package catalog knows what every server offers: its tools, prompts,
// resources and resource templates, as the bytes that came. It keeps the last
// lists, gives each item its public name, leaves out what no client could
// take, and tells when something changed.
package catalog

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
)

// MaxPublicName is the greatest length of a public name in bytes. Harnesses
// put a prefix of their own before it, and models take at most 64 in all.
const MaxPublicName = 48

const hashLength = 12 // characters of a shortened name's hash; 60 bits

// PublicName is the name of a tool or prompt on the aggregate endpoint: a pure
// function of the address, and an injective one.
//
// The plain form is <server>__<tool>; a server name has no underscore, so it
// can be taken apart again. Where the tool's name does not fit, the form is
// <server>--<what fits>-<hash>; a server name has no double dash, so it never
// equals a plain one.
func PublicName(a crib.Address) string {
	plain := a.Server + "__" + a.Tool
	if len(plain) <= MaxPublicName && a.Tool != "" && strings.IndexFunc(a.Tool, notInName) < 0 {
		return plain
	}
	sum := sha256.Sum256([]byte(a.Server + "\x00" + a.Tool))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashLength]
	clean := strings.Map(func(r rune) rune {
		if notInName(r) {
			return '_'
		}
		return r
	}, a.Tool)
	room := MaxPublicName - len(a.Server) - len("--") - len("-") - hashLength
	if clean = clean[:min(len(clean), max(room, 0))]; clean != "" {
		hash = clean + "-" + hash
	}
	return a.Server + "--" + hash
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

// serverOfName returns the server part of a public name.
func serverOfName(public string) string {
	server, _, plain := strings.Cut(public, "__")
	if dashed, _, ok := strings.Cut(public, "--"); ok && (!plain || len(dashed) < len(server)) {
		return dashed
	}
	return server
}

const uiScheme = "ui://"

// PublicURI is the URI of a resource on the aggregate endpoint. An https URI
// is left as it is: a client may fetch it itself.
func PublicURI(server, uri string) string {
	switch {
	case strings.HasPrefix(uri, "https:"):
		return uri
	case strings.HasPrefix(uri, uiScheme):
		return uiScheme + "crib." + server + "/" + uri[len(uiScheme):]
	}
	return "crib." + server + "+" + uri
}

// OwnURI takes a public URI apart again. It returns "" as the server of an
// https URI, which only the lists can tell, and false for what is no public
// URI.
func OwnURI(public string) (server, uri string, ok bool) {
	if strings.HasPrefix(public, "https:") {
		return "", public, true
	}
	rest, isUI := strings.CutPrefix(public, uiScheme+"crib.")
	sep := "/"
	if !isUI {
		if rest, ok = strings.CutPrefix(public, "crib."); !ok {
			return "", "", false
		}
		sep = "+"
	}
	server, uri, ok = strings.Cut(rest, sep)
	if !ok || crib.CheckServerName(server) != nil {
		return "", "", false
	}
	if isUI {
		uri = uiScheme + uri
	}
	return server, uri, true
}
