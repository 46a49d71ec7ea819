package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/receiver/internal/capture"
)

const (
	bindingWait  = 2 * time.Second  // how long runs wait for the routes after Open
	bindingPause = 10 * time.Second // between the attempts of an event that waits for its route
)

// Inline makes a handler whose function is an ordinary [http.Handler] of your router, behind the
// middleware [Receiver.Verified] (echov4, echov5). Otherwise it is an [Answer] handler:
// it runs while the producer waits, and what it writes is the response, stored and sent again to
// duplicates. A status of 400 to 499 refuses the event finally; 408, 425, 429 and 5xx are not
// stored, and the next delivery runs the function again.
//
// The function gets the request with the verified body, without its content coding, and with the
// stored header fields: no Authorization and no Cookie. It reads the event with [EventOf]. The
// response is held in memory: at most 1 MiB, without Flush and Hijack. It has the header fields
// that middleware set, of which only those that the function changes are stored. A panic counts as
// an error.
//
// A later run of the same event gets the same request, made again from the stored delivery and
// sent through the whole router, where Verified lets it pass. It has no credentials: middleware
// that asks for some lets it pass too if [IsRerun] says so. Until the routes exist and the
// first request or [Receiver.Bind] shows the router, such events wait, and deliveries that do not
// come through Verified get 503: none is lost.
func Inline(producer, pattern string) Handler {
	return Handler{producer: producer, pattern: pattern, answer: true, inline: true}
}

// Verified returns middleware for the routes that receive the events of a producer with [Inline]
// handlers. Functions behind it see verified events only, each once. Everything else is answered
// without them: refusals, handshakes, duplicates, and events of other handlers.
//
//	mux.Handle("POST /orders", rx.Verified("shop")(http.HandlerFunc(onOrder)))
//
// Put it in front of routes, not of a router: the 404 of a router would be stored as the response
// to the event. If several routes use it and the signature does not cover the URL, any client that
// captured a delivery can choose the route.
//
// It panics for an unknown producer, one without an Inline handler, and if it was called before:
// use the result of the first call for all routes. A function that ignores the end of its context
// holds the connection, although its response was sent.
func (rx *Receiver) Verified(name string) func(http.Handler) http.Handler {
	ep, route := rx.endpoints[name], rx.registry.inline[name]
	switch {
	case ep == nil:
		panic(fmt.Sprintf("receiver: there is no producer %q", name))
	case route == nil:
		panic(fmt.Sprintf("receiver: producer %q has no Inline handler: "+
			"add receiver.Inline(%q, \"*\") to Config.Handlers", name, name))
	case route.bound.Swap(true):
		panic(fmt.Sprintf("receiver: Verified(%q) was called before: use its result for all routes", name))
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch run := passing(r.Context()); {
			case run == nil || run.route != route:
				route.receive(ep, next, w, r)
			case runOf(r.Context()) == run: // Verified is in front of the function twice
				next.ServeHTTP(w, r)
			default:
				run.serve(next, w.Header(), r)
			}
		})
	}
}

// Bind shows the receiver the router, so that events that wait for their route run before the
// first request. Call it once all routes are registered, with the handler of the server. The
// error names the producers with [Inline] handlers that no route uses Verified for.
func (rx *Receiver) Bind(router http.Handler) error {
	if router == nil {
		return errors.New("the router is nil")
	}
	var errs faults
	for _, p := range rx.cfg.Producers {
		switch route := rx.registry.inline[p.Name]; {
		case route == nil:
		case route.bound.Load():
			route.show(router)
		default:
			errs.when(true, "producer %q has an Inline handler, and no route is behind Verified(%q)", p.Name, p.Name)
		}
	}
	return errors.Join(errs...)
}

// EventOf returns the event of a request behind [Receiver.Verified], with its payload decoded as
// for [Answer]. The function should pass its error to [Respond].
func EventOf[T any](r *http.Request) (Event[T], error) {
	run := runOf(r.Context())
	if run == nil {
		return Event[T]{}, errors.New("the request has no event: the route is not behind Verified")
	}
	return decodeEvent[T](run.event, run.decode)
}

// IsRerun reports whether the receiver made the request again from a stored delivery, for a later
// run of an [Inline] handler. It was verified then, and has no credentials for other middleware. No
// client can make such a request.
func IsRerun(r *http.Request) bool {
	run := passing(r.Context())
	return run != nil && run.again
}

// Respond ends a function behind [Receiver.Verified] with what an [Answer] handler would return,
// such as [Reject] or [Postpone]. It replaces what the function writes. It panics if the request
// did not pass Verified.
func Respond(r *http.Request, response Response, err error) {
	run := runOf(r.Context())
	if run == nil {
		panic("receiver: Respond for a request that did not pass Verified")
	}
	run.response, run.err = &response, err
}

// inlineRoute leads the events of a producer to the functions behind its Verified.
type inlineRoute struct {
	host     string // of requests that are made again
	extracts bool   // the stored body is the content of an envelope
	waitsTo  time.Time

	bound  atomic.Bool // Verified was called
	once   sync.Once
	shown  chan struct{}
	router http.Handler // once shown is closed
}

func newInlineRoute(extracts bool) *inlineRoute {
	return &inlineRoute{extracts: extracts, shown: make(chan struct{}), waitsTo: time.Now().Add(bindingWait)}
}

func (b *inlineRoute) show(router http.Handler) {
	b.once.Do(func() { b.router = router; close(b.shown) })
}

// find returns the router, or nil if there is none yet.
func (b *inlineRoute) find(ctx context.Context) http.Handler {
	wait := time.NewTimer(time.Until(b.waitsTo))
	defer wait.Stop()
	select {
	case <-b.shown:
	case <-wait.C:
	case <-ctx.Done():
	}
	select {
	case <-b.shown:
		return b.router
	default:
		return nil
	}
}

// receive passes a request to the endpoint. The function runs in another goroutine, with what
// routers and middleware added to the request. They may reuse that once receive returns, so
// receive waits for a function that outlasts the response.
func (b *inlineRoute) receive(ep *endpoint, next http.Handler, w http.ResponseWriter, r *http.Request) {
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.Handler != nil {
		b.show(server.Handler)
	} else if ok {
		b.show(http.DefaultServeMux)
	}
	call := &inlineCall{route: b, next: next, header: w.Header().Clone(), r: r}
	defer call.turn.close(func() { _ = http.NewResponseController(w).Flush() })
	ep.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, call)))
}

// run is the handler's function: it runs the one behind Verified. The first run gets the request
// of the delivery, and later ones a request made again.
func (b *inlineRoute) run(ctx context.Context, ev Event[any], decode decodeFunc) (*Response, error) {
	body, err := decodedBody(ev.Header, ev.Body, maxPlain)
	if err != nil {
		return nil, &undecodable{reason{"payload has a bad content coding", err}}
	}
	run := &inlineRun{route: b, event: ev, decode: decode, w: capture.New(maxResponse)}
	if call := callOf(ctx, b); call != nil && ev.Attempt == 1 && call.turn.enter() {
		defer call.turn.leave()
		run.serve(call.next, call.header, run.fill(call.r.WithContext(ctx), body))
		return run.result()
	}
	router := b.find(ctx)
	if router == nil {
		return nil, Postpone(bindingPause, errNoRouter)
	}
	run.again = true
	again, err := b.again(context.WithValue(ctx, passKey{}, run), &ev)
	if err != nil {
		return nil, Reject(err)
	}
	outside := capture.New(maxResponse)
	router.ServeHTTP(outside, run.fill(again, body))
	run.turn.close(func() {}) // middleware that limits the time may have returned before the function
	if !run.reached {
		return nil, fmt.Errorf("no function behind Verified got the request made again from the stored delivery, "+
			"%s %s: the router answered %d", ev.Method, ev.Target, outside.Status())
	}
	return run.result()
}

var errNoRouter = errors.New("the router is unknown until the first request: call Bind once the routes exist")

// again returns the request of a stored delivery, without its body.
func (b *inlineRoute) again(ctx context.Context, ev *Event[any]) (*http.Request, error) {
	at, err := url.ParseRequestURI(ev.Target)
	if err != nil {
		return nil, errors.New("the stored request target is not one")
	}
	r := &http.Request{
		Method: ev.Method, URL: at, RequestURI: ev.Target, Host: b.host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return r.WithContext(ctx), nil
}

// checkRoute refuses what no function could get: events for an Inline handler that did not come
// through Verified, and requests made again that reached an endpoint.
func checkRoute(ctx context.Context, entries []entry) error {
	if passing(ctx) != nil {
		return fail(codeUnbound, errors.New("a request made again from a stored delivery reached an endpoint"))
	}
	if len(entries) != 1 || entries[0].answer == nil || entries[0].answer.route == nil {
		return nil
	}
	if h := entries[0].answer; callOf(ctx, h.route) == nil {
		return fail(codeUnbound, fmt.Errorf("handler %q is Inline: register a route behind Verified(%q), "+
			"and let the producer send there", h.name, h.producer))
	}
	return nil
}

// inlineCall is a request on its way through the endpoint.
type inlineCall struct {
	route  *inlineRoute
	next   http.Handler
	header http.Header // of the response, by middleware in front
	r      *http.Request
	turn   turnstile
}

// inlineRun is one run of a function behind Verified.
type inlineRun struct {
	route  *inlineRoute
	event  Event[any]
	decode decodeFunc
	w      *capture.Writer
	again  bool // the request is made again
	turn   turnstile

	// These belong to the holder of the turnstile.
	reached, returned bool
	response          *Response // of Respond
	err               error
}

// fill sets header and body of the request to those of the event.
func (run *inlineRun) fill(r *http.Request, body []byte) *http.Request {
	r.Header = run.event.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Del("Content-Encoding")
	if r.Header.Get("Content-Length") != "" {
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if kind := r.Header.Get("Content-Type"); run.route.extracts && !strings.Contains(kind, "json") && json.Valid(body) {
		r.Header.Set("Content-Type", jsonType)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.TransferEncoding, r.Trailer = nil, nil
	r.Form, r.PostForm, r.MultipartForm = nil, nil, nil
	return r
}

// serve runs the function, once. Its response has the header that middleware set.
func (run *inlineRun) serve(next http.Handler, header http.Header, r *http.Request) {
	if !run.turn.enter() {
		return
	}
	defer run.turn.leave()
	run.reached = true
	run.w.Inside(header)
	defer func() { // here, because middleware in front of Verified would recover it
		if v := recover(); v != nil {
			run.err = newPanic(v)
		}
	}()
	ctx := context.WithValue(context.WithValue(r.Context(), passKey{}, run), runKey{}, run)
	next.ServeHTTP(run.w, r.WithContext(ctx))
	run.returned = true
}

// result returns what the function wrote or passed to Respond.
func (run *inlineRun) result() (*Response, error) {
	switch {
	case run.err != nil:
		return run.response, run.err
	case !run.returned:
		return nil, errGoexit
	case run.response != nil:
		return run.response, nil
	}
	status, header, body, err := run.w.Result()
	if err != nil {
		return nil, err
	}
	return &Response{Status: status, Header: header, Body: body}, nil
}

// The keys of values of contexts. No client can set them.
type (
	callKey struct{} // the inlineCall of a request that the endpoint verifies
	passKey struct{} // the inlineRun of a request that Verified lets pass
	runKey  struct{} // the same, behind Verified
)

func callOf(ctx context.Context, route *inlineRoute) *inlineCall {
	if call, ok := ctx.Value(callKey{}).(*inlineCall); ok && call.route == route {
		return call
	}
	return nil
}

func passing(ctx context.Context) *inlineRun {
	run, _ := ctx.Value(passKey{}).(*inlineRun)
	return run
}

func runOf(ctx context.Context) *inlineRun {
	run, _ := ctx.Value(runKey{}).(*inlineRun)
	return run
}

// turnstile admits one goroutine at a time until it is closed.
type turnstile struct {
	mu     sync.Mutex
	closed bool
}

func (g *turnstile) enter() bool {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return false
	}
	return true
}

func (g *turnstile) leave() { g.mu.Unlock() }

// close waits for the goroutine inside, if any, after calling waiting.
func (g *turnstile) close(waiting func()) {
	if !g.mu.TryLock() {
		waiting()
		g.mu.Lock()
	}
	g.closed = true
	g.mu.Unlock()
}
