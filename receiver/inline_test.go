package receiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// order is the payload of the tests of Inline.
type order struct{ Number string }

// inlineSite serves fn at POST /orders/{id}, behind Verified. outer, if not nil, wraps the router.
func inlineSite(
	t *testing.T, p producer.Producer, change func(*Config), fn http.HandlerFunc, outer func(http.Handler) http.Handler,
) *site {
	t.Helper()
	s := serve(t, p, change, Inline("shop", "*"))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", s.rx.Verified("shop")(fn))
	s.router = mux
	if outer != nil {
		s.router = outer(mux)
	}
	if s.srv != nil {
		s.srv.Close()
		s.srv = httptest.NewServer(s.router)
	}
	return s
}

func toRoute(id, body string) req { return req{path: "/orders/7?x=1", id: id, typ: "paid", body: body} }

func TestInlineFunctionsGetTheVerifiedRequest(t *testing.T) {
	t.Parallel()
	runs := newCounter()
	contracts(t, func(t *testing.T, p producer.Producer) {
		s := inlineSite(t, p, nil, func(w http.ResponseWriter, r *http.Request) {
			runs.add()
			body, err := io.ReadAll(r.Body)
			ev, evErr := EventOf[order](r)
			if err := errors.Join(err, evErr); err != nil {
				t.Error(err)
			}
			if ev.Data.Number != "A1" || ev.Type != "paid" || ev.ID != "k1" || ev.Attempt != 1 {
				t.Errorf("event %+v", ev)
			}
			if string(body) != `{"Number":"A1"}` || r.ContentLength != int64(len(body)) ||
				r.PathValue("id") != "7" || r.URL.Query().Get("x") != "1" || r.Header.Get("Authorization") != "" {
				t.Errorf("%q, %d, %v, %v", body, r.ContentLength, r.URL, r.Header)
			}
			w.Header().Set("Location", "/orders/A1")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
			w.Header().Set("Late", "1")
			_, _ = io.WriteString(w, "<p>")
			_, _ = io.WriteString(w, "made")
		}, nil)
		a := toRoute("k1", `{"Number":"A1"}`)
		a.header = http.Header{"Authorization": {"Bearer secret"}}
		for i := range 3 {
			g := s.send(a)
			if g.status != 201 || g.body != "<p>made" || g.header.Get("Location") != "/orders/A1" ||
				g.header.Get("Content-Type") != "text/html; charset=utf-8" || g.header.Get("Late") != "" ||
				g.replayed() != (i > 0) {
				t.Errorf("%d: %+v", i, g)
			}
		}
		if rec := s.records(); len(rec) != 1 || rec[0].Response.Status != 201 || rec[0].State() != dedup.Done {
			t.Errorf("records %+v", rec)
		}
	})
	t.Cleanup(func() {
		if runs.count() != 2 { // one for each contract
			t.Errorf("%d runs", runs.count())
		}
	})
}

func TestOutcomesOfInlineFunctionsAreThoseOfAnswerHandlers(t *testing.T) {
	t.Parallel()
	write := func(status, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if _, err := w.Write(make([]byte, size)); (err != nil) != (size > 1<<20) {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	}
	panics := func(v any) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { panic(v) }
	}
	fail := func(err error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "replaced")
			Respond(r, Response{}, err)
		}
	}
	for name, row := range map[string]struct {
		fn     http.HandlerFunc
		status int
		code   string // of a problem
		stored bool
	}{
		"nothing written":  {func(http.ResponseWriter, *http.Request) {}, 204, "", true},
		"refused":          {write(409, 3), 409, "", true},
		"transient":        {write(429, 0), 429, "", false},
		"redirect":         {write(302, 0), 503, "answer_failed", false},
		"1 MiB":            {write(200, 1<<20), 200, "", true},
		"1 MiB and a byte": {write(200, 1<<20+1), 503, "answer_failed", false},
		"rejected":         {fail(Reject(errors.New("private"))), 422, "rejected", true},
		"postponed":        {fail(Postpone(time.Minute, nil)), 503, "answer_postponed", false},
		"plain error":      {fail(errors.New("private")), 503, "answer_failed", false},
		"panic":            {panics("private"), 503, "answer_failed", false},
		"panic after 200": {func(w http.ResponseWriter, _ *http.Request) {
			write(200, 1)(w, nil)
			panic("private")
		}, 503, "answer_failed", false},
		"panic to abort": {panics(http.ErrAbortHandler), 503, "answer_failed", false},
		"a response": {func(_ http.ResponseWriter, r *http.Request) {
			Respond(r, Response{Status: 202}, nil)
		}, 202, "", true},
		"a refusal": {func(_ http.ResponseWriter, r *http.Request) {
			Respond(r, Response{Status: 404, Refusal: &Refusal{Detail: "no such order"}}, Reject(errors.New("private")))
		}, 404, "rejected", true},
		"undecodable": {func(_ http.ResponseWriter, r *http.Request) {
			_, err := EventOf[int](r)
			Respond(r, Response{}, err)
		}, 422, "undecodable", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := newCounter()
			s := inlineSite(t, apiProducer(), omitErrors, func(w http.ResponseWriter, r *http.Request) {
				runs.add()
				row.fn(w, r)
			}, nil)
			for i := range 2 {
				g := s.send(toRoute("k1", `{}`))
				if row.code != "" && !strings.Contains(g.body, `"code":"`+row.code+`"`) {
					t.Errorf("%d: %s", i, g.body)
				}
				if g.status != row.status || g.replayed() != (i == 1 && row.stored) ||
					strings.Contains(g.body, "private") {
					t.Errorf("%d: %d, replayed %t, %.80s", i, g.status, g.replayed(), g.body)
				}
			}
			if want := map[bool]int{true: 1, false: 2}[row.stored]; runs.count() != want {
				t.Errorf("%d runs, want %d", runs.count(), want)
			}
			if text := s.log.String(); strings.Contains(text, "private") ||
				strings.Contains(text, "stack=") != strings.HasPrefix(name, "panic") {
				t.Errorf("the log quotes the function, or has no stack of a panic: %s", text)
			}
		})
	}
}

func TestInlineResponsesCannotBeFlushedOrHijacked(t *testing.T) {
	t.Parallel()
	s := inlineSite(t, apiProducer(), nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/orders/7")
		c := http.NewResponseController(w)
		_, _, hijack := c.Hijack()
		if flush := c.Flush(); !errors.Is(flush, http.ErrNotSupported) || !errors.Is(hijack, http.ErrNotSupported) {
			t.Errorf("%v, %v", flush, hijack)
		}
	}, nil)
	if g := s.send(toRoute("k1", `{}`)); g.status != 204 || g.header.Get("Location") != "/orders/7" {
		t.Errorf("%+v", g)
	}
}

func TestConcurrentDeliveriesRunTheInlineFunctionOncePerEvent(t *testing.T) {
	t.Parallel()
	runs := newCounter()
	s := inlineSite(t, apiProducer(), func(c *Config) { c.InFlightWait = 20 * time.Second },
		func(w http.ResponseWriter, r *http.Request) {
			ev, err := EventOf[order](r)
			if err != nil || ev.ID != ev.Data.Number {
				t.Error(ev.ID, ev.Data, err)
			}
			runs.add()
			_, _ = io.WriteString(w, ev.ID)
		}, nil)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			id := fmt.Sprint("k", i%4)
			g, err := s.try(toRoute(id, `{"Number":"`+id+`"}`))
			if err != nil || g.status != 200 || g.body != id {
				t.Errorf("%+v, %v", g, err)
			}
		})
	}
	if all.Wait(); runs.count() != 4 {
		t.Errorf("%d runs", runs.count())
	}
}

// Routers and middleware reuse their contexts once the request has ended. The response is sent
// before that, in HTTP/2 too.
func TestARequestEndsAfterItsInlineFunction(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		goOn, ended := make(chan struct{}), make(chan bool, 10)
		var over sync.Mutex
		returned, made := false, false // made: the function began late, with a request that was made again
		s := inlineSite(t, apiProducer(), func(c *Config) { c.AnswerTimeout = 20 * time.Millisecond },
			func(w http.ResponseWriter, r *http.Request) {
				<-goOn
				over.Lock()
				defer over.Unlock()
				made = r.RemoteAddr == ""
				ended <- returned && !made
				_, _ = io.WriteString(w, r.Proto)
			}, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(w, r)
					over.Lock()
					defer over.Unlock()
					returned = true
				})
			})
		c, proto := client, "HTTP/1.1"
		if http2 {
			proto = "HTTP/2.0"
			secure := httptest.NewUnstartedServer(s.srv.Config.Handler)
			secure.EnableHTTP2 = true
			secure.StartTLS()
			s.srv.Close()
			s.srv, c = secure, secure.Client()
			t.Cleanup(secure.Close)
		}
		resp, err := c.Do(s.request(toRoute("k1", `{}`))) // while the function still runs
		if err != nil {
			t.Fatal(err)
		}
		whole := make([]byte, resp.ContentLength)
		_, err = io.ReadFull(resp.Body, whole)
		if got := string(whole); err != nil || resp.StatusCode != 503 || resp.Proto != proto ||
			!strings.Contains(got, "answer_timeout") {
			t.Errorf("%s %d %v: %s", resp.Proto, resp.StatusCode, err, got)
		}
		close(goOn)
		if <-ended {
			t.Errorf("%s: the request had ended", proto)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		waitFor(t, func() bool { return s.records()[0].State() == dedup.Done })
		g, err := s.tryWith(c, toRoute("k1", `{}`))
		if err != nil || g.status != 200 || g.body != proto && !made || !g.replayed() {
			t.Errorf("%+v %v", g, err)
		}
	}
}

// A later run gets the first delivery, whatever the one that triggers it brings.
func TestALaterRunGetsTheStoredRequest(t *testing.T) {
	t.Parallel()
	runs := newCounter()
	p := webhookProducer()
	s := inlineSite(t, p, nil, func(w http.ResponseWriter, r *http.Request) {
		if runs.add() == 1 {
			Respond(r, Response{}, errors.New("not yet"))
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Host != "hooks.example" || r.Method != "POST" || r.ContentLength != 2 {
			t.Error(err, r.Host, r.Method, r.ContentLength)
		}
		_, _ = fmt.Fprintf(w, "%s %s %s %s", r.PathValue("id"), r.Header.Get("Shop"), body, r.RequestURI)
	}, nil)
	first, second := toRoute("k1", `{}`), toRoute("k1", `{}`)
	first.header, second.header = http.Header{"Shop": {"ours"}}, http.Header{"Shop": {"evil"}}
	second.path = "/orders/8"
	wantProblem(t, s.send(first), 503, "answer_failed")
	if g := s.send(second); g.status != 200 || g.body != "7 ours {} /orders/7?x=1" || g.replayed() {
		t.Errorf("%+v", g)
	}
}

// reopen reopens the only event of the site.
func (s *site) reopen() {
	s.t.Helper()
	if _, err := s.store.Reopen(s.t.Context(), s.records()[0].Event); err != nil {
		s.t.Fatal(err)
	}
}

func TestAReopenedEventRunsTheInlineFunctionAgain(t *testing.T) {
	t.Parallel()
	var coded bytes.Buffer
	zip := gzip.NewWriter(&coded)
	_, _ = zip.Write([]byte(`{"Number":"A1"}`))
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	runs := newCounter()
	recovers := func(next http.Handler) http.Handler { // as those of all frameworks do
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if v := recover(); v != nil {
					w.WriteHeader(500)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
	s := inlineSite(t, apiProducer(), func(c *Config) { c.BackoffCap = time.Millisecond },
		func(_ http.ResponseWriter, r *http.Request) {
			n := runs.add()
			body, err := io.ReadAll(r.Body)
			ev, evErr := EventOf[order](r)
			if errors.Join(err, evErr) != nil || string(body) != `{"Number":"A1"}` || ev.Data.Number != "A1" ||
				r.Header.Get("Content-Encoding") != "" || r.PathValue("id") != "7" {
				t.Errorf("run %d: %q, %+v, %v", n, body, r, errors.Join(err, evErr))
			}
			switch n {
			case 1:
				Respond(r, Response{}, Reject(nil))
			case 2:
				panic("middleware must not hide it")
			}
		}, recovers)
	a := toRoute("k1", coded.String())
	a.header = http.Header{"Content-Encoding": {"gzip"}}
	wantProblem(t, s.send(a), 422, "rejected")
	s.reopen()
	waitFor(t, func() bool { return s.records()[0].State() == dedup.Done })
	if runs.count() != 3 {
		t.Errorf("%d runs", runs.count())
	}
	if g := s.send(a); g.status != 422 || !g.replayed() { // the response of the first run stays
		t.Errorf("%+v", g)
	}
}

// An event that waits for its route is neither lost nor counted as failed.
func TestAReopenedEventWaitsForItsRoute(t *testing.T) {
	t.Parallel()
	bubble(t, aReopenedEventWaitsForItsRoute)
}

func aReopenedEventWaitsForItsRoute(t *testing.T) {
	reject := func(_ http.ResponseWriter, r *http.Request) { Respond(r, Response{}, Reject(nil)) }
	s := inlineSite(t, apiProducer(), nil, reject, nil)
	wantProblem(t, s.send(toRoute("k1", `{}`)), 422, "rejected")
	if err := s.rx.Close(); err != nil {
		t.Fatal(err)
	}
	s.reopen()
	runs := newCounter()
	later := serve(t, apiProducer(), func(c *Config) {
		c.Store, c.PostponeMax, c.Attempts = s.store, time.Millisecond, 2
	}, Inline("shop", "*"))
	if err := later.rx.Bind(http.NewServeMux()); err == nil || !strings.Contains(err.Error(), `Verified("shop")`) {
		t.Errorf("bind: %v", err)
	}
	waitFor(t, func() bool { return s.records()[0].Tasks[0].Postponed > 2 })
	if task := s.records()[0].Tasks[0]; task.Reason != reasonPostponed || !strings.Contains(task.Err, "call Bind") {
		t.Errorf("%+v", task)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", later.rx.Verified("shop")(http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) { runs.add() })))
	if err := later.rx.Bind(mux); err != nil {
		t.Error(err)
	}
	waitFor(t, func() bool { return s.records()[0].State() == dedup.Done })
	if runs.count() != 1 {
		t.Errorf("%d runs", runs.count())
	}
}

// The router may have no route for a stored delivery, or another one.
func TestAReopenedEventWithoutItsRouteIsADeadLetter(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(*Receiver) http.Handler{
		"no route":    func(*Receiver) http.Handler { return http.NotFoundHandler() },
		"an endpoint": func(rx *Receiver) http.Handler { return rx.HTTP("shop") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inlineSite(t, webhookProducer(), func(c *Config) { c.Attempts = 1 },
				func(_ http.ResponseWriter, r *http.Request) { Respond(r, Response{}, Reject(nil)) }, nil)
			if err := s.rx.Bind(second(s.rx)); err != nil {
				t.Fatal(err)
			}
			wantProblem(t, s.send(toRoute("k1", `{}`)), 422, "rejected")
			s.reopen()
			waitFor(t, func() bool { return s.records()[0].State() == dedup.Dead })
			task := s.records()[0].Tasks[0]
			if task.Reason != reasonExhausted || !strings.Contains(task.Err, "/orders/7?x=1: the router answered ") {
				t.Errorf("%+v", task)
			}
			if len(s.records()) != 1 {
				t.Errorf("%d records", len(s.records()))
			}
		})
	}
}

// Another endpoint may have the same keys: a request made again must not become its event.
func TestARequestMadeAgainIsNoDelivery(t *testing.T) {
	t.Parallel()
	other := webhookProducer()
	other.Name = "other"
	s := inlineSite(t, webhookProducer(), func(c *Config) {
		c.Attempts, c.Producers = 1, append(c.Producers, other)
	}, func(_ http.ResponseWriter, r *http.Request) { Respond(r, Response{}, Reject(nil)) }, nil)
	if err := s.rx.Bind(s.rx.HTTP("other")); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s.send(toRoute("k1", `{}`)), 422, "rejected")
	s.reopen()
	waitFor(t, func() bool { return s.records()[0].State() == dedup.Dead })
	if all := s.records(); len(all) != 1 || !strings.Contains(all[0].Tasks[0].Err, "the router answered 503") {
		t.Errorf("%+v", all)
	}
}

func TestMiddlewareThatEndsEarlyDoesNotHideTheResult(t *testing.T) {
	t.Parallel()
	bubble(t, middlewareThatEndsEarly)
}

func middlewareThatEndsEarly(t *testing.T) {
	runs := newCounter()
	s := inlineSite(t, apiProducer(), func(c *Config) { c.BackoffCap = time.Millisecond },
		func(_ http.ResponseWriter, r *http.Request) {
			switch runs.add() {
			case 1:
				Respond(r, Response{}, Reject(nil))
			case 2:
				<-r.Context().Done()
				Respond(r, Response{}, errors.New("too slow"))
			}
		}, func(next http.Handler) http.Handler { return http.TimeoutHandler(next, 50*time.Millisecond, "") })
	wantProblem(t, s.send(toRoute("k1", `{}`)), 422, "rejected")
	s.reopen()
	waitFor(t, func() bool { return s.records()[0].State() == dedup.Done })
	if runs.count() != 3 {
		t.Errorf("%d runs", runs.count())
	}
}

func TestVerifiedTwiceInFrontOfAFunctionVerifiesOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil, Inline("shop", "*"))
	verified := s.rx.Verified("shop")
	s.srv.Config.Handler = verified(verified(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "once")
	})))
	for range 2 {
		if g := s.send(toRoute("k1", `{}`)); g.status != 200 || g.body != "once" {
			t.Errorf("%+v", g)
		}
	}
}

func TestVerifiedPanicsForMistakesInWiring(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil, Inline("shop", "*"))
	none := serve(t, apiProducer(), nil, mustNotRun(t))
	s.rx.Verified("shop")
	for want, call := range map[string]func(){
		`no producer "other"`:                func() { s.rx.Verified("other") },
		`Verified("shop") was called before`: func() { s.rx.Verified("shop") },
		`receiver.Inline("shop", "*")`:       func() { none.rx.Verified("shop") },
		"did not pass Verified":              func() { Respond(&http.Request{}, Response{}, nil) },
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, want) {
					t.Errorf("%q, want %q", v, want)
				}
			}()
			call()
		}()
	}
	if _, err := EventOf[order](&http.Request{}); err == nil || none.rx.Bind(nil) == nil {
		t.Errorf("EventOf: %v, and Bind takes no router", err)
	}
}

func TestDeliveriesThatNoFunctionGetsAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil, Inline("shop", "paid"), On("shop", "sent",
		func(context.Context, Event[[]byte]) error { return nil }))
	wantProblem(t, s.send(req{id: "k1", typ: "paid", body: "{}"}), 503, "handler_unbound")
	if n := len(s.records()); n != 0 {
		t.Errorf("%d records", n)
	}
	if !strings.Contains(s.log.String(), `register a route behind Verified(\"shop\")`) {
		t.Errorf("the log has no hint: %s", s.log)
	}
	if g := s.send(req{id: "k2", typ: "sent", body: "{}"}); g.status != 202 {
		t.Errorf("%+v", g)
	}
}
