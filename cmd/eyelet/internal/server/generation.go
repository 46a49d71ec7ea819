package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/tracing"
	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/internal/redact"
	"github.com/eyelet-dev/eyelet/receiver"
)

// generation is what a reload replaces: a receiver with its configuration.
type generation struct {
	Options
	rx        *receiver.Receiver
	explainer *explainer         // nil if refused deliveries are not explained in the log
	explain   *explain.Explainer // for the operations port
	times     *signedTimes       // of deliveries, for explanations
	page      *inspect.Inspector // nil without an operations port
	deliver   http.Handler       // serves deliveries, once rx is there
	resources *resources
	retired   []*retiredHandler
	comparing comparing
}

// resources are what the handlers of a configuration use. They are closed when no handler does.
type resources struct {
	users atomic.Int32
	close func() error // may be nil
}

func (r *resources) release() error {
	if r.users.Add(-1) > 0 || r.close == nil {
		return nil
	}
	return r.close()
}

func newGeneration(o Options) *generation {
	g := &generation{Options: o, resources: &resources{close: o.OnClose}}
	g.resources.users.Store(1)
	return g
}

// receiverConfig completes the configuration of the receiver.
func (g *generation) receiverConfig(s *Server) receiver.Config {
	c := g.Receiver
	c.Store, c.Logger, c.Observe, c.Tracer = s.store, s.Log.Logger, s.observe, s.traces.Tracer()
	c.PeersFile = s.stateFile(peersFile)
	g.explain, g.times = explain.New(c.Producers), newSignedTimes(s.store, s.ring, &c)
	if g.Explain {
		g.explainer = newExplainer(c, g.times.offsets)
	}
	c.Refused = refusedHook(s.ring, g.explainer)
	for _, h := range g.retired {
		c.Handlers = append(slices.Clip(c.Handlers), h.handler)
	}
	return c
}

// serve makes the handler of deliveries. written is how long the server lets a response take.
func (g *generation) serve(rx *receiver.Receiver, written time.Duration, traces *tracing.Provider) {
	g.rx = rx
	next := Handler(rx)
	if own := httpserver.New(nil, g.httpOptions()).WriteTimeout; own > written {
		next = extended(next, own)
	}
	if g.Wrap != nil {
		next = g.Wrap(next)
	}
	g.deliver = traces.Handler(g.requireTLS(next))
}

// extended gives the responses of a handler more time than its server does.
func extended(next http.Handler, written time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(written)) // else it has that of the server
		next.ServeHTTP(w, r)
	})
}

// httpOptions are the limits of the HTTP servers.
func (o Options) httpOptions() httpserver.Options {
	rx := o.Receiver
	return httpserver.Options{
		HeaderBytes: o.HeaderBytes, HeaderTimeout: o.HeaderTimeout, IdleTimeout: o.IdleTimeout, HTTP2: o.HTTP2,
		Body: cmp.Or(rx.BodyTimeout, receiver.DefaultBodyTimeout),
		// A duplicate may wait for a run without a response, and then run the handler itself.
		Answer: max(rx.AnswerTimeout, receiver.DefaultAnswerTimeout) + max(0, rx.InFlightWait), Log: o.Log.Logger,
	}
}

// requireTLS refuses deliveries that crossed a network without TLS, unless the operator accepts
// them.
func (g *generation) requireTLS(next http.Handler) http.Handler {
	if g.InsecureHTTP {
		return next
	}
	return httpserver.RequireTLS(next, g.TLS != nil || g.ACME != nil || g.Loopback, g.Receiver.TrustedProxies)
}

// secretPlaces are the places of credentials in deliveries. An unknown path has no producer, and a
// credential may be at another producer's place: those of all of them are hidden everywhere.
func (g *generation) secretPlaces() (rules redact.Rules) {
	if g.Refused != nil {
		rules = g.Refused.Rules
	}
	for _, p := range g.Receiver.Producers {
		p = p.WithDefaults()
		rules.Fields = append(slices.Clip(rules.Fields), p.SecretHeaders...)
		rules.Params = append(slices.Clip(rules.Params), p.SecretQuery...)
	}
	return rules
}

// shutdown finishes the work of the receiver until ctx ends.
func (g *generation) shutdown(ctx context.Context) error {
	if g.rx == nil {
		return nil
	}
	g.comparing.stop()
	return g.rx.Shutdown(ctx)
}

// close releases what the receiver used, after shutdown.
func (g *generation) close() error {
	if g.explainer != nil {
		g.explainer.close()
	}
	var errs []error
	for _, h := range g.retired {
		h.end()
		errs = append(errs, h.of.release())
	}
	return errors.Join(append(errs, g.resources.release())...)
}

// swapHandler is a handler that can be replaced while it serves.
type swapHandler struct {
	mu      sync.RWMutex
	current *countedHandler
}

// countedHandler counts the requests that it serves.
type countedHandler struct {
	http.Handler
	requests sync.WaitGroup
}

func newSwapHandler(h http.Handler) *swapHandler {
	return &swapHandler{current: &countedHandler{Handler: h}}
}

// set serves later requests with h. It returns the requests that the handler before still serves.
func (s *swapHandler) set(h http.Handler) (before *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = &s.current.requests
	s.current = &countedHandler{Handler: h}
	return before
}

// ServeHTTP implements http.Handler.
func (s *swapHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	h := s.current
	h.requests.Add(1)
	s.mu.RUnlock()
	defer h.requests.Done()
	h.ServeHTTP(w, r)
}

// handlersOf returns the names of a producer's handlers.
func (g *generation) handlersOf(producer string) (names []string) {
	for _, h := range g.Receiver.Handlers {
		if name, from := h.Names(); from == producer {
			names = append(names, name)
		}
	}
	return names
}
