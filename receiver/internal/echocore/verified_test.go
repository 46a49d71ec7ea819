package echocore_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/receiver"
)

// push is the part of the payload that the tests read.
type push struct {
	Ref string `json:"ref"`
}

// inline opens a receiver whose handler is behind Verified.
func inline(t *testing.T, change func(*receiver.Config)) *receiver.Receiver {
	t.Helper()
	return open(t, func(c *receiver.Config) {
		c.Handlers = []receiver.Handler{receiver.Inline("github", "*")}
		c.BackoffBase, c.BackoffCap = time.Millisecond, time.Millisecond
		if change != nil {
			change(c)
		}
	})
}

// serve serves the routes of e until the test ends.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// deliver sends a signed JSON delivery and returns the response and its body.
func deliver(t *testing.T, srv *httptest.Server, path, id, body string) (*http.Response, string) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	r, err := http.NewRequest("POST", srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"X-GitHub-Event": "push", "X-GitHub-Delivery": id, "Content-Type": "application/json",
		"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)), "Authorization": "Bearer x",
	} {
		r.Header.Set(name, value)
	}
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func TestVerifiedPutsTheReceiverInFrontOfAnOrdinaryHandler(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		e, runs := a.echo(), atomic.Int32{}
		e.Use(a.recovers, func(next function) function {
			return func(c echoContext) error {
				c.Set("tenant", "ours")
				err := next(c)
				if status, size := a.written(c); c.Path() == "/in/:tenant/push" && (status != 201 || size == 0 ||
					c.Request().Header.Get("Authorization") == "") {
					t.Errorf("middleware in front sees %d, %v", status, c.Request().Header)
				}
				return err
			}
		})
		group := e.Group("/in/:tenant")
		group.Route("POST", "/push", func(c echoContext) error {
			runs.Add(1)
			var bound push
			if err := c.Bind(&bound); err != nil {
				return err
			}
			ev, err := a.event(c)
			if err != nil {
				return err
			}
			if ev.Data != bound || ev.Type != "push" || c.Request().Header.Get("Authorization") != "" {
				t.Errorf("event %+v, bound %+v", ev, bound)
			}
			return c.JSON(201, map[string]any{"ref": bound.Ref, "by": c.Get("tenant"), "param": c.Param("tenant")})
		}, a.verified(inline(t, nil), "github"))
		srv := serve(t, e)
		for i := range 3 {
			resp, body := deliver(t, srv, "/in/a", "1", `{}`)
			if resp.StatusCode != 404 {
				t.Errorf("another path: %d %s", resp.StatusCode, body)
			}
			resp, body = deliver(t, srv, "/in/a/push", "1", `{"ref":"main"}`)
			if resp.StatusCode != 201 || body != `{"by":"ours","param":"a","ref":"main"}`+"\n" ||
				!strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") ||
				resp.Header.Get("Idempotency-Replayed") != map[bool]string{true: "true"}[i > 0] {
				t.Errorf("%d: %v %s", i, resp, body)
			}
		}
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

func TestErrorsOfFunctionsBecomeProblems(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		for name, row := range map[string]struct {
			err    error
			status int
			code   string
			final  bool
		}{
			"http error":         {a.httpError(404, "no such order"), 404, "rejected", true},
			"bad request":        {a.badRequest, 400, "rejected", true},
			"too many requests":  {a.httpError(429, "private"), 503, "answer_failed", false},
			"internal error":     {a.httpError(500, "private"), 503, "answer_failed", false},
			"wrapped":            {fmt.Errorf("private: %w", a.badRequest), 503, "answer_failed", false},
			"odd status":         {a.httpError(200, "private"), 503, "answer_failed", false},
			"rejected":           {receiver.Reject(errors.New("private")), 422, "rejected", true},
			"postponed":          {receiver.Postpone(time.Minute, a.badRequest), 503, "answer_postponed", false},
			"any other":          {errors.New("private"), 503, "answer_failed", false},
			"payload of another": {nil, 422, "undecodable", true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e, runs := a.echo(), atomic.Int32{}
				e.Route("POST", "/", func(c echoContext) error {
					runs.Add(1)
					if row.err == nil {
						_, err := a.number(c)
						return err
					}
					return row.err
				}, a.verified(inline(t, nil), "github"))
				srv := serve(t, e)
				for i := range 2 {
					resp, body := deliver(t, srv, "/", "1", `{}`)
					if resp.StatusCode != row.status || !strings.Contains(body, `"code":"`+row.code+`"`) ||
						resp.Header.Get("Content-Type") != "application/problem+json" ||
						strings.Contains(body, "private") ||
						(resp.Header.Get("Idempotency-Replayed") != "") != (row.final && i == 1) {
						t.Errorf("%d: %v %s", i, resp, body)
					}
					if row.status == 404 && !strings.Contains(body, "no such order") {
						t.Errorf("no message: %s", body)
					}
				}
				if want := map[bool]int32{true: 1, false: 2}[row.final]; runs.Load() != want {
					t.Errorf("%d runs, want %d", runs.Load(), want)
				}
			})
		}
	})
}

// A group with middleware answers unknown paths itself: that must not become the event's response.
func TestAGroupStoresNothingForPathsWithoutARoute(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		store := memstore.New(memstore.Options{})
		defer func() { _ = store.Close() }()
		rx := inline(t, func(c *receiver.Config) { c.Store = store })
		e := a.echo()
		group := e.Group("/in", a.verified(rx, "github"))
		group.Route("POST", "/push", func(c echoContext) error { return c.String(200, "push") })
		group.Route("PUT", "/put", func(c echoContext) error { return c.String(200, "put") })
		srv := serve(t, e)
		for _, path := range []string{"/in/other", "/in", "/in/", "/in/put"} {
			if resp, _ := deliver(t, srv, path, "1", `{}`); resp.StatusCode != 404 && resp.StatusCode != 405 {
				t.Errorf("%s: %v", path, resp)
			}
		}
		for range store.List(t.Context(), dedup.Filter{}) {
			t.Error("an event was stored")
		}
		if resp, body := deliver(t, srv, "/in/push", "1", `{}`); resp.StatusCode != 200 || body != "push" {
			t.Errorf("%v %s", resp, body)
		}
	})
}

// Echo reuses its contexts: one may not be reused while a function that is too slow has it.
func TestSlowFunctionsKeepTheirContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		goOn, done := make(chan struct{}), make(chan string, 1)
		e := a.echo()
		e.Route("POST", "/in/:tenant", func(c echoContext) error {
			if c.Param("tenant") == "slow" {
				<-goOn
				done <- c.Param("tenant")
			}
			return c.String(200, c.Param("tenant"))
		}, a.verified(inline(t, func(c *receiver.Config) { c.AnswerTimeout = time.Second }), "github"))
		srv := serve(t, e)
		if resp, body := deliver(t, srv, "/in/slow", "1", `{"n":1}`); resp.StatusCode != 503 {
			t.Errorf("%v %s", resp, body)
		}
		for i := range 20 {
			if resp, body := deliver(t, srv, "/in/b", fmt.Sprint("b", i), fmt.Sprintf(`{"n":"b%d"}`, i)); body != "b" {
				t.Errorf("%v %s", resp, body)
			}
		}
		close(goOn)
		if tenant := <-done; tenant != "slow" {
			t.Errorf("the context was reused for %q", tenant)
		}
	})
}

func TestMountServesBelowAGroup(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		e := a.echo()
		e.Group("/api/:version").Mount(open(t, nil))
		srv := serve(t, e)
		for _, row := range []answered{
			{"POST", "/api/v1/webhooks/github", "200"},
			{"POST", "/api/v1/webhooks/github?x=1", "200"},
			{"POST", "http://evil.example/api/v1/webhooks/github", "200"},
			{"GET", "/api/v1/policy", "200"},
			{"FROBNICATE", "/api/v1/webhooks/github", "405"},
			{"POST", "/webhooks/github", "404"},
			{"POST", "/api/v1/webhooks/github/", "404"},
			{"POST", "/api/v1/webhooks//github", "404"},
			{"POST", "/api/v1//webhooks/github", "404"},
			{"POST", "/api/v1/webhooks/%67ithub", "404"},
			{"POST", "/api/v1/webhooks/x/../github", "404"},
			{"POST", "/api/v1/webhooks/other", "404"},
		} {
			row.check(t, srv)
		}
	})
}

// TestFunctionsFindTheHeaderOfMiddleware: it is theirs to read and to change, but each response has
// that of its own request. Requests that are made again pass middleware that knows them.
func TestFunctionsFindTheHeaderOfMiddleware(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		e, runs, requests, log := a.echo(), 0, 0, &bytes.Buffer{}
		e.Use(a.requestID(func() string {
			requests++
			return fmt.Sprint("request-", requests)
		}), func(next function) function {
			return func(c echoContext) error {
				a.header(c).Set("Vary", "Origin")
				a.header(c).Set("Set-Cookie", "outer=1")
				if !a.isRerun(c) && c.Request().Header.Get("Authorization") == "" {
					return a.unauthorized
				}
				return next(c)
			}
		})
		rx := inline(t, func(c *receiver.Config) {
			c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		e.Route("POST", "/", func(c echoContext) error {
			runs++
			if again := a.isRerun(c); again != (runs > 1) {
				t.Errorf("run %d is made again: %t", runs, again)
			}
			if a.header(c).Get("X-Request-Id") == "" {
				t.Errorf("run %d does not find the header of the middleware", runs)
			}
			if runs == 1 {
				return errors.New("the printer is off")
			}
			h := a.header(c)
			h.Set("X-Seen", h.Get("X-Request-Id"))
			h.Add("Vary", "Accept")
			h.Add("Set-Cookie", "inner=1")
			return c.String(200, "ok")
		}, a.verified(rx, "github"))
		srv := serve(t, e)
		for i, want := range []string{
			"503 request-1  [Origin] [outer=1]",
			"200 request-2 request-3 [Origin Accept] [outer=1 inner=1]",
			"200 request-4 request-3 [Origin Accept] [outer=1 inner=1]",
		} {
			resp, body := deliver(t, srv, "/", "1", `{}`)
			h := resp.Header
			got := fmt.Sprint(resp.StatusCode, " ", h.Get("X-Request-Id"), " ", h.Get("X-Seen"), " ", h["Vary"], " ",
				h["Set-Cookie"])
			if got != want {
				t.Errorf("%d: %s, want %s: %s", i, got, want, body)
			}
		}
		for _, want := range []string{`msg="answer handler failed" .* request_id=request-1\n`,
			`msg=delivery .*code=answer_failed .*request_id=request-1\n`, `code=replayed .*request_id=request-4\n`} {
			if !regexp.MustCompile(want).MatchString(log.String()) {
				t.Errorf("no line %s in\n%s", want, log)
			}
		}
	})
}

// TestRenderErrorsAsksTheErrorHandler, whose body is the response if its status means the same.
func TestRenderErrorsAsksTheErrorHandler(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		for name, row := range map[string]struct {
			err    error
			shown  int // by the error handler
			status int
			ours   bool
			runs   int32
		}{
			"refused":         {a.httpError(422, "no ref"), 418, 418, true, 1},
			"rejected":        {receiver.Reject(errors.New("private")), 418, 418, true, 1},
			"shown as retry":  {receiver.Reject(errors.New("private")), 500, 422, false, 1},
			"refused, as 500": {a.httpError(422, "no ref"), 500, 422, false, 1},
			"transient":       {errors.New("private"), 500, 500, true, 2},
			"shown as final":  {errors.New("private"), 418, 503, false, 2},
			"later":           {receiver.RetryAfter(time.Hour, nil), 500, 503, false, 2},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e, runs := a.echo(), atomic.Int32{}
				e.OnError(func(c echoContext, _ error) {
					_ = c.JSON(row.shown, map[string]any{"house": "style"})
				})
				e.Route("POST", "/", func(echoContext) error {
					runs.Add(1)
					return row.err
				}, a.verified(inline(t, nil), "github"), a.renderErrors)
				srv := serve(t, e)
				for range 2 {
					resp, body := deliver(t, srv, "/", "1", `{}`)
					if resp.StatusCode != row.status || strings.Contains(body, "house") != row.ours ||
						(row.runs == 2) != (resp.Header.Get("Retry-After") != "") {
						t.Errorf("%v %s", resp, body)
					}
				}
				if runs.Load() != row.runs {
					t.Errorf("%d runs", runs.Load())
				}
			})
		}
	})
}

// TestRoutesRunStoredEventsAgain: what a process left is run by the routes of the next one, through
// their middleware.
func TestRoutesRunStoredEventsAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, a adapter) {
		store := memstore.New(memstore.Options{})
		defer func() { _ = store.Close() }()
		fails, again := atomic.Bool{}, make(chan string, 1)
		fails.Store(true)
		start := func() (*receiver.Receiver, program) {
			rx := inline(t, func(c *receiver.Config) { c.Store = store })
			e := a.echo()
			e.Route("POST", "/in/:tenant", func(c echoContext) error {
				if fails.Load() {
					return receiver.Reject(errors.New("no printer"))
				}
				ev, err := a.event(c)
				again <- fmt.Sprint(a.isRerun(c), c.Param("tenant"), c.Get("seen"), ev.Data.Ref, err)
				return c.String(200, "late")
			}, func(next function) function {
				return func(c echoContext) error { c.Set("seen", "yes"); return next(c) }
			}, a.verified(rx, "github"))
			return rx, e
		}
		rx, e := start()
		srv := serve(t, e)
		if resp, body := deliver(t, srv, "/in/a", "1", `{"ref":"main"}`); resp.StatusCode != 422 {
			t.Errorf("%v %s", resp, body)
		}
		if err := rx.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		resp, body := deliver(t, srv, "/in/a", "2", `{}`)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("after the end: %v %s", resp, body)
		}
		for record := range store.List(t.Context(), dedup.Filter{}) {
			if _, err := store.Reopen(t.Context(), record.Event); err != nil {
				t.Fatal(err)
			}
		}
		fails.Store(false)
		rx, e = start()
		if err := rx.Bind(e); err != nil {
			t.Fatal(err)
		}
		if got := <-again; got != "trueayesmain<nil>" {
			t.Errorf("the function got %q", got)
		}
		resp, body = deliver(t, serve(t, e), "/in/a", "1", `{"ref":"main"}`)
		if resp.StatusCode != 422 || resp.Header.Get("Idempotency-Replayed") != "true" { // the first one stays
			t.Errorf("%v %s", resp, body)
		}
	})
}
