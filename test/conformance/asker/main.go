// Asker is a server for the conformance suite's scenarios in which a server asks
// its client something. It asks as the era of its client does: by results that
// require input, or by requests of its own while it holds the call.
//
//	asker                 # on standard input and output
//	asker -http ADDRESS   # with sessions, or without: -stateless
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tool asks a question in each round, and then answers.
type tool struct {
	name   string
	rounds []question
}

// arguments are those that a tool's questions are made of.
type arguments struct{ Prompt, Message string }

type question func(arguments) (key string, q mcp.InputRequest)

// elicit asks for raw properties; an empty message is the caller's.
func elicit(key, message, schema string) question {
	var properties map[string]any
	if err := json.Unmarshal([]byte(schema), &properties); err != nil {
		log.Fatal(err)
	}
	return func(args arguments) (string, mcp.InputRequest) {
		return key, &mcp.ElicitParams{Message: message + args.Message, RequestedSchema: map[string]any{"type": "object", "properties": properties}}
	}
}

func sample(args arguments) (string, mcp.InputRequest) {
	content := &mcp.TextContent{Text: args.Prompt}
	return "answer", &mcp.CreateMessageParams{Messages: []*mcp.SamplingMessage{{Role: "user", Content: content}}, MaxTokens: 100}
}

const (
	defaults = `{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}`
	choices = `[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]`
	enums   = `{"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},"titledSingle":{"type":"string","oneOf":` + choices + `},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","anyOf":` + choices + `}}}`
	name = `{"name":{"type":"string"}}`
)

var tools = []tool{
	{"test_sampling", []question{sample}},
	{"test_elicitation", []question{elicit("user", "", `{"username":{"type":"string"},"email":{"type":"string"}}`)}},
	{"test_elicitation_sep1034_defaults", []question{elicit("all", "Is this right?", defaults)}},
	{"test_elicitation_sep1330_enums", []question{elicit("choice", "Which?", enums)}},
	{"test_input_required_result_multi_round", []question{
		elicit("step1", "What is your name?", name), elicit("step2", "Which color?", `{"color":{"type":"string"}}`),
	}},
}

func main() {
	address := flag.String("http", "", "serve at `ADDRESS`")
	stateless := flag.Bool("stateless", true, "without sessions")
	flag.Parse()
	s := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1.0.0"}, nil)
	for _, t := range tools {
		s.AddTool(&mcp.Tool{Name: t.name, InputSchema: map[string]any{"type": "object"}}, t.call)
	}
	if *address == "" {
		if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Fatal(err)
		}
		return
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: *stateless})
	log.Fatal(http.ListenAndServe(*address, handler))
}

func (t tool) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args arguments
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	if p := req.Session.InitializeParams(); p != nil && p.ProtocolVersion < "2026-07-28" {
		return t.hold(ctx, req.Session, args)
	}
	round, _ := strconv.Atoi(req.Params.RequestState) //nolint:errcheck // none is 0
	if len(req.Params.InputResponses) > 0 {
		round++
	}
	if round == len(t.rounds) {
		return answer(fmt.Sprint(req.Params.InputResponses)), nil
	}
	key, q := t.rounds[round](args)
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{key: q}, RequestState: strconv.Itoa(round)}, nil
}

// hold asks while it holds the call.
func (t tool) hold(ctx context.Context, s *mcp.ServerSession, args arguments) (*mcp.CallToolResult, error) {
	var last any
	for _, round := range t.rounds {
		_, q := round(args)
		var err error
		switch q := q.(type) {
		case *mcp.ElicitParams:
			last, err = s.Elicit(ctx, q)
		case *mcp.CreateMessageParams:
			last, err = s.CreateMessage(ctx, q)
		}
		if err != nil {
			return nil, err
		}
	}
	return answer(fmt.Sprintf("%+v", last)), nil
}

func answer(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
