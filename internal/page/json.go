package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseJSON reads one JSON value. Its nodes have paths, such as $.files.env,
// in place of lines. Names that occur twice are refused.
func ParseJSON(file string, src []byte) (Node, []Fault) {
	if len(src) > MaxYAMLBytes {
		return Node{}, []Fault{{File: file, Msg: fmt.Sprintf("larger than %d KiB", MaxYAMLBytes>>10)}}
	}
	d := &Decoder{File: file}
	dec := jsontext.NewDecoder(bytes.NewReader(src))
	n, err := readJSON(dec, "$", 0)
	if err == nil {
		if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
			return n, nil
		}
		err = &placedError{at: Place{Path: "$"}, msg: "something follows the JSON value"}
	}
	var at *placedError
	if !errors.As(err, &at) {
		// The decoder's own text may quote a value.
		at = &placedError{at: Place{Path: "$"}, msg: fmt.Sprintf("not valid JSON at byte %d", dec.InputOffset())}
		if errors.Is(err, jsontext.ErrDuplicateName) {
			at.msg = fmt.Sprintf("a name occurs twice at byte %d", dec.InputOffset())
		}
	}
	d.Errorf(at.at, "%s", at.msg)
	return Node{}, d.Faults
}

func readJSON(dec *jsontext.Decoder, path string, depth int) (Node, error) {
	at := Place{Path: path}
	if depth > maxNesting {
		return Node{}, &placedError{at: at, msg: fmt.Sprintf("nested more than %d deep", maxNesting)}
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return Node{}, err
	}
	switch tok.Kind() {
	case 'n':
		return Node{Kind: Null, At: at}, nil
	case 't', 'f':
		return Node{Kind: Bool, At: at, Text: tok.String()}, nil
	case '0':
		return Node{Kind: Number, At: at, Text: tok.String()}, nil
	case '"':
		return Node{Kind: Text, At: at, Text: tok.String()}, nil
	case '[':
		return readJSONList(dec, path, depth)
	}
	return readJSONMapping(dec, path, depth)
}

func readJSONList(dec *jsontext.Decoder, path string, depth int) (Node, error) {
	n := Node{Kind: List, At: Place{Path: path}}
	for dec.PeekKind() != ']' {
		item, err := readJSON(dec, fmt.Sprintf("%s[%d]", path, len(n.Items)), depth+1)
		if err != nil {
			return Node{}, err
		}
		n.Items = append(n.Items, item)
	}
	_, err := dec.ReadToken()
	return n, err
}

func readJSONMapping(dec *jsontext.Decoder, path string, depth int) (Node, error) {
	n := Node{Kind: Mapping, At: Place{Path: path}}
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return Node{}, err
		}
		key := tok.String()
		at := path + "." + Clip(key)
		value, err := readJSON(dec, at, depth+1)
		if err != nil {
			return Node{}, err
		}
		n.Members = append(n.Members, Member{Key: key, At: Place{Path: at}, Value: value})
	}
	_, err := dec.ReadToken()
	return n, err
}
