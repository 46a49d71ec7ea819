package sink

import (
	"context"
	"encoding/base64"
	"maps"
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

// lines holds the memory of lines that were written, up to keptLine bytes each.
var lines = sync.Pool{New: func() any { return new([]byte) }}

const keptLine = 64 << 10

// Deliver implements [Sink].
func (s Stdout) Deliver(_ context.Context, ev receiver.Event[[]byte]) error {
	memory := lines.Get().(*[]byte)
	line, err := appendLine((*memory)[:0], &ev)
	if err == nil {
		err = s.Out.write(line)
	}
	if cap(line) <= keptLine {
		*memory = line
		lines.Put(memory)
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

// appendLine appends the line of an event, as encoding/json writes it. A payload that is JSON is
// its "data", compactly; other text is "text", and other bytes are "body", in base64.
func appendLine(b []byte, ev *receiver.Event[[]byte]) (_ []byte, err error) {
	b = appendText(b, `{"id":`, ev.ID)
	if ev.VendorID != "" {
		b = appendText(b, `,"vendor_id":`, ev.VendorID)
	}
	b = appendText(b, `,"event":`, ev.EventID)
	b = appendText(b, `,"producer":`, ev.Producer)
	b = appendText(b, `,"endpoint":`, ev.Endpoint)
	b = appendText(b, `,"type":`, ev.Type)
	b = strconv.AppendInt(append(b, `,"attempt":`...), int64(ev.Attempt), 10)
	if ev.Tenant != "" {
		b = appendText(b, `,"tenant":`, ev.Tenant)
	}
	if ev.Fetched {
		b = append(b, `,"fetched":true`...)
	}
	if ev.Unverified {
		b = append(b, `,"unverified":true`...)
	}
	if b, err = ev.Accepted.UTC().AppendText(append(b, `,"accepted":"`...)); err != nil {
		return b, err
	}
	b = append(b, '"')
	if len(ev.Attributes) > 0 {
		b = appendAttributes(append(b, `,"attributes":`...), ev.Attributes)
	}
	return append(appendPayload(b, ev.Body), "}\n"...), nil
}

func appendText(b []byte, name, value string) []byte {
	return strictjson.Quote(append(b, name...), value)
}

func appendAttributes(b []byte, all map[string]string) []byte {
	var few [8]string
	names := slices.AppendSeq(few[:0], maps.Keys(all))
	slices.Sort(names)
	before := byte('{')
	for _, name := range names {
		b = appendText(strictjson.Quote(append(b, before), name), ":", all[name])
		before = ','
	}
	return append(b, '}')
}

func appendPayload(b, body []byte) []byte {
	whole, err := strictjson.AppendCompact(append(b, `,"data":`...), body)
	switch {
	case err == nil:
		return whole
	case len(body) == 0:
		return b
	case utf8.Valid(body):
		return appendText(b, `,"text":`, string(body))
	}
	return append(base64.StdEncoding.AppendEncode(append(b, `,"body":"`...), body), '"')
}
