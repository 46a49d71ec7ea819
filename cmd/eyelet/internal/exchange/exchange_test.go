package exchange

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

type answer func(*http.Request) (*http.Response, error)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// send sends a request of an event, and returns what the application gets.
func send(t *testing.T, l *Log, event, body string, fails error) (got *http.Request) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://app.example/", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := l.Wrap(event, answer(func(r *http.Request) (*http.Response, error) {
		got = r
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}, fails
	})).RoundTrip(r)
	if err != nil {
		return got
	}
	defer res.Body.Close() //nolint:errcheck // a text
	if data, err := io.ReadAll(res.Body); err != nil || string(data) != body {
		t.Errorf("%v: %d bytes, want %d", err, len(data), len(body))
	}
	return got
}

func TestTheLastExchangeOfAnEventIsKept(t *testing.T) {
	t.Parallel()
	l := &Log{Header: http.Header{"X-Extra": {"one"}, "Host": {"other.example"}}}
	refused := errors.New("connection refused")
	send(t, l, "a", "", refused)
	if e, ok := l.Of("a"); !ok || !errors.Is(e.Err, refused) || e.Status != 0 {
		t.Errorf("%+v, %v", e, ok)
	}
	long := strings.Repeat("tea ", MaxBody)
	got := send(t, l, "a", long, nil)
	if got.Header.Get("X-Extra") != "one" || got.Host != "other.example" || got.Header.Get("Host") != "" {
		t.Errorf("the application gets %s %v", got.Host, got.Header)
	}
	if e, _ := l.Of("a"); e.Status != 200 || !bytes.Equal(e.Body, []byte(long[:MaxBody])) || e.Length != len(long) {
		t.Errorf("%d, %d of %d bytes", e.Status, len(e.Body), e.Length)
	}
	for i := range maxEvents {
		send(t, l, strconv.Itoa(i), "", nil)
	}
	if _, ok := l.Of("a"); ok || len(l.last) != maxEvents {
		t.Errorf("%d events are kept", len(l.last))
	}
}
