package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// Tool is a tool as the endpoint lists it.
type Tool struct {
	Name, Description string
	Raw               []byte // the whole definition
}

// Tools lists the tools of an endpoint.
func (c *Client) Tools(ctx context.Context, path string) ([]Tool, error) {
	m, err := c.Modern(ctx, path, "tools/list", []byte("{}"), nil)
	if err != nil {
		return nil, err
	}
	res, err := Result(m)
	if err != nil {
		return nil, err
	}
	var tools []Tool
	list := wire.Get(res, "tools")
	for _, at := range wire.Elements(list) {
		t := Tool{Raw: list[at.From:at.To]}
		t.Name, _ = wire.GetText(t.Raw, "name")
		t.Description, _ = wire.GetText(t.Raw, "description")
		tools = append(tools, t)
	}
	return tools, nil
}

// Call calls the tool name of an endpoint. A server that wants arguments
// mirrored into headers says so by its schema, which is read when the call was
// refused for the want of them (2026-07-28, Streamable HTTP, Server
// Validation).
func (c *Client) Call(ctx context.Context, path, name string, arguments []byte) (wire.Message, error) {
	params := callParams(name, arguments)
	m, err := c.Modern(ctx, path, "tools/call", params, nil)
	if err != nil || !m.Error.OK() || wire.ReadError(m.Error.In(m.Body)).Code != wire.CodeHeaderMismatch {
		return m, err
	}
	tools, err := c.Tools(ctx, path)
	if err != nil {
		return m, err
	}
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return m, nil
	}
	mirrored, err := wire.ParamHeaders(wire.Get(tools[i].Raw, "inputSchema"))
	if err != nil {
		return m, err
	}
	h := http.Header{}
	if err := wire.SetParams(h, mirrored, arguments); err != nil {
		return m, crib.Errorf(crib.Invalid, "%v", err)
	}
	return c.Modern(ctx, path, "tools/call", params, h)
}

func callParams(name string, arguments []byte) []byte {
	return slices.Concat([]byte(`{"name":`), wire.Quote(name), []byte(`,"arguments":`), arguments, []byte("}"))
}

// IsError reports whether the result of a call says that the tool failed.
func IsError(res []byte) bool { return string(wire.Get(res, "isError")) == "true" }

// Texts are the parts of the result of a call as a person reads them.
func Texts(res []byte) []string {
	var texts []string
	content := wire.Get(res, "content")
	for _, at := range wire.Elements(content) {
		texts = append(texts, partText(content[at.From:at.To]))
	}
	if texts == nil {
		if structured := wire.Get(res, "structuredContent"); structured != nil {
			texts = append(texts, string(structured))
		}
	}
	return texts
}

func partText(part []byte) string {
	kind, _ := wire.GetText(part, "type")
	switch kind {
	case "text":
		text, _ := wire.GetText(part, "text")
		return text
	case "resource_link":
		uri, _ := wire.GetText(part, "uri")
		return uri
	case "resource":
		inner := wire.Get(part, "resource")
		if text, ok := wire.GetText(inner, "text"); ok {
			return text
		}
		uri, _ := wire.GetText(inner, "uri")
		return fmt.Sprintf("[resource %s; --json has its content]", uri)
	}
	mime, _ := wire.GetText(part, "mimeType")
	return fmt.Sprintf("[%s; --json has its content]", strings.TrimSpace(kind+" "+mime))
}
