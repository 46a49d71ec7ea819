// Package server runs a receiver behind its two ports: the port of deliveries, and the operations
// port with probes, metrics, the events API and maintenance of the store.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
)

// receiverEnd is how long a receiver that was drained may take to close.
const receiverEnd = 5 * time.Second

// Off is the address of a disabled operations port.
const Off = "off"

// The files beside the store in its folder.
const (
	peersFile   = "peers.json"   // networks that recently sent new events
	targetsFile = "targets.json" // the state of the targets of forward handlers
)

// Options configure a server. The configuration has been checked.
type Options struct {
	// Receiver configures the receiver; the server sets Store, Logger, Observe and PeersFile.
	Receiver receiver.Config
	// Targets are those of the forward handlers in Receiver.
	Targets *forward.State

	// Listen and Operations are the two addresses: HOST:PORT or unix:PATH, or [Off] for Operations.
	Listen, Operations string
	// TLS and OperationsTLS are the certificates of the two ports; nil serves plain HTTP.
	TLS, OperationsTLS *KeyPair
	HTTP2              bool
	Loopback           bool // only this machine can reach Listen
	InsecureHTTP       bool // accept deliveries without TLS from other machines

	Connections                receiver.Limits // of the port of deliveries
	HeaderBytes                int             // http.Server.MaxHeaderBytes
	HeaderTimeout, IdleTimeout time.Duration
	Drain                      time.Duration // to finish running work once the context of [Server.Run] ends

	// OpenStore opens the store, and StoreName is its name in the log.
	OpenStore func(*slog.Logger) (dedup.Store, error)
	StoreName string
	StoreDir  string // empty for a store in memory
	StateDir  string // for the token and the address of the operations port

	Log      *Log
	Warnings []string // logged at the start
	// StdoutGone is closed when the reader of standard output is gone, which ends the server. May
	// be nil.
	StdoutGone <-chan struct{}
	// OnStarting is called with the addresses once the ports answer, before the store is opened;
	// OnServing, once deliveries are accepted. Both may be nil.
	OnStarting, OnServing func(listen, operations string)
	// OnObserve is called with each observation of the receiver. It must not block. May be nil.
	OnObserve func(receiver.Observation)
	// OnClose is called last when the server closes. May be nil.
	OnClose func() error
	// Place returns where a setting was written, for errors.
	Place func(setting string) usage.Place
}

// Server is a receiver with its store and its two listeners.
type Server struct {
	Options
	store   dedup.Store
	rx      *receiver.Receiver
	metrics *metrics.Collector
	tail    *tailHub
	state   *stateFiles // nil without an operations port

	listeners []*receiver.Listener
	servers   []*http.Server
	handlers  []*swapHandler
	ended     chan error // why a server ended before its shutdown
}

// swapHandler is a handler that can be replaced while it serves.
type swapHandler struct{ current atomic.Pointer[http.Handler] }

func newSwapHandler(h http.Handler) *swapHandler {
	s := &swapHandler{}
	s.set(h)
	return s
}

func (s *swapHandler) set(h http.Handler) { s.current.Store(&h) }

// ServeHTTP implements http.Handler.
func (s *swapHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.current.Load()).ServeHTTP(w, r)
}

// New binds the ports and opens the store. After an error nothing is left open.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Options: o}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close()) //nolint:contextcheck // closing takes its own time
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	certificates, err := s.loadCertificates()
	if err != nil {
		return err
	}
	if err := s.listen(ctx, "listen", s.Listen, s.Connections); err != nil {
		return err
	}
	operations := s.Operations != Off
	if operations {
		if err := s.listen(ctx, "operations", s.Operations, operationsLimits(s.Connections)); err != nil {
			return err
		}
	}
	s.serveStarting(certificates)
	if err := s.openStore(); err != nil { //nolint:contextcheck // a store is opened whole
		return err
	}
	if err := OpenTargets(s.Targets, s.StoreDir, s.Log.Logger); err != nil {
		return err
	}
	s.metrics, s.tail = metrics.New(), newTailHub()
	c := s.Receiver
	c.Store, c.Logger, c.Observe = s.store, s.Log.Logger, s.observe
	if s.StoreDir != "" {
		c.PeersFile = filepath.Join(s.StoreDir, peersFile)
	}
	if s.rx, err = receiver.Open(c); err != nil {
		return usage.Errorf("", "%v", err)
	}
	raiseProcs()
	if operations {
		if s.state, err = writeState(s.StateDir, s.operationsAddress()); err != nil {
			return err
		}
	}
	s.handlers[0].set(Handler(s.rx))
	if operations { // after the deliveries, which must be accepted once readiness says so
		s.servers[1].RegisterOnShutdown(s.tail.close)
		s.handlers[1].set(s.operations())
	}
	return nil
}

// leastProcs is the least number of goroutines that run at once.
const leastProcs = 4

// raiseProcs lets at least four goroutines run at once, even on fewer processors, unless the
// environment sets the number. A flush of the store occupies one of them: on two processors the
// receiver would run at half its speed meanwhile, and the next commit would be smaller.
func raiseProcs() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < leastProcs {
		runtime.GOMAXPROCS(leastProcs)
	}
}

// OpenTargets opens the file of the targets in the store's folder; "" is a store in memory.
func OpenTargets(targets *forward.State, storeDir string, log *slog.Logger) error {
	file := ""
	if storeDir != "" {
		file = filepath.Join(storeDir, targetsFile)
	}
	if err := targets.Open(file, log); err != nil {
		return usage.Errorf("move the file away to have every target switched on, where the configuration says it is",
			"%v", err)
	}
	return nil
}

// serveStarting answers that the receiver is starting: opening a large store takes time, and
// producers and probes should not wait for it.
func (s *Server) serveStarting(certificates [2]*certificateFiles) {
	deliveries := newSwapHandler(receiver.Starting(s.Receiver))
	s.handlers = []*swapHandler{deliveries}
	s.servers = []*http.Server{s.newHTTPServer(s.requireTLS(deliveries), certificates[0])}
	if len(s.listeners) > 1 {
		operations := newSwapHandler(s.startingOperations())
		s.handlers = append(s.handlers, operations)
		s.servers = append(s.servers, s.newHTTPServer(s.listeners[1].Handler(operations), certificates[1]))
	}
	s.ended = make(chan error, len(s.servers))
	for i, srv := range s.servers {
		go s.serve(srv, s.listeners[i])
	}
	if s.OnStarting != nil {
		s.OnStarting(s.addresses())
	}
}

// serve serves a listener until it is closed.
func (s *Server) serve(srv *http.Server, ln net.Listener) {
	var err error
	if srv.TLSConfig != nil {
		err = srv.ServeTLS(ln, "", "")
	} else {
		err = srv.Serve(ln)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		s.ended <- err
	}
}

// openingInterval is how often the log reports that the store is still being opened.
const openingInterval = 5 * time.Second

// openStore opens the store, and logs while that takes long.
func (s *Server) openStore() error {
	began := time.Now()
	tick := time.NewTicker(openingInterval)
	defer tick.Stop()
	opened := make(chan error)
	go func() {
		var err error
		s.store, err = s.OpenStore(s.Log.Logger)
		opened <- err
	}()
	for {
		select {
		case <-tick.C:
			s.Log.Info("the store is being opened; deliveries are answered 503 until it is",
				"store", s.StoreName, "since", time.Since(began).Round(time.Second))
		case err := <-opened:
			return err
		}
	}
}

// Run serves until ctx ends, or until the server cannot continue, and closes it.
func (s *Server) Run(ctx context.Context) error {
	for _, warning := range s.Warnings {
		s.Log.Warn(warning)
	}
	listen, operations := s.addresses()
	s.Log.Info("accepting deliveries",
		"listen", listen, "operations", operations, "store", s.StoreName, "policy", s.Receiver.URL+"/policy")
	if s.OnServing != nil {
		s.OnServing(listen, operations)
	}
	var err error
	select {
	case <-ctx.Done():
		s.Log.Info("stopping: no new deliveries, running work is finished", "within", s.Drain)
	case err = <-s.ended:
		err = fmt.Errorf("the server ended: %w", err)
	case <-s.StdoutGone:
		err = errors.New("standard output was closed, and a handler writes to it: restart eyelet together with its " +
			"reader; no event is lost")
	case <-storeFailed(s.store):
		err = fmt.Errorf("the store failed and the program must be restarted: %w", s.store.Health(ctx))
		s.abandon() //nolint:contextcheck // ctx may not have ended
		return err
	}
	drained, closed := s.drain(), s.close() //nolint:contextcheck // ctx has ended; draining has its own time
	return cmp.Or(err, drained, closed)
}

func (s *Server) addresses() (listen, operations string) {
	operations = Off
	if len(s.listeners) > 1 {
		operations = s.operationsAddress()
	}
	return s.listeners[0].Addr().String(), operations
}

// storeFailed returns a channel that is closed when the store has failed for good; may be nil.
func storeFailed(store dedup.Store) <-chan struct{} {
	if s, ok := store.(interface{ Failed() <-chan struct{} }); ok {
		return s.Failed()
	}
	return nil
}

// The time to end with a failed store: for responses that are being written, and in total.
const (
	abandonAnswers = 300 * time.Millisecond
	abandonAll     = 1500 * time.Millisecond
)

// abandon ends without draining: a failed store records no outcome, and deliveries are refused
// meanwhile. Work that hangs is left behind, because the process is about to end.
func (s *Server) abandon() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.Background(), abandonAnswers)
		defer cancel()
		if err := errors.Join(s.rx.Shutdown(ctx), s.close()); err != nil {
			s.Log.Warn("not everything was finished", "error", err)
		}
	}()
	select {
	case <-ended:
	case <-time.After(abandonAll):
		s.Log.Warn("work that still ran was left behind")
	}
}

// drain finishes running work. Meanwhile new deliveries are answered 503. Work that is left at the
// timeout is an error, even if it could be ended then.
func (s *Server) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.Drain)
	defer cancel()
	err := s.rx.Shutdown(ctx)
	if ctx.Err() != nil {
		err = drainTimeout(s.Drain, err)
	}
	if err != nil {
		s.Log.Warn("not everything was finished", "error", err)
	}
	httpserver.End(s.servers...)
	return err
}

// drainTimeout returns the error of a drain that took too long. left is what could not be ended.
func drainTimeout(drain time.Duration, left error) error {
	what := ""
	if left != nil {
		for line := range strings.Lines(left.Error()) {
			if line = strings.TrimSpace(line); line != context.DeadlineExceeded.Error() {
				what += "; " + line
			}
		}
	}
	return fmt.Errorf("not everything ended within %s (limits.drain): accepted events continue after the next start%s",
		drain, what)
}

// close releases what open took, in reverse order, also after a partial open.
func (s *Server) close() error {
	var errs []error
	for _, srv := range s.servers {
		_ = srv.Close() // its listener is closed below, too
	}
	for _, ln := range s.listeners {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.state != nil {
		s.state.remove()
	}
	if s.rx != nil {
		ctx, cancel := context.WithTimeout(context.Background(), receiverEnd) // it was drained before
		defer cancel()
		errs = append(errs, s.rx.Shutdown(ctx))
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil && !errors.Is(err, dedup.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.OnClose != nil {
		errs = append(errs, s.OnClose())
	}
	return errors.Join(errs...)
}

// observe passes an observation to the metrics and the tail.
func (s *Server) observe(ctx context.Context, o receiver.Observation) {
	s.metrics.Observe(ctx, o)
	s.tail.observe(ctx, o)
	if s.OnObserve != nil {
		s.OnObserve(o)
	}
}
