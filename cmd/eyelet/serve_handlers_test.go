package main

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/servertest"
	"github.com/eyelet-dev/eyelet/receiver"
)

// serveHandlers serves a configuration with further handlers in Go.
func serveHandlers(t *testing.T, file string, handlers ...receiver.Handler) *running {
	t.Helper()
	s, err := config.Source{File: file}.Load()
	check(t, err)
	r := &running{errs: &servertest.Buffer{}, out: &servertest.Buffer{}}
	up := make(chan [2]string, 1)
	p := &program{In: strings.NewReader(""), Out: r.out, Err: r.errs, Serving: func(l, o string) {
		up <- [2]string{l, o}
	}}
	s.Log.Level, s.Log.OmitErrors = "debug", true
	_, o, err := p.serverOptions(t.Context(), s)
	check(t, err)
	o.Receiver.Handlers = append(o.Receiver.Handlers, handlers...)
	srv, err := server.New(t.Context(), o)
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	at := <-up
	r.deliveries, r.operations = "http://"+at[0], "http://"+at[1]
	return r
}

// reads returns a response of the operations port.
func (r *running) reads(t *testing.T, path string) (status int, text string) {
	t.Helper()
	res, err := http.Get(r.operations + path)
	check(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	check(t, err)
	return res.StatusCode, string(body)
}

// showing waits until /metrics has all the lines.
func (r *running) showing(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		eventually(t, "/metrics says "+line, func() bool {
			_, text := r.reads(t, "/metrics")
			return strings.Contains(text, "\n"+line+"\n")
		})
	}
}

// handlerLine is a line of the metrics of a handler.
func handlerLine(metric, handler, state, value string) string {
	if state != "" {
		state = `,state="` + state + `"`
	}
	return metric + `{endpoint="gh",handler="` + handler + `"` + state + "} " + value
}

// TestMisbehavingHandlersDoNotAffectOthers: one that panics, one that ends its goroutine, one that
// leaves a goroutine behind, one that obeys its context and one that does not, concurrently,
// beside one that works.
func TestMisbehavingHandlersDoNotAffectOthers(t *testing.T) {
	t.Parallel()
	file := configured(t, "limits: {workers: 2, attempts: 2, backoff_base: 1ms, backoff_cap: 5ms, handler_timeout: "+
		"50ms, answer_timeout: 2s}\n")
	release := make(chan struct{})
	left := make(chan struct{})
	on := func(name string, f func(ctx context.Context) error) receiver.Handler {
		return receiver.On("gh", "push", func(ctx context.Context, _ receiver.Event[[]byte]) error {
			return f(ctx)
		}).Named(name)
	}
	r := serveHandlers(t, file,
		on("panics", func(context.Context) error { panic("octets of the payload") }),
		on("exits", func(context.Context) error { runtime.Goexit(); return nil }),
		on("leaks", func(context.Context) error { go func() { <-release; close(left) }(); return nil }),
		on("obeys", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
		on("ignores", func(context.Context) error { <-release; return nil }),
		on("works", func(context.Context) error { return nil }),
	)
	if status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != 200 {
		t.Fatalf("status %d", status)
	}
	var want []string
	for _, name := range []string{"panics", "exits", "obeys"} {
		want = append(want, handlerLine("eyelet_attempts_total", name, "pending", "1"),
			handlerLine("eyelet_attempts_total", name, "dead", "1"))
	}
	r.showing(t, append(want,
		handlerLine("eyelet_attempts_total", "works", "done", "1"), handlerLine("eyelet_attempts_total", "leaks",
			"done", "1"),
		handlerLine("eyelet_handlers_hanging", "ignores", "", "1"),
		"eyelet_store_tasks_dead 3", "eyelet_store_tasks_running 1", "eyelet_store_tasks_pending 0",
	)...)
	if status, text := r.reads(t, "/readyz"); status != http.StatusOK {
		t.Errorf("readiness: %d %s", status, text)
	}
	// The handler that hangs is not run twice at once, and the other worker continues.
	if got := state(t, file, "g-1"); got != "dead 2" {
		t.Errorf("the event is %q", got)
	}
	close(release)
	<-left
	r.showing(t, handlerLine("eyelet_attempts_total", "ignores", "done", "1"),
		handlerLine("eyelet_handlers_hanging", "ignores", "", "0"), "eyelet_store_tasks_running 0")
	if log := r.errs.String(); strings.Contains(log, "octets of the payload") ||
		!strings.Contains(log, "the handler hangs") {
		t.Errorf("the log: %s", log)
	}
}

// TestAnswersOfMisbehavingHandlersAreTransient: the producer is asked to retry, and gets the
// result of a handler that ignored its timeout.
func TestAnswersOfMisbehavingHandlersAreTransient(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	for name, f := range map[string]func(){
		"panics": func() { panic("octets of the payload") }, "exits": runtime.Goexit, "ignores": func() { <-release },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := make(chan int, 10)
			file := configured(t, "limits: {answer_timeout: 100ms, in_flight_wait: 10ms}\n")
			r := serveHandlers(t, file, receiver.Answer("gh", "push", func(_ context.Context,
				ev receiver.Event[[]byte]) (receiver.Response, error) {
				runs <- ev.Attempt
				if ev.Attempt == 1 {
					f()
				}
				return receiver.Response{Status: 200, Body: []byte(`"run"`)}, nil
			}))
			code := map[bool]string{true: "answer_timeout", false: "answer_failed"}[name == "ignores"]
			if status, after := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != 503 || after == "" {
				t.Errorf("status %d, Retry-After %q", status, after)
			}
			r.showing(t, `eyelet_deliveries_total{code="`+code+`",endpoint="gh"} 1`)
			if name == "ignores" {
				if status, after := push(t, http.DefaultClient, r.deliveries, "g-1", "{}"); status != 503 ||
					after == "" {
					t.Errorf("while it runs: status %d, Retry-After %q", status, after)
				}
				close(release)
			}
			eventually(t, "the retry is answered", func() bool {
				status, _ := push(t, http.DefaultClient, r.deliveries, "g-1", "{}")
				return status == 200
			})
			if n, want := len(runs), map[bool]int{true: 1, false: 2}[name == "ignores"]; n != want {
				t.Errorf("%d runs, want %d", n, want)
			}
			if strings.Contains(r.errs.String(), "octets of the payload") {
				t.Error("the log holds the value of the panic")
			}
		})
	}
}
