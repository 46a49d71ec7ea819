package sink

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Stdout prints each event as a line of JSON.
type Stdout struct{ Out *Output }

// maxKept bounds the buffers of lines that are used again, in bytes.
const maxKept = 1 << 20

// buffers holds the buffers of written lines.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Deliver implements [Sink].
func (s Stdout) Deliver(_ context.Context, ev receiver.Event[[]byte]) error {
	buffer := buffers.Get().(*[]byte)
	line, err := appendLine((*buffer)[:0], &ev)
	if err == nil {
		line, err = s.Out.write(line)
	}
	if cap(line) <= maxKept {
		*buffer = line
		buffers.Put(buffer)
	}
	if readerGone(err) {
		return receiver.Postpone(0, err) // no attempt of this process can print it
	}
	return err
}

// Answer implements [Sink].
func (s Stdout) Answer(ctx context.Context, ev receiver.Event[[]byte]) (receiver.Response, error) {
	return receiver.Response{Status: http.StatusNoContent}, s.Deliver(ctx, ev)
}

// appendLine appends the line of an event to b.
func appendLine(b []byte, ev *receiver.Event[[]byte]) ([]byte, error) {
	b = appendMember(b, `{"id":`, ev.ID)
	if ev.VendorID != "" {
		b = appendMember(b, `,"vendor_id":`, ev.VendorID)
	}
	b = appendMember(b, `,"event":`, ev.EventID)
	b = appendMember(b, `,"producer":`, ev.Producer)
	b = appendMember(b, `,"endpoint":`, ev.Endpoint)
	b = appendMember(b, `,"type":`, ev.Type)
	b = append(b, `,"attempt":`...)
	b = strconv.AppendInt(b, int64(ev.Attempt), 10)
	b = append(b, `,"accepted":"`...)
	b, err := ev.Accepted.UTC().AppendText(b)
	b = append(b, '"')
	b = appendAttributes(b, ev.Attributes)
	b = appendBody(b, ev.Body)
	return append(b, "}\n"...), err
}

// appendAttributes appends the attributes, if there are any, in the order of their names.
func appendAttributes(b []byte, attributes map[string]string) []byte {
	if len(attributes) == 0 {
		return b
	}
	names := make([]string, 0, 16) // usually all, on the stack
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	before := `,"attributes":{`
	for _, name := range names {
		b = appendMember(b, before, name)
		b = appendMember(b, ":", attributes[name])
		before = ","
	}
	return append(b, '}')
}

// appendBody appends a JSON payload as compact data, other text as text, and other bytes as body,
// in base64.
func appendBody(b, body []byte) []byte {
	var data bytes.Buffer
	if json.Compact(&data, body) == nil {
		line := bytes.NewBuffer(append(b, `,"data":`...))
		json.HTMLEscape(line, data.Bytes())
		return line.Bytes()
	}
	switch {
	case len(body) == 0:
		return b
	case utf8.Valid(body):
		return appendMember(b, `,"text":`, string(body))
	}
	b = append(b, `,"body":"`...)
	return append(base64.StdEncoding.AppendEncode(b, body), '"')
}

// appendMember appends the text before a string, and the string.
func appendMember(b []byte, before, value string) []byte {
	return strictjson.Quote(append(b, before...), value)
}
