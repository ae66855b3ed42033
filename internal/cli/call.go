package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/app"
	"github.com/toolcrib/toolcrib/internal/cli/mcp"
	"github.com/toolcrib/toolcrib/internal/cli/running"
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

func (e *env) call(ctx context.Context, given []string, asJSON bool) error {
	tool := parseTool(given[0])
	arguments, err := e.arguments(given[1:])
	if err != nil {
		return err
	}
	cfg, err := e.config()
	if err != nil {
		return err
	}
	return e.place(cfg).With(ctx, func(c *running.Crib) error {
		m, err := c.MCP.Call(ctx, tool.path, tool.name, arguments)
		if err != nil {
			return err
		}
		if asJSON {
			out := m.Result.In(m.Body)
			if m.Error.OK() {
				out = slices.Concat([]byte(`{"error":`), m.Error.In(m.Body), []byte("}"))
			}
			if err := e.writeRaw(out); err != nil {
				return err
			}
		}
		return e.outcome(ctx, c, tool, m, asJSON)
	})
}

// calledTool is a tool as a person named it.
type calledTool struct {
	path    string // of the endpoint
	name    string // at the endpoint
	written string // on the command line
}

func parseTool(written string) calledTool {
	if a, err := crib.ParseAddress(written); err == nil {
		return calledTool{mcp.Endpoint(a.Server), a.Tool, written}
	}
	return calledTool{mcp.Endpoint(""), written, written}
}

// arguments returns the JSON object that the command line gives.
func (e *env) arguments(given []string) ([]byte, error) {
	raw := []byte("{}")
	switch {
	case len(given) == 1 && given[0] == "-":
		var err error
		if raw, err = io.ReadAll(io.LimitReader(e.in, maxArguments+1)); err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
		if len(raw) > maxArguments {
			return nil, crib.Errorf(crib.TooLarge, "the arguments are larger than %d bytes", maxArguments)
		}
	case len(given) == 1:
		raw = []byte(given[0])
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, usagef(`the arguments must be a JSON object, such as '{"path":"README.md"}'`)
	}
	if !jsontext.Value(raw).IsValid() {
		return nil, usagef("the arguments are not valid JSON, or have a name twice")
	}
	return raw, nil
}

// outcome prints the answer to a call, unless that was done, and says how the
// command ends.
func (e *env) outcome(ctx context.Context, c *running.Crib, t calledTool, m wire.Message, printed bool) error {
	if m.Error.OK() {
		_, err := mcp.Result(m)
		if gated, address := deniedTool(ctx, c, t); gated {
			return crib.Errorf(crib.Denied, "%s is refused: its gate says deny", address)
		}
		return fmt.Errorf("call %s: %w", t.written, err)
	}
	res := m.Result.In(m.Body)
	if kind, ok := wire.GetText(res, "resultType"); ok && kind == "input_required" {
		return crib.Errorf(crib.Unsupported, "%s wants to ask a person something in the middle of the call, which this command cannot pass on; call it from a client that can", t.written)
	}
	failed := mcp.IsError(res)
	if code, ok := wire.GetText(wire.Get(res, "_meta"), wire.MetaCode); ok && failed {
		return crib.Errorf(crib.Code(code), "%s", strings.Join(mcp.Texts(res), "\n"))
	}
	if !printed {
		for _, part := range mcp.Texts(res) {
			e.tell("%s", strings.TrimSuffix(part, "\n"))
		}
	}
	if failed {
		return &exitError{exitTool, fmt.Errorf("%s answered with an error", t.written)}
	}
	return nil
}

// deniedTool reports whether the gate of t denies it, which to a client looks
// as if there were no such tool. Its owner may know.
func deniedTool(ctx context.Context, c *running.Crib, t calledTool) (bool, string) {
	st, err := c.Operator.Status(ctx)
	if err != nil {
		return false, ""
	}
	for _, s := range st.Servers {
		i := slices.IndexFunc(s.Tools, func(info app.ToolInfo) bool { return info.Address == t.written || info.Public == t.written })
		if i >= 0 && s.Tools[i].Gate == string(crib.Deny) {
			return true, s.Tools[i].Address
		}
	}
	return false, ""
}
