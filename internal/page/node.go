package page

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/toolcrib/toolcrib/internal/secret"
)

// Limits of what is read.
const (
	// MaxYAMLBytes is the greatest size of a YAML document, in bytes.
	MaxYAMLBytes = 256 << 10

	// maxNesting is how deep lists and mappings may lie in one another.
	maxNesting = 32
)

// Kind is what a Node is.
type Kind int

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Mapping
)

func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}[k]
}

// Node is a value of a configuration file, with its place. Anchors, aliases,
// tags and merge keys are refused, so a Node is a tree no larger than its
// text.
type Node struct {
	Kind    Kind
	Text    string // of a scalar: as it was spelled, without quotes
	At      Place
	Items   []Node   // of a List
	Members []Member // of a Mapping, in order
}

// Member is one key of a Mapping. No key occurs twice.
type Member struct {
	Key   string
	At    Place // of the key
	Value Node
}

// Place is where something stands in a file: a line and column, or a path
// where a file has no lines.
type Place struct {
	Line, Col int    // from 1
	Path      string // such as $.files.env
}

// Get returns the value of key.
func (n Node) Get(key string) (Node, bool) {
	for _, m := range n.Members {
		if m.Key == key {
			return m.Value, true
		}
	}
	return Node{}, false
}

// ParseYAML reads one YAML document. An empty one is a Null node. A byte order
// mark, which editors on Windows write at the start, is passed over.
func ParseYAML(file string, src []byte) (Node, []Fault) {
	if len(src) > MaxYAMLBytes {
		return Node{}, []Fault{{File: file, Msg: fmt.Sprintf("larger than %d KiB", MaxYAMLBytes>>10)}}
	}
	d := &Decoder{File: file}
	n, err := parseYAML(bytes.TrimPrefix(src, byteOrderMark))
	if err != nil {
		var at *placedError
		if !errors.As(err, &at) {
			at = &placedError{msg: "not valid YAML"}
		}
		d.Errorf(at.at, "%s", at.msg)
	}
	return n, d.Faults
}

var byteOrderMark = []byte("\ufeff")

// placedError is an error with its place.
type placedError struct {
	at  Place
	msg string
}

func (e *placedError) Error() string { return e.msg }

func parseYAML(src []byte) (n Node, err error) {
	// The parser is not ours, and a file that makes it panic must not take
	// the crib down.
	defer func() {
		if r := recover(); r != nil {
			n, err = Node{}, &placedError{msg: "not valid YAML: the parser cannot read it"}
		}
	}()
	tokens := lexer.Tokenize(string(bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n"))))
	if err := checkNesting(tokens); err != nil {
		return Node{}, err
	}
	f, err := parser.Parse(tokens, 0)
	if err != nil {
		return Node{}, syntaxError(err)
	}
	if len(f.Docs) > 1 {
		return Node{}, &placedError{at: placeOf(f.Docs[1].Start), msg: "a second document starts here; only one is read"}
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		return Node{}, nil
	}
	return convert(f.Docs[0].Body, 0)
}

// checkNesting refuses what would cost the parser more than its size.
func checkNesting(tokens token.Tokens) error {
	flow, dashes, line := 0, 0, 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			if tk.Position.Line != line {
				dashes, line = 0, tk.Position.Line
			}
			dashes++
		}
		if flow > maxNesting || dashes > maxNesting {
			return &placedError{at: placeOf(tk), msg: fmt.Sprintf("nested more than %d deep", maxNesting)}
		}
	}
	return nil
}

// syntaxError takes message and place of the parser's error. Its full text
// quotes the lines around the place, which may hold a secret.
func syntaxError(err error) error {
	var e yaml.Error
	if !errors.As(err, &e) {
		return &placedError{msg: "not valid YAML"}
	}
	return &placedError{at: placeOf(e.GetToken()), msg: "not valid YAML: " + e.GetMessage() +
		" (text with : { } [ ] , # & * ! @ or % in it may need quotes)"}
}

func placeOf(tk *token.Token) Place {
	if tk == nil || tk.Position == nil {
		return Place{}
	}
	return Place{Line: tk.Position.Line, Col: tk.Position.Column}
}

func convert(node ast.Node, depth int) (Node, error) {
	at := placeOf(node.GetToken())
	if depth > maxNesting {
		return Node{}, &placedError{at: at, msg: fmt.Sprintf("nested more than %d deep", maxNesting)}
	}
	switch node := node.(type) {
	case *ast.NullNode:
		return Node{Kind: Null, At: at}, nil
	case *ast.BoolNode:
		return Node{Kind: Bool, At: at, Text: node.Token.Value}, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return Node{Kind: Number, At: at, Text: node.GetToken().Value}, nil
	case *ast.StringNode:
		return Node{Kind: Text, At: at, Text: node.Value}, nil
	case *ast.LiteralNode:
		return Node{Kind: Text, At: at, Text: node.Value.Value}, nil
	case *ast.SequenceNode:
		return convertList(node, at, depth)
	case *ast.MappingNode:
		return convertMapping(node.Values, at, depth)
	case *ast.MappingValueNode:
		return convertMapping([]*ast.MappingValueNode{node}, at, depth)
	case *ast.AnchorNode, *ast.AliasNode:
		return Node{}, &placedError{at: at, msg: "anchors and aliases (& and *) are not read here: write the value out, or quote it if it is text"}
	case *ast.TagNode:
		return Node{}, &placedError{at: at, msg: "a tag (!) is not read here: quote the value if it is text"}
	}
	return Node{}, &placedError{at: at, msg: "this kind of YAML is not read here"}
}

func convertList(node *ast.SequenceNode, at Place, depth int) (Node, error) {
	n := Node{Kind: List, At: at}
	for _, v := range node.Values {
		item, err := convert(v, depth+1)
		if err != nil {
			return Node{}, err
		}
		n.Items = append(n.Items, item)
	}
	return n, nil
}

func convertMapping(values []*ast.MappingValueNode, at Place, depth int) (Node, error) {
	n := Node{Kind: Mapping, At: at}
	for i, v := range values {
		keyAt := placeOf(v.Key.GetToken())
		if i == 0 {
			n.At = keyAt // the parser's own place is that of a colon
		}
		key, err := keyText(v.Key)
		if err != nil {
			return Node{}, err
		}
		if _, twice := n.Get(key); twice {
			return Node{}, &placedError{at: keyAt, msg: fmt.Sprintf("key %q is here twice", Clip(key))}
		}
		value, err := convert(v.Value, depth+1)
		if err != nil {
			return Node{}, err
		}
		n.Members = append(n.Members, Member{Key: key, At: keyAt, Value: value})
	}
	return n, nil
}

func keyText(key ast.MapKeyNode) (string, error) {
	switch key := key.(type) {
	case *ast.StringNode:
		return key.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return key.GetToken().Value, nil
	}
	return "", &placedError{at: placeOf(key.GetToken()), msg: "only plain text can be a key here: quote it"}
}

// Clip makes a name fit for a message: short, and hidden if somebody pasted a
// key where a name belongs.
func Clip(s string) string {
	const most = 40 // characters
	if secret.LooksLikeKey("", s) {
		return secret.Mask
	}
	r := []rune(strings.ToValidUTF8(s, "�"))
	if len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(r)
}
