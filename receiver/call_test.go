package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eyelet-dev/eyelet/dedup"
)

// only returns the handler from a registry of its own.
func only(t *testing.T, h Handler, decode decodeFunc) *Handler {
	t.Helper()
	b, err := newRegistry([]Handler{h.Named("it")}, twoProducers, decode)
	if err != nil {
		t.Fatal(err)
	}
	return b.byName["it"]
}

// call runs the handler once and waits for its result.
func call(t *testing.T, h *Handler, rec dedup.Record, attempt int) (*Response, error) {
	t.Helper()
	rec.Tasks = []dedup.Task{{Handler: h.name, Attempt: attempt}}
	r := <-start(func() returned { return h.call(t.Context(), eventOf(&rec, 0)) })
	return r.response, r.err
}

func recordOf(contentType, body string) dedup.Record {
	return dedup.Record{
		Event: "ev1",
		Key:   dedup.Key{Principal: "acme", Endpoint: "gh?x=1", ID: "id1"},
		Payload: dedup.Payload{
			Producer: "gh", Endpoint: "gh", Type: "push", KeyField: `"id1"`,
			Header:     http.Header{"Content-Type": {contentType}},
			Attributes: map[string]string{"source": "here"},
			Body:       []byte(body),
		},
		Accepted: time.Unix(1_700_000_000, 0).UTC(),
	}
}

// decodes returns, as text, what a handler of type T gets for a body.
func decodes[T any](t *testing.T, body string) (string, error) {
	t.Helper()
	var got T
	h := only(t, On("gh", "*", func(_ context.Context, ev Event[T]) error { got = ev.Data; return nil }), decodeJSON)
	_, err := call(t, h, recordOf("application/json", body), 1)
	return fmt.Sprintf("%v", got), err
}

func TestPayloadsAreDecodedIntoTheTypeOfTheHandler(t *testing.T) {
	t.Parallel()
	type order struct{ N int }
	tests := []struct {
		name    string
		decode  func(*testing.T, string) (string, error)
		body    string
		want    string
		refused string // the type in the error; empty when it decodes
	}{
		{"bytes", decodes[[]byte], "\x00 not json", "[0 32 110 111 116 32 106 115 111 110]", ""},
		{"raw JSON is not looked at", decodes[json.RawMessage], "no", "[110 111]", ""},
		{"form", decodes[url.Values], "a=1&b=%20&a=2", "map[a:[1 2] b:[ ]]", ""},
		{"form that is none", decodes[url.Values], "a=%zz", "", "url.Values"},
		{"struct", decodes[order], ` {"N":1,"M":2} `, "{1}", ""},
		{"pointer", decodes[*order], `null`, "<nil>", ""},
		{"anything", decodes[any], `[1]`, "[1]", ""},
		{"garbage after the value", decodes[order], `{"N":1} x`, "", "receiver.order"},
		{"two values", decodes[order], `{"N":1}{"N":2}`, "", "receiver.order"},
		{"another type", decodes[order], `{"N":"1"}`, "", "receiver.order"},
		{"no body", decodes[order], ``, "", "receiver.order"},
		{"cut off", decodes[map[string]int], `{"N":1`, "", "map[string]int"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := tt.decode(t, tt.body)
			if tt.refused == "" {
				if err != nil || got != tt.want {
					t.Fatalf("got %q, %v; want %q", got, err, tt.want)
				}
				return
			}
			if !is[*undecodable](err) || !strings.HasPrefix(err.Error(), "payload is not a "+tt.refused+": ") {
				t.Fatalf("got error %v, want one about %s", err, tt.refused)
			}
		})
	}
}

// Handlers of strings get text as it is, and decoded JSON.
func TestTextIsAString(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		contentType, body, want string
		refused                 bool
	}{
		{"text/plain; charset=utf-8", `say "tea"`, `say "tea"`, false},
		{"application/json", `"tea"`, "tea", false},
		{"application/json", `tea`, "", true},
		{"text/plain", "\xff", "", true},
	} {
		var got string
		h := only(t, On("gh", "*", func(_ context.Context, ev Event[string]) error { got = ev.Data; return nil }),
			decodeJSON)
		if _, err := call(t, h, recordOf(tt.contentType, tt.body), 1); is[*undecodable](err) != tt.refused ||
			got != tt.want {
			t.Errorf("%s %q: got %q, %v", tt.contentType, tt.body, got, err)
		}
	}
}

func TestAttributesReachTheHandler(t *testing.T) {
	t.Parallel()
	ev := Event[any]{Attributes: map[string]string{
		"id": "1", "source": "/s", "subject": "s", "time": "2026-01-02T03:04:05.5+09:00",
		"datacontenttype": "text/plain",
		"dataschema":      "/d", "keyid": "k1", "shard": "7", "topic": "t",
	}}
	ev.describe()
	if ev.Source != "/s" || ev.Subject != "s" || !ev.Time.Equal(time.Date(2026, 1, 1, 18, 4, 5, 5e8, time.UTC)) {
		t.Errorf("%+v", ev)
	}
	if d := cmp.Diff(map[string]string{"shard": "7", "topic": "t"}, ev.Extensions); d != "" {
		t.Errorf("extensions: -want +got\n%s", d)
	}
	for _, value := range []string{"", "yesterday", "1784000000", "Fri, 02 Jan 2026 03:04:05 GMT"} {
		none := Event[any]{Attributes: map[string]string{"time": value}}
		if none.describe(); !none.Time.IsZero() || none.Extensions == nil {
			t.Errorf("%q became %v", value, none.Time)
		}
	}
}

func TestConfiguredDecodeReplacesJSON(t *testing.T) {
	t.Parallel()
	decode := func(contentType string, body []byte, v any) error {
		*v.(*string) = contentType + "|" + string(body)
		return nil
	}
	var got []string
	h := only(t, On("gh", "*", func(_ context.Context, ev Event[string]) error {
		got = append(got, ev.Data)
		return nil
	}), decode)
	if _, err := call(t, h, recordOf("text/x", "hi"), 1); err != nil {
		t.Fatal(err)
	}
	raw := only(t, On("gh", "*", func(_ context.Context, ev Event[[]byte]) error {
		got = append(got, string(ev.Data))
		return nil
	}), decode)
	if _, err := call(t, raw, recordOf("text/x", "bytes"), 1); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"text/x|hi", "bytes"}, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestCloudEventsDecodeTheirData(t *testing.T) {
	t.Parallel()
	const head = `"specversion":"1.0","id":"1","source":"/s","type":"t"`
	const structured, batch = "application/cloudevents+json; charset=utf-8", "application/cloudevents-batch+json"
	tests := []struct {
		name, contentType, body string
		want                    string // the media type and the decoded bytes
		refused                 bool
	}{
		{"structured", structured, `{` + head + `,"data":{"N":1},"Data":2}`, `application/json|{"N":1}`, false},
		{"of a batch", batch, `{` + head + `,"data":"text","datacontenttype":"text/plain"}`, `text/plain|text`, false},
		{"a string that is JSON", structured, `{` + head + `,"data":"text"}`, `application/json|"text"`, false},
		{"binary data", structured, `{` + head + `,"data_base64":"AP8=","datacontenttype":"image/png"}`,
			"image/png|\x00\xff", false},
		{"no data", structured, `{` + head + `}`, `application/json|null`, false},
		{"both kinds of data", structured, `{` + head + `,"data":1,"data_base64":"AP8="}`, "", true},
		{"bad base64", structured, `{` + head + `,"data_base64":"!"}`, "", true},
		{"no CloudEvent", structured, `{"id":"1","data":{"N":1}}`, "", true},
		{"no object", structured, `[1]`, "", true},
		{"binary mode", "application/json", `{"data":1}`, `application/json|{"data":1}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got string
			decode := func(contentType string, body []byte, _ any) error {
				got = contentType + "|" + string(body)
				return nil
			}
			h := only(t, On("gh", "*", func(context.Context, Event[any]) error { return nil }), decode)
			_, err := call(t, h, recordOf(tt.contentType, tt.body), 1)
			if got != tt.want || is[*undecodable](err) != tt.refused {
				t.Fatalf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestHandlersSeeTheWholeEvent(t *testing.T) {
	t.Parallel()
	rec := recordOf("application/json", `"data"`)
	want := Event[string]{
		ID: "id1", EventID: "ev1", Producer: "gh", Endpoint: "gh", Principal: "acme", Type: "push",
		Handler: "it", Attempt: 3, Accepted: rec.Accepted, KeyField: `"id1"`,
		Header: http.Header{"Content-Type": {"application/json"}},
		Source: "here", Extensions: map[string]string{}, Attributes: map[string]string{"source": "here"},
		Body: []byte(`"data"`), Data: "data",
	}
	var got Event[string]
	h := only(t, Answer("gh", "*", func(_ context.Context, ev Event[string]) (Response, error) {
		got = ev
		return Response{Status: 201, Body: []byte("made")}, nil
	}), decodeJSON)
	resp, err := call(t, h, rec, 3)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("event: -want +got\n%s", d)
	}
	if d := cmp.Diff(&Response{Status: 201, Body: []byte("made")}, resp); d != "" {
		t.Errorf("response: -want +got\n%s", d)
	}
}

func TestMiddlewareRunsFromTheFirstInwards(t *testing.T) {
	t.Parallel()
	var trace []string
	mark := func(name string) func(Next) Next {
		trace = append(trace, "make "+name)
		return func(next Next) Next {
			trace = append(trace, "wrap "+name)
			return func(ctx context.Context, ev Event[any]) (*Response, error) {
				trace = append(trace, name+" in")
				ev.Type += name
				resp, err := next(ctx, ev)
				trace = append(trace, name+" out")
				return resp, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	boom := errors.New("boom")
	h := only(t, On("gh", "*", func(_ context.Context, ev Event[[]byte]) error {
		trace = append(trace, "run "+ev.Type)
		return boom
	}).With(mark("a"), mark("b")).With(mark("c")), decodeJSON)
	for range 2 {
		if _, err := call(t, h, recordOf("", ""), 1); !errors.Is(err, boom) || err.Error() != "a: b: c: boom" {
			t.Fatalf("got %v", err)
		}
	}
	once := []string{"a in", "b in", "c in", "run pushabc", "c out", "b out", "a out"}
	want := append([]string{"make a", "make b", "make c", "wrap c", "wrap b", "wrap a"}, append(once, once...)...)
	if d := cmp.Diff(want, trace); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestWithDoesNotChangeTheOriginal(t *testing.T) {
	t.Parallel()
	var ran []string
	mark := func(name string) func(Next) Next {
		return func(next Next) Next {
			return func(ctx context.Context, ev Event[any]) (*Response, error) {
				ran = append(ran, name)
				return next(ctx, ev)
			}
		}
	}
	base := On("gh", "*", do).With(mark("1")).With(mark("2")).With(mark("3")) // a slice with spare capacity
	one, two := base.With(mark("one")), base.With(mark("two"))
	for _, h := range []Handler{one, two, base} {
		if _, err := call(t, only(t, h, decodeJSON), recordOf("", ""), 1); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"1", "2", "3", "one", "1", "2", "3", "two", "1", "2", "3"}, ran); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// broken is an error whose methods panic when it is nil.
type broken struct{ err error }

func (b *broken) Error() string { return b.err.Error() }
func (b *broken) Unwrap() error { return b.err }

func TestPanicAndGoexitAreErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		fn   func() error
		want string
	}{
		{"panic with text", func() error { panic("the payload is 4711") }, "panic: the payload is 4711"},
		{"panic with an error", func() error { panic(Reject(errors.New("x"))) }, "panic: rejected: x"},
		{"panic with nil", func() error { panic(nil) }, "panic: panic called with nil argument"},
		{"fault", func() error { var p *Handler; return p.err },
			"panic: runtime error: invalid memory address or nil pointer dereference"},
		{"end of the goroutine", func() error { runtime.Goexit(); return nil }, errGoexit.Error()},
		{"nil pointer as an error", func() error { var b *broken; return b },
			"panic: runtime error: invalid memory address or nil pointer dereference"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := only(t, On("gh", "*", func(context.Context, Event[[]byte]) error { return tt.fn() }), decodeJSON)
			resp, err := call(t, h, recordOf("", ""), 1)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || resp != nil {
				t.Fatalf("got %v, %v; want %s", resp, err, tt.want)
			}
			if is[*rejection](err) {
				t.Error("a panic counts as a rejection")
			}
		})
	}
}

func panicsHere() { panic("secret octets") }

func TestStackOfAPanicNamesFunctionsAndNoValues(t *testing.T) {
	t.Parallel()
	h := only(t, On("gh", "*", func(context.Context, Event[[]byte]) error { panicsHere(); return nil }), decodeJSON)
	_, err := call(t, h, recordOf("", ""), 1)
	var p *panicked
	if !errors.As(err, &p) {
		t.Fatalf("got %v", err)
	}
	stack := strings.Join(p.stack, "\n")
	if !strings.Contains(stack, "receiver.panicsHere (") || !strings.Contains(stack, "call_test.go:") {
		t.Errorf("the function is not in the stack:\n%s", stack)
	}
	if strings.Contains(stack, "secret") || strings.Contains(stack, "0x") {
		t.Errorf("values are in the stack:\n%s", stack)
	}
}

func TestRejectAndPostponeSurviveWrapping(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	tests := []struct {
		err      error
		text     string
		rejected bool
		wait     time.Duration
	}{
		{Reject(why), "rejected: why", true, 0},
		{Reject(nil), "rejected", true, 0},
		{fmt.Errorf("outer: %w", Reject(why)), "outer: rejected: why", true, 0},
		{errors.Join(errors.New("a"), Reject(why)), "a\nrejected: why", true, 0},
		{Postpone(time.Minute, why), "postponed for 1 min: why", false, time.Minute},
		{Postpone(time.Minute, nil), "postponed for 1 min", false, time.Minute},
		{fmt.Errorf("outer: %w", Postpone(time.Minute, why)), "outer: postponed for 1 min: why", false, time.Minute},
		{why, "why", false, 0},
	}
	for _, tt := range tests {
		if tt.err.Error() != tt.text || is[*rejection](tt.err) != tt.rejected {
			t.Errorf("%q: rejected is %v", tt.err, is[*rejection](tt.err))
		}
		if kind, wait := classify(tt.err); wait != tt.wait || (kind == errorPostponed) != (tt.wait > 0) {
			t.Errorf("%q: postponed for %v, kind %v", tt.err, wait, kind)
		}
		if strings.Contains(tt.text, "why") && !errors.Is(tt.err, why) {
			t.Errorf("%q: the cause is lost", tt.err)
		}
	}
}

func TestStoredErrorsAreBoundedText(t *testing.T) {
	t.Parallel()
	if got := errText(errors.New("fine")); got != "fine" {
		t.Errorf("got %q", got)
	}
	long := errText(errors.New(strings.Repeat("ä", maxErrText)))
	if len(long) != maxErrText {
		t.Errorf("got %d bytes", len(long))
	}
	cut := errText(errors.New("x" + strings.Repeat("ä", maxErrText)))
	if len(cut) != maxErrText-1 || !bytes.HasSuffix([]byte(cut), []byte("ä")) {
		t.Errorf("got %d bytes that end in %q", len(cut), cut[len(cut)-2:])
	}
	if got := errText((*broken)(nil)); got == "" {
		t.Error("a broken error has no text")
	}
}
