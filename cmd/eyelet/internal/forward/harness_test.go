package forward

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// far is a target server that runs its steps one after another, repeats the last one, and records
// the requests.
type far struct {
	*httptest.Server
	mu    sync.Mutex
	steps []http.HandlerFunc
	saw   []request
}

type request struct {
	method, path, key, body string
	header                  http.Header
}

func newFar(t *testing.T, steps ...http.HandlerFunc) *far {
	t.Helper()
	f := &far{steps: steps}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(f.Close)
	return f
}

// plain starts it without TLS.
func plain(t *testing.T, steps ...http.HandlerFunc) *far {
	t.Helper()
	f := newFar(t, steps...)
	f.Start()
	return f
}

func (f *far) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // cut requests have tests of their own
	f.mu.Lock()
	f.saw = append(f.saw, request{r.Method, r.URL.RequestURI(), strings.Join(r.Header["Idempotency-Key"], "|"),
		string(body), r.Header.Clone()})
	step := f.steps[0]
	if len(f.steps) > 1 {
		f.steps = f.steps[1:]
	}
	f.mu.Unlock()
	step(w, r)
}

func (f *far) requests() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]request(nil), f.saw...)
}

// paths are the request targets in order.
func (f *far) paths() string {
	var all []string
	for _, r := range f.requests() {
		all = append(all, r.path)
	}
	return strings.Join(all, " ")
}

// says responds with a status and with fields, given as names and values in turn.
func says(status int, fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
		w.WriteHeader(status)
	}
}

// clock is set by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// to makes a target; change may adjust it.
func to(t *testing.T, address string, change func(*Config)) *Target {
	t.Helper()
	c := Config{Name: "shop", URL: address, State: NewState(), Now: newClock().Now}
	if change != nil {
		change(&c)
	}
	made, err := New(c)
	check(t, err)
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	return made
}

func event(id string) Event {
	return Event{ID: id, Key: `"` + id + `"`, Body: []byte(`{"id":"` + id + `"}`),
		Header: http.Header{"Content-Type": {"application/json"}}, Accepted: newClock().Now()}
}

func deliver(t *testing.T, target *Target, id string) Result {
	t.Helper()
	r := target.Deliver(context.Background(), event(id))
	if (r.Err == nil) != (r.Outcome == Accepted) {
		t.Errorf("%s: %v with the error %v", id, r.Outcome, r.Err)
	}
	return r
}

func want(t *testing.T, r Result, outcome Outcome, status int) {
	t.Helper()
	if r.Outcome != outcome || r.Status != status {
		t.Errorf("%v %d (%v), want %v %d", r.Outcome, r.Status, r.Err, outcome, status)
	}
}

// raw is a server that reads a request, writes these bytes and closes.
func raw(t *testing.T, reply string, reset bool) (address string, served func() int) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var mu sync.Mutex
	n := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			n++
			mu.Unlock()
			_, _ = conn.Read(make([]byte, 64<<10))
			_, _ = io.WriteString(conn, reply)
			if tcp, ok := conn.(*net.TCPConn); ok && reset {
				_ = tcp.SetLinger(0) // close with RST
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = ln.Close(); wg.Wait() })
	return "http://" + ln.Addr().String() + "/", func() int { mu.Lock(); defer mu.Unlock(); return n }
}

// stateFileOf is a place for a state.
func stateFileOf(t *testing.T) string { return filepath.Join(t.TempDir(), "targets.json") }

func ids(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return all
}

// check ends the test when there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
