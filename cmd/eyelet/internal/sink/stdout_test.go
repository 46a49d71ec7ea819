package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/receiver"
)

// printed is the line of an event as encoding/json writes it, without data, where a payload that is
// JSON is. Other text is in text, and other bytes are in body, in base64.
type printed struct {
	ID         string            `json:"id"`
	VendorID   string            `json:"vendor_id,omitempty"`
	Event      string            `json:"event"`
	Producer   string            `json:"producer"`
	Endpoint   string            `json:"endpoint"`
	Type       string            `json:"type"`
	Attempt    int               `json:"attempt"`
	Tenant     string            `json:"tenant,omitempty"`
	Fetched    bool              `json:"fetched,omitempty"`
	Unverified bool              `json:"unverified,omitempty"`
	Accepted   time.Time         `json:"accepted"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Text       string            `json:"text,omitempty"`
	Body       []byte            `json:"body,omitempty"`
}

// referenceLine is appendLine, which reads JSON before it writes it.
func referenceLine(ev *receiver.Event[[]byte]) (string, error) {
	p := printed{
		ID: ev.ID, VendorID: ev.VendorID, Event: ev.EventID, Producer: ev.Producer, Endpoint: ev.Endpoint,
		Type: ev.Type, Attempt: ev.Attempt, Accepted: ev.Accepted.UTC(), Attributes: ev.Attributes,
		Tenant: ev.Tenant, Fetched: ev.Fetched, Unverified: ev.Unverified,
	}
	var data bytes.Buffer
	switch {
	case json.Compact(&data, ev.Body) == nil:
		line, err := json.Marshal(p)
		return strings.TrimSuffix(string(line), "}") + `,"data":` + data.String() + "}\n", err
	case utf8.Valid(ev.Body):
		p.Text = string(ev.Body)
	default:
		p.Body = ev.Body
	}
	line, err := json.Marshal(p)
	return string(line) + "\n", err
}

// texts are strings that encodings of JSON treat in different ways.
var texts = []string{
	"", "k-1", `<a href="x">&amp;</a>`, "\x00\n\t\b\f\x7f\u0080", "caf\u00e9 \U0001F600", "\xff\xfe", "a\xe2\x80",
	"\u2028\u2029", `\u2028"\`, "\ufffd\ufeff",
}

// payloads are bodies of all kinds.
var payloads = []string{
	"", " ", "{}", " [1 , 2]\n", `"x"`, "12", "-0.0e+5", "nul", `{"a":1}{}`, `{"a":1,"a":2}`, "{\"a\":\n1}",
	`{"<&>":"<&>\u003c\/\u2028"}`, "{\"a\":\"\u2028\u2029\xff\xe2\x80\"}",
	`["\ud800","\ud83d\ude00","\u00e9"]`, "a=b&c",
	"\xff", "<xml/>", "{\"a\":\"\x01\"}", "\ufeff{}", "1e999",
	strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
	strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), `{"text":"` + strings.Repeat("<long>", 2_000) + `"}`,
}

// checkLine compares the line of an event with that of encoding/json.
func checkLine(t *testing.T, ev *receiver.Event[[]byte]) {
	t.Helper()
	want, wantErr := referenceLine(ev)
	got, err := appendLine(nil, ev)
	if (err == nil) != (wantErr == nil) || err == nil && string(got) != want {
		t.Errorf("got  %.300q, %v\nwant %.300q, %v", got, err, want, wantErr)
	}
}

func TestALineIsThatOfEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, body := range payloads {
		ev := order(body)
		checkLine(t, &ev)
	}
	for i, text := range texts {
		for _, at := range []time.Time{
			{}, time.Unix(1, 1e6).In(time.FixedZone("", 3600)), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			checkLine(t, &receiver.Event[[]byte]{
				ID: text, VendorID: text, EventID: text, Producer: text, Endpoint: text, Type: text, Attempt: i,
				Tenant: text, Fetched: i%2 == 0, Unverified: i%3 == 0, Accepted: at, Body: []byte(text),
				Attributes: map[string]string{text: text, "b": "", "a" + text: text}})
		}
	}
}

func TestALineAllocatesNothing(t *testing.T) {
	memory, ev := make([]byte, 0, 4<<10), order(`{"a": "b"}`)
	if n := testing.AllocsPerRun(100, func() { _, _ = appendLine(memory, &ev) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzLine(f *testing.F) {
	for i, body := range payloads {
		f.Add(texts[i%len(texts)], []byte(body))
	}
	f.Fuzz(func(t *testing.T, text string, body []byte) {
		ev := receiver.Event[[]byte]{ID: text, Body: body, Attributes: map[string]string{text: "x", "b": text}}
		checkLine(t, &ev)
	})
}

func TestEventsArePrintedAsLines(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"{\"a\":\n1}": `"data":{"a":1}`, "a=b&c": `"text":"a=b\u0026c"`, "\xff": `"body":"/w=="`, "": `"attempt":2`,
	} {
		var out bytes.Buffer
		check(t, (Stdout{&Output{w: &out}}).Deliver(context.Background(), order(body)))
		line := out.String()
		if strings.Count(line, "\n") != 1 || !strings.Contains(line, want) || !json.Valid([]byte(line)) {
			t.Errorf("%q is printed as %s", body, line)
		}
	}
	broken := Stdout{&Output{w: brokenWriter{}}}
	if err := broken.Deliver(context.Background(), order("{}")); err == nil {
		t.Error("an event that could not be printed is done")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("pipe is broken") }

// halting writes half of the first line and fails, as a full disk does.
type halting struct {
	bytes.Buffer
	failed bool
}

func (h *halting) Write(p []byte) (int, error) {
	if h.failed {
		return h.Buffer.Write(p)
	}
	h.failed = true
	n, _ := h.Buffer.Write(p[:len(p)/2])
	return n, fs.ErrInvalid
}

func TestALineAfterATornOneIsWhole(t *testing.T) {
	t.Parallel()
	w := &halting{}
	s := Stdout{&Output{w: w}}
	if err := s.Deliver(t.Context(), order(`{}`)); !errors.Is(err, fs.ErrInvalid) {
		t.Fatalf("error is %v", err)
	}
	for range 2 {
		check(t, s.Deliver(t.Context(), order(`{}`)))
	}
	lines := strings.Split(w.String(), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], `{"id"`) || lines[1] != lines[2] {
		t.Errorf("lines are %q", lines)
	}
}

// pieces is a slow writer of every line in two pieces.
type pieces struct{ bytes.Buffer }

func (s *pieces) Write(p []byte) (int, error) {
	s.Buffer.Write(p[:len(p)/2])
	time.Sleep(50 * time.Microsecond) // others wait
	s.Buffer.Write(p[len(p)/2:])
	return len(p), nil
}

func TestLinesOfManyHandlersAreWhole(t *testing.T) {
	t.Parallel()
	const handlers, each = 16, 50
	w := &pieces{}
	o := NewOutput(w)
	var all sync.WaitGroup
	for h := range handlers {
		all.Go(func() {
			for i := range each {
				body := fmt.Appendf(nil, "%q", strings.Repeat("x", (h*each+i)%300))
				ev := receiver.Event[[]byte]{ID: "k", Body: body}
				if err := (Stdout{o}).Deliver(context.Background(), ev); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	lines := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
	if len(lines) != handlers*each {
		t.Errorf("%d lines, want %d", len(lines), handlers*each)
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("not a line: %q", line)
		}
	}
}
