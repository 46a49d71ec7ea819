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
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/refused"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/tracing"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/metrics"
)

// receiverEnd is how long a receiver that was drained may take to close.
const receiverEnd = 5 * time.Second

// Off is the address of a disabled operations port.
const Off = "off"

// The files beside the store in its folder, or in that of the receiver's state.
const (
	peersFile   = "peers.json"    // networks that recently sent new events
	seriesFile  = "series"        // what happened in the last 30 days, for the page
	targetsFile = "targets.json"  // the state of the targets of forward handlers
	lockFile    = "receiver.lock" // locked while a receiver has the folder of its state
)

// Options configure a server. The configuration has been checked.
type Options struct {
	// Receiver configures the receiver; the server sets Store, Logger, Observe, Refused and
	// PeersFile.
	Receiver receiver.Config
	// HandlerNames are those of Receiver.Handlers.
	HandlerNames []string
	// Targets are those of the forward handlers in Receiver.
	Targets *forward.State
	// Reread reads the configuration again, for a receiver in the place of this one, and reports
	// what cannot change. Log, StdoutGone, the ports and the store are those of these options. May
	// be nil.
	Reread func(context.Context) (Options, error)

	// Listen and Operations are the two addresses: HOST:PORT or unix:PATH, or [Off] for Operations.
	Listen, Operations string
	// TLS and OperationsTLS are the certificates of the two ports; nil serves plain HTTP.
	TLS, OperationsTLS *KeyPair
	// ACME orders the certificates of Listen instead of TLS; nil orders none.
	ACME         *ACME
	HTTP2        bool
	Loopback     bool // only this machine can reach Listen
	InsecureHTTP bool // accept deliveries without TLS from other machines
	// ProxyProtocol means that the trusted proxies of Receiver begin their connections to Listen
	// with a PROXY header.
	ProxyProtocol bool

	// Wrap wraps the handler of deliveries; nil changes nothing.
	Wrap func(http.Handler) http.Handler

	Connections                receiver.Limits // of the port of deliveries
	HeaderBytes                int             // http.Server.MaxHeaderBytes
	HeaderTimeout, IdleTimeout time.Duration
	Drain                      time.Duration // to finish running work once the context of [Server.Run] ends

	// OpenStore opens the store, and StoreName is its name in the log. It is called again after
	// [dedup.ErrUnavailable].
	OpenStore func(context.Context, *slog.Logger) (dedup.Store, error)
	StoreName string
	StoreDir  string // empty for a store in memory
	StateDir  string // for what belongs to this receiver, such as the token of the operations port
	LockState bool   // StateDir is not the store's folder: no other receiver may have it

	// Refused configures the ring of refused deliveries; nil keeps none. The credentials of the
	// producers are added to its rules.
	Refused *refused.Options
	// Explain logs why deliveries are refused, once a minute for each endpoint and code.
	Explain   bool
	Inspector Inspector
	// Tracing says where spans go.
	Tracing tracing.Options

	Log      *Log
	LogLevel slog.Level
	Warnings []string // logged at the start
	// StdoutGone is closed when the reader of standard output is gone, which ends the server. May
	// be nil.
	StdoutGone <-chan struct{}
	// OnStarting is called with the addresses once the ports answer, before the store is opened;
	// OnServing, once deliveries are accepted. Both may be nil.
	OnStarting, OnServing func(listen, operations string)
	// OnObserve is called with each observation of the receiver. It must not block. May be nil.
	OnObserve func(receiver.Observation)
	// OnClose is called when neither Receiver nor its handlers are used any more. May be nil.
	OnClose func() error
	// Place returns where a setting was written, for errors.
	Place func(setting string) usage.Place
}

// Inspector configures the page on the operations port.
type Inspector struct {
	Off, ReadOnly bool
	Prefix        string // of its paths; defaults to [inspect.DefaultPrefix]
	Version       string // of the program, which the page shows
	Redact        []string
	Send          bool // deliveries can be edited and sent again
}

// Server is a receiver with its store and its two listeners.
type Server struct {
	Options // of the start
	current atomic.Pointer[generation]
	reloads reloads
	store   dedup.Store
	metrics *metrics.Collector
	tail    *tailHub
	ring    *refused.Ring      // nil if refused deliveries are not kept
	state   *stateFiles        // nil without an operations port
	page    *inspect.Inspector // the first one; nil without an operations port
	lock    *os.File           // of the folder of the state; nil without LockState
	acme    *acmeCertificates  // nil without ACME
	traces  *tracing.Provider  // nil if it is off

	certificates [2]swapCertificates

	sockets   inheritedSockets
	listeners []*receiver.Listener
	servers   []*http.Server
	handlers  []*swapHandler
	ended     chan error             // why a server ended before its shutdown
	waits     atomic.Pointer[string] // why the store was not opened yet; may be nil
}

// New binds the ports and opens the store. After an error nothing is left open.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Options: o}
	s.reloads.ended, s.reloads.end = context.WithCancel(context.Background())
	s.current.Store(newGeneration(o))
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
	if err := s.bind(ctx); err != nil {
		return err
	}
	if err := s.sockets.unused(); err != nil {
		return err
	}
	s.serveStarting(certificates) //nolint:contextcheck // it compares keys, and asks nobody
	certified := s.acme == nil || s.acme.keep(ctx, false)
	if err := s.openStore(ctx); err != nil {
		return err
	}
	if !certified {
		s.acme.keep(ctx, true)
	}
	if err := OpenTargets(s.Targets, s.store, s.StoreDir, s.Log.Logger); err != nil {
		return err
	}
	if s.traces, err = tracing.Open(s.Tracing, s.Inspector.Version, s.Log.Logger); err != nil {
		return usage.Errorf("", "tracing: %v", err)
	}
	s.metrics, s.tail = metrics.New(), newTailHub(s.receiverName())
	s.metrics.Expect(s.Receiver.Producers)
	g := s.current.Load()
	if err := s.openRing(g); err != nil {
		return err
	}
	if s.Operations != Off { // before the workers start: what they do is shown
		s.state = newState(s.StateDir)
		s.page = inspect.Page(s.pageOptions(g))
		g.page = s.page
	}
	rx, err := receiver.Open(g.receiverConfig(s)) //nolint:contextcheck // its explainer ends with the generation
	if err != nil {
		return usage.Errorf("", "%v", err)
	}
	g.serve(rx, s.servers[0].WriteTimeout, s.traces)
	s.reloads.success = time.Now()
	raiseProcs()
	collectSeldom()
	return s.begin(g) //nolint:contextcheck // comparisons end with the generation
}

// begin accepts deliveries, and opens the operations port after that: its readiness says so.
func (s *Server) begin(g *generation) error {
	g.compare(s)
	if s.state == nil {
		s.handlers[0].set(g.deliver)
		return nil
	}
	if err := s.state.write(s.operationsAddress()); err != nil {
		return err
	}
	s.handlers[0].set(g.deliver)
	s.servers[1].RegisterOnShutdown(s.tail.close)
	s.servers[1].RegisterOnShutdown(s.page.Stop)
	s.handlers[1].set(s.operations(g))
	return nil
}

// refusedDir is the folder in the state directory for files of refused deliveries.
const refusedDir = "refused"

// openRing opens the ring of refused deliveries, if they are kept.
func (s *Server) openRing(g *generation) (err error) {
	if s.Refused == nil {
		return nil
	}
	o := *s.Refused
	o.Log = s.Log.Logger
	if o.Max > 0 {
		o.Dir = filepath.Join(s.StateDir, refusedDir)
	}
	o.Rules = g.secretPlaces()
	if s.ring, err = refused.New(o); err != nil {
		return usage.Errorf("refused: {mode: memory} writes no files", "folder for refused deliveries: %s",
			usage.RootCause(err))
	}
	return nil
}

// bind takes what only one receiver can have: the folder of its state, and the ports.
func (s *Server) bind(ctx context.Context) (err error) {
	if s.sockets, err = inheritSockets(); err != nil {
		return err
	}
	if s.LockState {
		if s.lock, err = lockState(s.StateDir, s.Place("state")); err != nil {
			return err
		}
	}
	err = s.listen(ctx, "listen", s.Listen, s.Connections)
	if err == nil && s.Operations != Off {
		err = s.listen(ctx, "operations", s.Operations, operationsLimits(s.Connections))
	}
	return err
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

// OpenTargets reads the state of the targets from a store that several receivers share, or from
// the file in the store's folder; "" is a store in memory.
func OpenTargets(targets *forward.State, store dedup.Store, storeDir string, log *slog.Logger) error {
	if store.Guarantees().Shared {
		return targets.Share(store, log)
	}
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
func (s *Server) serveStarting(certificates [2]certificates) {
	deliveries := newSwapHandler(s.current.Load().requireTLS(receiver.Starting(s.Receiver)))
	s.handlers = []*swapHandler{deliveries}
	s.servers = []*http.Server{s.newHTTPServer(deliveries, certificates[0])}
	if len(s.listeners) > 1 {
		operations := newSwapHandler(s.startingOperations())
		s.handlers = append(s.handlers, operations)
		s.servers = append(s.servers, s.newHTTPServer(s.listeners[1].Handler(operations), certificates[1]))
	}
	s.ended = make(chan error, len(s.servers))
	for i, srv := range s.servers {
		var ln net.Listener = s.listeners[i]
		if i == 0 && s.ProxyProtocol {
			ln = behindProxies(ln, s.trustedProxies, s.HeaderTimeout)
		}
		go s.serve(srv, ln)
	}
	if s.OnStarting != nil {
		s.OnStarting(s.addresses())
	}
}

func (s *Server) trustedProxies() []netip.Prefix { return s.current.Load().Receiver.TrustedProxies }

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

const (
	openingInterval = 5 * time.Second // how often the log reports that the store is still being opened
	reopenInterval  = time.Second     // how long after a failure the store is opened again
)

// openStore opens the store, and logs while that takes long.
func (s *Server) openStore(ctx context.Context) error {
	began := time.Now()
	tick := time.NewTicker(openingInterval)
	defer tick.Stop()
	opened := make(chan error)
	go func() { opened <- s.openWhenAvailable(ctx) }()
	for {
		select {
		case <-tick.C:
			notifySystemd(sdStarting)
			s.Log.Info("the store is being opened; deliveries are answered 503 until it is",
				"store", s.StoreName, "since", time.Since(began).Round(time.Second), "waits", s.why())
		case err := <-opened:
			return err
		}
	}
}

// openWhenAvailable opens the store. It waits for a database that cannot serve at the moment, until
// ctx ends. Other stores are opened whole.
func (s *Server) openWhenAvailable(ctx context.Context) (err error) {
	for {
		s.store, err = s.OpenStore(ctx, s.Log.Logger)
		if _, ok := errors.AsType[*dedup.ErrUnavailable](err); !ok {
			return err
		}
		why := usage.OneLine(err.Error())
		s.waits.Store(&why)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reopenInterval):
		}
	}
}

// why returns why the store could not be opened yet; "" if it was not tried or is being opened.
func (s *Server) why() string {
	if why := s.waits.Load(); why != nil {
		return *why
	}
	return ""
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
	notifySystemd(daemon.SdNotifyReady)
	go feedWatchdog(ctx)
	var err error
	select {
	case <-ctx.Done():
		notifySystemd(daemon.SdNotifyStopping)
		s.Log.Info("stopping: no new deliveries, running work is finished", "within", s.current.Load().Drain)
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

// receiverName names this receiver among those that share its store: its machine and the port of
// its deliveries; "" if it has its store alone.
func (s *Server) receiverName() string {
	if !s.store.Guarantees().Shared {
		return ""
	}
	host, _ := os.Hostname() // if unknown, the port must do
	at := s.listeners[0].Addr().String()
	if _, port, err := net.SplitHostPort(at); err == nil {
		at = port
	}
	return host + ":" + at
}

// stateFile is the path of a file that this receiver finds again after a restart; "" if it has
// none.
func (s *Server) stateFile(name string) string {
	if s.StoreDir == "" && !s.LockState {
		return ""
	}
	return filepath.Join(s.StateDir, name)
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
		if err := errors.Join(s.shutdown(ctx), s.close()); err != nil {
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
	drain := s.current.Load().Drain
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	err := s.shutdown(ctx)
	if ctx.Err() != nil {
		err = drainTimeout(drain, err)
	}
	if err != nil {
		s.Log.Warn("not everything was finished", "error", err)
	}
	httpserver.End(s.servers...)
	return err
}

// shutdown refuses reloads, and finishes the work of all receivers until ctx ends.
func (s *Server) shutdown(ctx context.Context) error {
	s.reloads.turn.Lock()
	s.reloads.stopping = true
	s.reloads.turn.Unlock()
	defer context.AfterFunc(ctx, s.reloads.end)()
	g := s.current.Load()
	for _, h := range g.retired {
		h.end()
	}
	err := g.shutdown(ctx)
	s.reloads.old.Wait()
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
		duration.Format(drain), what)
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
	ctx, cancel := context.WithTimeout(context.Background(), receiverEnd) // they were drained before
	defer cancel()
	errs = append(errs, s.shutdown(ctx))
	s.reloads.end()
	s.traces.Close()
	if s.ring != nil {
		errs = append(errs, s.ring.Close())
	}
	if s.page != nil {
		s.page.Close()
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil && !errors.Is(err, dedup.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(append(errs, s.current.Load().close())...)
}

// observe passes an observation to the metrics and the tail.
func (s *Server) observe(ctx context.Context, o receiver.Observation) {
	s.metrics.Observe(ctx, o)
	s.tail.observe(ctx, o)
	if s.page != nil {
		s.page.Observe(ctx, o)
	}
	if s.OnObserve != nil {
		s.OnObserve(o)
	}
}
