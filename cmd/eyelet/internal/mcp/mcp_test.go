package mcp

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func testServer() *Server {
	echo := func(_ context.Context, args map[string]string) (string, error) {
		if args["word"] == "fail" {
			return "", errors.New("no server runs")
		}
		return args["word"] + args["count"] + strings.Repeat("x", len(args["long"])*maxResult), nil
	}
	return &Server{Name: "eyelet", Version: "v1", Instructions: "look", Tools: []Tool{
		Reads("echo", "Echoes.", map[string]Property{
			"word": {Type: "string"}, "count": {Type: "integer"}, "long": {Type: "string"},
			"state": {Type: "string", Enum: []string{"dead"}},
		}, []string{"word"}, echo),
		Reads("counts", "Counts.", nil, nil, echo),
	}}
}

func TestMessagesAreAnswered(t *testing.T) {
	t.Parallel()
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`
	}
	initialize := func(revision string) string {
		return `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"` + revision + `"}}`
	}
	for name, c := range map[string]struct{ line, want string }{
		"revision": {
			initialize("2025-03-26"),
			`"id":"a","result":{"capabilities":{"tools":{}},"instructions":"look",` +
				`"protocolVersion":"2025-03-26","serverInfo":{"name":"eyelet","version":"v1"}}`,
		},
		"later revision": {initialize("2030-01-01"), `"protocolVersion":"2025-06-18"`},
		"notification":   {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		"empty line":     {"  ", ""},
		"ping":           {`{"jsonrpc":"2.0","id":7,"method":"ping"}`, `{"jsonrpc":"2.0","id":7,"result":{}}`},
		"tools": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			`{"name":"counts","description":"Counts.","inputSchema":{"type":"object","properties":{},` +
				`"additionalProperties":false},"annotations":{"readOnlyHint":true}}`,
		},
		"call": {
			call(`{"name":"echo","arguments":{"word":"<a>","count":3}}`),
			`{"content":[{"text":"<a>3","type":"text"}],"isError":false}`,
		},
		"error of call": {
			call(`{"name":"echo","arguments":{"word":"fail"}}`),
			`{"content":[{"text":"no server runs","type":"text"}],"isError":true}`,
		},
		"unknown tool":   {call(`{"name":"drop"}`), `{"code":-32602,"message":"the tool \"drop\" is unknown"}`},
		"missing":        {call(`{"name":"echo","arguments":{}}`), `"the argument \"word\" is missing"`},
		"other argument": {call(`{"name":"counts","arguments":{"word":"a"}}`), `"the argument \"word\" is unknown"`},
		"wrong type": {
			call(`{"name":"echo","arguments":{"word":3}}`),
			`"the argument \"word\" is not a value of type string"`,
		},
		"text as number": {
			call(`{"name":"echo","arguments":{"word":"a","count":"3"}}`),
			`not a value of type integer`,
		},
		"not listed": {call(`{"name":"echo","arguments":{"word":"a","state":"x"}}`), `is not one of [\"dead\"]`},
		"no params":  {`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `-32602`},
		"unknown method": {
			`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`,
			`{"code":-32601,"message":"the method \"resources/list\" is unknown"}`,
		},
		"not JSON":      {`{"jsonrpc"`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`},
		"batch":         {`[]`, `-32600`},
		"other version": {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, `-32600`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := testServer().Serve(t.Context(), strings.NewReader(c.line+"\n"), &out); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if !strings.Contains(got, c.want) || (c.want == "") != (got == "") || strings.Count(got, "\n") > 1 {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestALongResultIsCutAndALongMessageRefused(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	line := `{"jsonrpc":"2.0","id":1,"method":"tools/call",` +
		`"params":{"name":"echo","arguments":{"word":"a","long":"ab"}}}`
	if err := testServer().Serve(t.Context(), strings.NewReader(line+"\n"+line), &out); err != nil {
		t.Fatal(err)
	}
	if n := out.Len(); n < 2*maxResult || n > 2*(maxResult+200) || strings.Count(out.String(), `x\n(cut)"`) != 2 {
		t.Errorf("two results have %d bytes", n)
	}
	err := testServer().Serve(t.Context(), strings.NewReader(strings.Repeat(" ", maxMessage+1)), &out)
	if err == nil || err.Error() != "a message has more than 1024 KiB" {
		t.Error(err)
	}
}
