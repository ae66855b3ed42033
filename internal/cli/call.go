package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/crib"
	"github.com/toolcrib/toolcrib/internal/wire"
)

// maxArguments is the greatest size, in bytes, of arguments on standard input:
// what the crib takes as one request.
const maxArguments = 16 << 20

func (e *env) callCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "call TOOL [ARGUMENTS | -]", GroupID: groupUse, Args: args(cobra.RangeArgs(1, 2)),
		Short: "Call a tool",
		Long: `Call a tool by its address, mcp.SERVER.TOOL, or by the name that clients of all
servers see, SERVER__TOOL. ARGUMENTS is a JSON object; - reads it from standard
input, and none is {}. If no crib is running, one is started for the call.

The text of the answer is printed with control and invisible characters
escaped. With --json the whole result is printed as the server sent it.

If the tool answers with an error, the exit code is 4; if its gate refuses the
call, 5.`,
		Example: `  toolcrib call mcp.files.read_file '{"path":"README.md"}'
  echo '{"query":"crib"}' | toolcrib call search__web -`,
		RunE: func(cmd *cobra.Command, given []string) error { return e.call(cmd.Context(), given, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as the server sent it")
	cmd.ValidArgsFunction = e.completeTools
	return cmd
}

func (e *env) call(ctx context.Context, given []string, asJSON bool) (err error) {
	tool := parseTool(given[0])
	arguments, err := e.arguments(given[1:])
	if err != nil {
		return err
	}
	cfg, err := e.config()
	if err != nil {
		return err
	}
	c, err := e.attach(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, c.end()) }()
	m, err := callTool(ctx, c.mcp, tool, arguments)
	if err != nil {
		return err
	}
	if asJSON {
		out := m.Result.In(m.Body)
		if m.Error.OK() {
			out = slices.Concat([]byte(`{"error":`), m.Error.In(m.Body), []byte("}"))
		}
		err = e.writeRaw(out)
	}
	return firstOf(err, e.outcome(ctx, c, tool, m, asJSON))
}

// calledTool is a tool as a person named it.
type calledTool struct {
	path string // of the endpoint
	name string // at the endpoint
	text string // as it was written
}

func parseTool(text string) calledTool {
	if a, err := crib.ParseAddress(text); err == nil {
		return calledTool{endpoint(a.Server), a.Tool, text}
	}
	return calledTool{endpoint(""), text, text}
}

// arguments returns the JSON object that the command line gives.
func (e *env) arguments(given []string) ([]byte, error) {
	text := []byte("{}")
	switch {
	case len(given) == 1 && given[0] == "-":
		var err error
		if text, err = io.ReadAll(io.LimitReader(e.in, maxArguments+1)); err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
		if len(text) > maxArguments {
			return nil, crib.Errorf(crib.TooLarge, "the arguments are larger than %d bytes", maxArguments)
		}
	case len(given) == 1:
		text = []byte(given[0])
	}
	text = []byte(strings.TrimSpace(string(text)))
	if len(text) == 0 || text[0] != '{' {
		return nil, usagef(`the arguments must be a JSON object, such as '{"path":"README.md"}'`)
	}
	if !jsontext.Value(text).IsValid() {
		return nil, usagef("the arguments are not valid JSON, or have a name twice")
	}
	return text, nil
}

// callTool calls a tool. A server that wants arguments mirrored into headers
// says so by its schema, which is read when the call was refused for the want
// of them (2026-07-28, Streamable HTTP, Server Validation).
func callTool(ctx context.Context, c *mcpClient, t calledTool, arguments []byte) (wire.Message, error) {
	params := slices.Concat([]byte(`{"name":`), wire.Quote(t.name), []byte(`,"arguments":`), arguments, []byte("}"))
	m, err := c.modern(ctx, t.path, "tools/call", params, nil)
	if err != nil || !m.Error.OK() || wire.ReadError(m.Error.In(m.Body)).Code != wire.CodeHeaderMismatch {
		return m, err
	}
	tools, err := listTools(ctx, c, t.path)
	if err != nil {
		return m, err
	}
	i := slices.IndexFunc(tools, func(listed wireTool) bool { return listed.name == t.name })
	if i < 0 {
		return m, nil
	}
	mirrored, err := wire.ParamHeaders(wire.Get(tools[i].raw, "inputSchema"))
	if err != nil {
		return m, err
	}
	h := http.Header{}
	if err := wire.SetParams(h, mirrored, arguments); err != nil {
		return m, crib.Errorf(crib.Invalid, "%v", err)
	}
	return c.modern(ctx, t.path, "tools/call", params, h)
}

// metaCode is where the crib says which of its own errors an answer is.
const metaCode = "io.toolcrib/code"

// outcome prints the answer to a call, unless that was done, and says how the
// command ends.
func (e *env) outcome(ctx context.Context, c *attached, t calledTool, m wire.Message, printed bool) error {
	if m.Error.OK() {
		err := rpcError(wire.ReadError(m.Error.In(m.Body)))
		if gated, address := deniedTool(ctx, c, t); gated {
			return crib.Errorf(crib.Denied, "%s is refused: its gate says deny", address)
		}
		return fmt.Errorf("call %s: %w", t.text, err)
	}
	res := m.Result.In(m.Body)
	if kind, ok := wire.GetText(res, "resultType"); ok && kind == "input_required" {
		return crib.Errorf(crib.Unsupported, "%s wants to ask a person something in the middle of the call, which this command cannot pass on; call it from a client that can", t.text)
	}
	failed := string(wire.Get(res, "isError")) == "true"
	if code, ok := wire.GetText(wire.Get(res, "_meta"), metaCode); ok && failed {
		return crib.Errorf(crib.Code(code), "%s", strings.Join(contentTexts(res), "\n"))
	}
	if !printed {
		for _, text := range contentTexts(res) {
			fmt.Fprintln(e.out, visible(strings.TrimSuffix(text, "\n")))
		}
	}
	if failed {
		return &exitError{exitTool, fmt.Errorf("%s answered with an error", t.text)}
	}
	return nil
}

// deniedTool reports whether the gate of t denies it, which to a client looks
// as if there were no such tool. Its owner may know.
func deniedTool(ctx context.Context, c *attached, t calledTool) (bool, string) {
	st, err := c.operator.Status(ctx)
	if err != nil {
		return false, ""
	}
	for _, s := range st.Servers {
		i := slices.IndexFunc(s.Tools, func(info app.ToolInfo) bool { return info.Address == t.text || info.Public == t.text })
		if i >= 0 && s.Tools[i].Gate == string(crib.Deny) {
			return true, s.Tools[i].Address
		}
	}
	return false, ""
}

// contentTexts are the parts of a result as a person reads them.
func contentTexts(res []byte) []string {
	var texts []string
	content := wire.Get(res, "content")
	for _, at := range wire.Elements(content) {
		texts = append(texts, contentText(content[at.From:at.To]))
	}
	if texts == nil {
		if structured := wire.Get(res, "structuredContent"); structured != nil {
			texts = append(texts, string(structured))
		}
	}
	return texts
}

func contentText(part []byte) string {
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
