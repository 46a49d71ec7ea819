package echov4_test

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

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/echov4"
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
	e, runs := echo.New(), atomic.Int32{}
	e.Use(middleware.Recover(), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("tenant", "ours")
			err := next(c)
			if c.Path() == "/in/:tenant/push" && (c.Response().Status != 201 || c.Response().Size == 0 ||
				c.Request().Header.Get("Authorization") == "") {
				t.Errorf("middleware in front sees %d, %v", c.Response().Status, c.Request().Header)
			}
			return err
		}
	})
	group := e.Group("/in/:tenant")
	group.POST("/push", func(c echo.Context) error {
		runs.Add(1)
		var bound push
		if err := c.Bind(&bound); err != nil {
			return err
		}
		ev, err := echov4.EventOf[push](c)
		if err != nil {
			return err
		}
		if ev.Data != bound || ev.Type != "push" || c.Request().Header.Get("Authorization") != "" {
			t.Errorf("event %+v, bound %+v", ev, bound)
		}
		return c.JSON(201, echo.Map{"ref": bound.Ref, "by": c.Get("tenant"), "param": c.Param("tenant")})
	}, echov4.Verified(inline(t, nil), "github"))
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
}

func TestErrorsOfFunctionsBecomeProblems(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err    error
		status int
		code   string
		final  bool
	}{
		"http error":         {echo.NewHTTPError(404, "no such order"), 404, "rejected", true},
		"bad request":        {echo.ErrBadRequest, 400, "rejected", true},
		"too many requests":  {echo.NewHTTPError(429, "private"), 503, "answer_failed", false},
		"internal error":     {echo.NewHTTPError(500, "private"), 503, "answer_failed", false},
		"wrapped":            {fmt.Errorf("private: %w", echo.ErrBadRequest), 503, "answer_failed", false},
		"odd status":         {echo.NewHTTPError(200, "private"), 503, "answer_failed", false},
		"rejected":           {receiver.Reject(errors.New("private")), 422, "rejected", true},
		"postponed":          {receiver.Postpone(time.Minute, echo.ErrBadRequest), 503, "answer_postponed", false},
		"any other":          {errors.New("private"), 503, "answer_failed", false},
		"payload of another": {nil, 422, "undecodable", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, runs := echo.New(), atomic.Int32{}
			e.POST("/", func(c echo.Context) error {
				runs.Add(1)
				if row.err == nil {
					_, err := echov4.EventOf[int](c)
					return err
				}
				return row.err
			}, echov4.Verified(inline(t, nil), "github"))
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
}

// A group with middleware answers unknown paths itself: that must not become the event's response.
func TestAGroupStoresNothingForPathsWithoutARoute(t *testing.T) {
	t.Parallel()
	store := dedup.NewMemory(dedup.MemoryOptions{})
	defer func() { _ = store.Close() }()
	rx := inline(t, func(c *receiver.Config) { c.Store = store })
	e := echo.New()
	group := e.Group("/in", echov4.Verified(rx, "github"))
	group.POST("/push", func(c echo.Context) error { return c.String(200, "push") })
	group.PUT("/put", func(c echo.Context) error { return c.String(200, "put") })
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
}

// Echo reuses its contexts: one may not be reused while a function that is too slow has it.
func TestSlowFunctionsKeepTheirContext(t *testing.T) {
	t.Parallel()
	goOn, done := make(chan struct{}), make(chan string, 1)
	e := echo.New()
	e.POST("/in/:tenant", func(c echo.Context) error {
		if c.Param("tenant") == "slow" {
			<-goOn
			done <- c.Param("tenant")
		}
		return c.String(200, c.Param("tenant"))
	}, echov4.Verified(inline(t, func(c *receiver.Config) { c.AnswerTimeout = time.Second }), "github"))
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
}

func TestMountServesBelowAGroup(t *testing.T) {
	t.Parallel()
	e := echo.New()
	echov4.Mount(e.Group("/api/:version"), open(t, nil))
	srv := serve(t, e)
	for _, row := range []struct{ method, target, status string }{
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
		answer := wire(t, srv, row.method, row.target, "{}", "2")
		if !strings.HasPrefix(answer, "HTTP/1.1 "+row.status) {
			t.Errorf("%s %s: %.80q, want %s", row.method, row.target, answer, row.status)
		}
	}
}

// TestFunctionsFindTheHeaderOfMiddleware: it is theirs to read and to change, but each response has
// that of its own request. Requests that are made again pass middleware that knows them.
func TestFunctionsFindTheHeaderOfMiddleware(t *testing.T) {
	t.Parallel()
	e, runs, requests, log := echo.New(), 0, 0, &bytes.Buffer{}
	e.Use(middleware.RequestIDWithConfig(middleware.RequestIDConfig{Generator: func() string {
		requests++
		return fmt.Sprint("request-", requests)
	}}), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Response().Header().Set("Vary", "Origin")
			c.Response().Header().Set("Set-Cookie", "outer=1")
			if !echov4.IsRerun(c) && c.Request().Header.Get("Authorization") == "" {
				return echo.ErrUnauthorized
			}
			return next(c)
		}
	})
	rx := inline(t, func(c *receiver.Config) {
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	e.POST("/", func(c echo.Context) error {
		runs++
		if again := echov4.IsRerun(c); again != (runs > 1) {
			t.Errorf("run %d is made again: %t", runs, again)
		}
		if runs == 1 {
			return errors.New("the printer is off")
		}
		h := c.Response().Header()
		h.Set("X-Seen", h.Get(echo.HeaderXRequestID))
		h.Add("Vary", "Accept")
		h.Add("Set-Cookie", "inner=1")
		return c.String(200, "ok")
	}, echov4.Verified(rx, "github"))
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
}

// TestRenderErrorsAsksTheErrorHandler, whose body is the response if its status means the same.
func TestRenderErrorsAsksTheErrorHandler(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err    error
		shown  int // by the error handler
		status int
		ours   bool
		runs   int32
	}{
		"refused":         {echo.NewHTTPError(422, "no ref"), 418, 418, true, 1},
		"rejected":        {receiver.Reject(errors.New("private")), 418, 418, true, 1},
		"shown as retry":  {receiver.Reject(errors.New("private")), 500, 422, false, 1},
		"refused, as 500": {echo.NewHTTPError(422, "no ref"), 500, 422, false, 1},
		"transient":       {errors.New("private"), 500, 500, true, 2},
		"shown as final":  {errors.New("private"), 418, 503, false, 2},
		"later":           {receiver.RetryAfter(time.Hour, nil), 500, 503, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, runs := echo.New(), atomic.Int32{}
			e.HTTPErrorHandler = func(err error, c echo.Context) {
				_ = c.JSON(row.shown, echo.Map{"house": "style"})
			}
			e.POST("/", func(echo.Context) error {
				runs.Add(1)
				return row.err
			}, echov4.Verified(inline(t, nil), "github"), echov4.RenderErrors)
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
}
