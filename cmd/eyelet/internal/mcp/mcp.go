// Package mcp serves tools to a coding agent, by the Model Context Protocol over standard input and
// output: messages of JSON-RPC 2.0, one per line (revision 2025-06-18, sections Lifecycle,
// Transports and Tools).
package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	maxMessage = 1 << 20   // bytes of a message of the client
	maxResult  = 256 << 10 // bytes of the text of a result
)

// revisions are those that are served alike, newest first.
var revisions = []string{"2025-06-18", "2025-03-26", "2024-11-05"}

// The error codes of JSON-RPC 2.0, section 5.1.
const (
	codeParse   = -32700
	codeRequest = -32600
	codeMethod  = -32601
	codeParams  = -32602
)

// Server serves tools.
type Server struct {
	Name, Version string
	Instructions  string // for the agent
	Tools         []Tool
}

// Tool is a function that a client calls by its name. It only reads.
type Tool struct {
	Name        string                                                            `json:"name"`
	Description string                                                            `json:"description"`
	Schema      Schema                                                            `json:"inputSchema"`
	Annotations map[string]bool                                                   `json:"annotations"`
	Call        func(ctx context.Context, args map[string]string) (string, error) `json:"-"`
}

// Schema describes the arguments of a tool, which are text or whole numbers. Call gets both as
// text.
type Schema struct {
	Type       string              `json:"type"` // "object"
	Properties map[string]Property `json:"properties"`
	Required   []string            `json:"required,omitempty"`
	Additional bool                `json:"additionalProperties"`
}

// Property describes an argument.
type Property struct {
	Type        string   `json:"type"` // "string" or "integer"
	Description string   `json:"description"`
	Enum        []string `json:"enum,omitempty"`
}

// Reads returns a tool with the properties of its arguments, of which some are required.
func Reads(name, description string, properties map[string]Property, required []string,
	call func(context.Context, map[string]string) (string, error)) Tool {
	if properties == nil {
		properties = map[string]Property{}
	}
	return Tool{
		Name: name, Description: description, Annotations: map[string]bool{"readOnlyHint": true}, Call: call,
		Schema: Schema{Type: "object", Properties: properties, Required: required},
	}
}

type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // missing in a notification
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

// failure is the error of a request that cannot be served.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (f *failure) Error() string { return f.Message }

// Serve answers the messages of in until it ends or ctx does. The error is that of in or out.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage)
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for ctx.Err() == nil && lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if answer := s.answer(ctx, lines.Bytes()); answer != nil {
			if err := answers.Encode(answer); err != nil {
				return err
			}
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a message has more than %d KiB", maxMessage>>10)
	}
	return lines.Err()
}

// answer returns the response to a message; nil for a notification.
func (s *Server) answer(ctx context.Context, line []byte) *response {
	var r request
	a := &response{Version: "2.0", ID: json.RawMessage("null")}
	switch {
	case !json.Valid(line):
		a.Error = &failure{codeParse, "the message is not JSON"}
		return a
	case json.Unmarshal(line, &r) != nil || r.Version != "2.0" || r.Method == "":
		a.Error = &failure{codeRequest, "the message is not a request of JSON-RPC 2.0"}
		return a
	case len(r.ID) == 0:
		return nil
	}
	a.ID = r.ID
	result, err := s.serve(ctx, r)
	if err != nil {
		a.Error = err
		return a
	}
	a.Result = result
	return a
}

func (s *Server) serve(ctx context.Context, r request) (any, *failure) {
	switch r.Method {
	case "initialize":
		var p struct {
			Revision string `json:"protocolVersion"`
		}
		if json.Unmarshal(r.Params, &p) != nil {
			return nil, &failure{codeParams, "initialize needs the protocolVersion"}
		}
		if !slices.Contains(revisions, p.Revision) {
			p.Revision = revisions[0]
		}
		return map[string]any{
			"protocolVersion": p.Revision, "capabilities": map[string]any{"tools": struct{}{}},
			"serverInfo":   map[string]string{"name": s.Name, "version": s.Version},
			"instructions": s.Instructions,
		}, nil
	case "ping":
		return struct{}{}, nil
	case "tools/list":
		return map[string]any{"tools": s.Tools}, nil
	case "tools/call":
		return s.call(ctx, r.Params)
	}
	return nil, &failure{codeMethod, fmt.Sprintf("the method %q is unknown", r.Method)}
}

// call calls a tool. Its error is a result, which the agent reads.
func (s *Server) call(ctx context.Context, params json.RawMessage) (any, *failure) {
	var p struct {
		Name      string
		Arguments map[string]any
	}
	decode := json.NewDecoder(bytes.NewReader(params))
	decode.UseNumber()
	if decode.Decode(&p) != nil {
		return nil, &failure{codeParams, "tools/call needs the name and the arguments of a tool"}
	}
	at := slices.IndexFunc(s.Tools, func(t Tool) bool { return t.Name == p.Name })
	if at < 0 {
		return nil, &failure{codeParams, fmt.Sprintf("the tool %q is unknown", p.Name)}
	}
	t := s.Tools[at]
	args, err := t.Schema.read(p.Arguments)
	if err != nil {
		return nil, &failure{codeParams, err.Error()}
	}
	text, err := t.Call(ctx, args)
	if err != nil {
		text = err.Error()
	}
	if len(text) > maxResult {
		text = text[:maxResult] + "\n(cut)"
	}
	content := []map[string]string{{"type": "text", "text": text}}
	return map[string]any{"content": content, "isError": err != nil}, nil
}

// read returns the arguments as text.
func (s Schema) read(given map[string]any) (map[string]string, error) {
	args := map[string]string{}
	for name, value := range given {
		property, ok := s.Properties[name]
		text, isText := value.(string)
		number, isNumber := value.(json.Number)
		switch {
		case !ok:
			return nil, fmt.Errorf("the argument %q is unknown", name)
		case isText && property.Type == "string":
		case isNumber && property.Type == "integer":
			text = number.String()
		default:
			return nil, fmt.Errorf("the argument %q is not a value of type %s", name, property.Type)
		}
		if len(property.Enum) > 0 && !slices.Contains(property.Enum, text) {
			return nil, fmt.Errorf("the argument %q is not one of %q", name, property.Enum)
		}
		args[name] = text
	}
	for _, name := range s.Required {
		if args[name] == "" {
			return nil, fmt.Errorf("the argument %q is missing", name)
		}
	}
	return args, nil
}
