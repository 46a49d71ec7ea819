package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/descriptors"
	"github.com/eyelet-dev/eyelet/receiver"
)

// The bounds of the servers. Bodies have bounds of their own in package receiver.
const (
	answerSlack    = 30 * time.Second // to write an answer, beyond the time to read and to handle
	connectionsEnd = 5 * time.Second  // for connections to end after everything was answered
)

func (p *program) serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "Receive deliveries", Args: cobra.NoArgs,
		Long: "Receives deliveries as the configuration says, until it is told to stop by Ctrl-C, SIGTERM or SIGHUP; it\n" +
			"then refuses new ones and finishes what it has. A second signal ends it at once. Exits 0 when everything\n" +
			"ended within limits.drain, and 1 when something was left, which goes on after the next start.",
	}
	file := p.configFlag(c)
	c.Flags().String("listen", "", "address for deliveries")
	c.Flags().String("operations", "", "address for probes, metrics and events, or off")
	c.Flags().String("url", "", "public base, as producers call it")
	c.Flags().String("store", "", "badger:DIR or memory:")
	c.Flags().String("log-level", "", "debug, info, warn or error")
	c.Flags().String("log-format", "", "text or json")
	c.Flags().Bool("insecure-http", false, "receive over HTTP without TLS from beyond this machine")
	c.Flags().Bool("accept-loss", false, "open a store although acknowledged events are missing")
	c.Flags().Bool("accept-clock", false, "open a store although the clock is before its last commit")
	c.RunE = func(c *cobra.Command, _ []string) error {
		outliveReaders()
		s, err := p.source(c, *file).Load()
		if err != nil {
			return err
		}
		srv, err := p.newServer(c.Context(), s, config.BuildOptions{Stdout: p.Out})
		if err != nil {
			return err
		}
		for _, warning := range append(config.ExposedSecrets(s), s.DescriptorWarnings(descriptors.Limit())...) {
			srv.log.Warn(warning)
		}
		return srv.run(c.Context())
	}
	return c
}

// server is a receiver with its store and its two listeners.
type server struct {
	program  *program
	settings *config.Settings
	plan     *config.Plan
	log      *slog.Logger
	logTo    *logOutput
	store    dedup.Store
	rx       *receiver.Receiver
	metrics  *metrics
	feed     *feed
	state    *stateDir // nil where no operations are served

	listeners []*receiver.Listener
	servers   []*http.Server
	fronts    []*front
	ended     chan error // why a server ended before it was told to
}

// front is what a server serves: at first that it is starting, later the real thing.
type front struct{ current atomic.Pointer[http.Handler] }

func newFront(h http.Handler) *front {
	f := &front{}
	f.become(h)
	return f
}

func (f *front) become(h http.Handler) { f.current.Store(&h) }

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*f.current.Load()).ServeHTTP(w, r)
}

// newServer makes everything ready to serve. What it cannot do is something for the user to change, and
// nothing is left open then.
func (p *program) newServer(ctx context.Context, s *config.Settings, o config.BuildOptions) (*server, error) {
	level, err := s.LogLevel()
	if err != nil {
		level = slog.LevelInfo // build reports it
	}
	srv := &server{program: p, settings: s, logTo: &logOutput{to: p.Err}}
	srv.log = newLogger(srv.logTo, s.Log.Format, level)
	if srv.plan, err = s.Build(ctx, o); err != nil {
		return nil, err
	}
	if err := srv.open(ctx); err != nil {
		return nil, errors.Join(err, srv.close()) //nolint:contextcheck // closing takes its own time
	}
	return srv, nil
}

// logOutput remembers whether the log can be written. That it cannot is no reason to stop.
type logOutput struct {
	to   io.Writer
	lost atomic.Pointer[error] // of the last write; nil when it was a good one
}

// Write implements io.Writer.
func (l *logOutput) Write(line []byte) (int, error) {
	n, err := l.to.Write(line)
	if err == nil {
		l.lost.Store(nil)
	} else {
		l.lost.Store(&err)
	}
	return n, err
}

// failing says why lines of the log are lost; nil when none are.
func (l *logOutput) failing() error {
	if err := l.lost.Load(); err != nil {
		return fmt.Errorf("the log cannot be written, and its lines are lost: %s; start eyelet again where it can", usage.Cause(*err))
	}
	return nil
}

func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// peersFile is the file in the store's folder that keeps which networks lately sent new events.
const peersFile = "peers.json"

func (s *server) open(ctx context.Context) error {
	certificates, err := openCertificates(s.settings, s.log)
	if err != nil {
		return err
	}
	limits := s.settings.ConnectionLimits()
	if err := s.listen(ctx, "listen", s.settings.Listen, limits); err != nil {
		return err
	}
	operations := s.settings.Operations != config.OperationsOff
	if operations {
		if err := s.listen(ctx, "operations", s.settings.Operations, operationsConnections(limits)); err != nil {
			return err
		}
	}
	s.begin(certificates)
	if err := s.openStore(); err != nil { //nolint:contextcheck // a store is opened whole
		return err
	}
	if err := openTargets(s.settings, s.plan.Targets, s.log); err != nil {
		return err
	}
	s.metrics, s.feed = newMetrics(s.store, s.plan.Targets, s.listeners), newFeed()
	c := s.plan.Config
	c.Store, c.Logger, c.Observe = s.store, s.log, s.observe
	if c.PeersFile, err = s.settings.StoreFile(peersFile); err != nil {
		return err
	}
	if s.rx, err = receiver.Open(c); err != nil {
		return usage.Errorf("", "%v", err)
	}
	if operations {
		if s.state, err = claimState(s.settings, s.operationsAddress()); err != nil {
			return err
		}
	}
	s.fronts[0].become(mount(s.rx))
	if operations { // after the deliveries, which are accepted once it says so
		s.servers[1].RegisterOnShutdown(s.feed.close)
		s.fronts[1].become(s.operations())
	}
	return nil
}

// begin has the listeners answer, at first that the receiver is starting: opening a store with many events takes time,
// and neither producers nor probes should have to wait for it.
func (s *server) begin(certificates certificates) {
	deliveries := newFront(receiver.Starting(s.plan.Config))
	s.fronts, s.servers = []*front{deliveries}, []*http.Server{s.newHTTPServer(s.guard(deliveries), certificates.deliveries)}
	if len(s.listeners) > 1 {
		operations := newFront(startingOperations(s.settings))
		s.fronts = append(s.fronts, operations)
		s.servers = append(s.servers, s.newHTTPServer(s.listeners[1].Handler(operations), certificates.operations))
	}
	s.ended = make(chan error, len(s.servers))
	for i, srv := range s.servers {
		go s.serve(srv, s.listeners[i])
	}
	if s.program.Starting != nil {
		s.program.Starting(s.addresses())
	}
}

// serve serves a listener until it is closed.
func (s *server) serve(srv *http.Server, ln net.Listener) {
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

// tellOpening is how long a store may take to open before the log says so, and how often it says that again.
const tellOpening = 5 * time.Second

// openStore opens the store, and tells of it when that takes long.
func (s *server) openStore() (err error) {
	began := time.Now()
	tick := time.NewTicker(tellOpening)
	defer tick.Stop()
	opened, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		for {
			select {
			case <-tick.C:
				s.log.Info("the store is being opened; deliveries are answered 503 until it is", "store", s.settings.Store, "since", time.Since(began).Round(time.Second))
			case <-opened:
				return
			}
		}
	}()
	s.store, err = s.settings.OpenStore(s.log)
	close(opened)
	<-told
	return err
}

// newHTTPServer returns a server that ends TLS where there is a certificate.
func (s *server) newHTTPServer(h http.Handler, certificate *certificateFiles) *http.Server {
	c := s.plan.Config
	l := s.settings.Limits
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: l.HeaderTimeout,
		WriteTimeout:      max(c.AnswerTimeout, receiver.DefaultAnswerTimeout) + cmp.Or(c.BodyTimeout, receiver.DefaultBodyTimeout) + answerSlack,
		IdleTimeout:       l.IdleTimeout,
		MaxHeaderBytes:    s.settings.HeaderBytes(),
		ErrorLog:          log.New(connectionLog{s.log}, "", 0),
		Protocols:         new(http.Protocols),
		HTTP2:             boundedHTTP2(),
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(s.settings.HTTP2)
	if certificate != nil {
		srv.TLSConfig = &tls.Config{GetCertificate: certificate.get, MinVersion: tls.VersionTLS12}
	}
	return srv
}

// connectionLog takes what net/http tells. Most of it is what strangers do to their connections; a panic is a bug
// of ours.
type connectionLog struct{ log *slog.Logger }

// Write logs a line, or a panic with its stack.
func (l connectionLog) Write(line []byte) (int, error) {
	level, text := slog.LevelDebug, strings.TrimRight(string(line), "\n")
	if strings.HasPrefix(text, "http: panic serving ") || strings.HasPrefix(text, "http2: panic serving ") {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, text)
	return len(line), nil
}

// guard refuses deliveries that came over a network without TLS: to us, where only our proxies may bring such, or to
// the proxy that brings them, as it says.
func (s *server) guard(next http.Handler) http.Handler {
	c := s.settings
	if c.InsecureHTTP {
		return next
	}
	safe := c.TLS != nil || config.IsLoopback(c.Listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr, err := netip.ParseAddrPort(r.RemoteAddr)
		peer := addr.Addr().Unmap()
		proxy := err == nil && slices.ContainsFunc(c.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(peer) })
		if proxy && saysHTTP(r.Header) || !safe && !proxy && (err != nil || !peer.IsLoopback()) {
			w.Header().Set("Connection", "close")
			http.Error(w, "deliveries come over TLS", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// saysHTTP reports whether a proxy of ours says that the client came to it without TLS. The last value is the
// proxy's own; one that sends no such field says nothing.
func saysHTTP(h http.Header) bool {
	said := strings.Split(strings.Join(h.Values("X-Forwarded-Proto"), ","), ",")
	last := strings.TrimSpace(said[len(said)-1])
	return last != "" && !strings.EqualFold(last, "https")
}

// run serves until ctx ends, or until it cannot go on.
func (s *server) run(ctx context.Context) error {
	listen, operations := s.addresses()
	s.log.Info("accepting deliveries", "listen", listen, "operations", operations, "store", s.settings.Store, "policy", s.settings.URL+"/policy")
	if s.program.Serving != nil {
		s.program.Serving(listen, operations)
	}
	var err error
	select {
	case <-ctx.Done():
		s.log.Info("stopping: no new deliveries, work that is under way is finished", "within", s.settings.Limits.Drain)
	case err = <-s.ended:
		err = failed("the server ended: %v", err)
	case <-s.plan.Stdout.Gone():
		err = failed("nobody reads standard output any more, to which a handler prints: start eyelet again together with its reader; no event is lost")
	case <-broken(s.store):
		err = failed("the store failed and the program must be restarted: %v", s.store.Health(ctx))
		s.abandon() //nolint:contextcheck // ctx may go on
		return err
	}
	return errors.Join(err, s.drain(), s.close()) //nolint:contextcheck // ctx has ended; draining has its own time
}

func (s *server) addresses() (listen, operations string) {
	listen = s.listeners[0].Addr().String()
	operations = config.OperationsOff
	if len(s.listeners) > 1 {
		operations = s.operationsAddress()
	}
	return listen, operations
}

// broken returns a channel that is closed when the store is useless for good; nil for stores that never are.
func broken(store dedup.Store) <-chan struct{} {
	if s, ok := store.(interface{ Failed() <-chan struct{} }); ok {
		return s.Failed()
	}
	return nil
}

// The time to end over a store that has failed: for answers that are being written, and for all of it.
const (
	abandonAnswers = 300 * time.Millisecond
	abandonAll     = 1500 * time.Millisecond
)

// abandon ends without draining: a store that has failed records no outcome any more, and every second is one in
// which deliveries are refused. What hangs is left behind, as the process is about to end.
func (s *server) abandon() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.Background(), abandonAnswers)
		defer cancel()
		if err := errors.Join(s.rx.Shutdown(ctx), s.close()); err != nil {
			s.log.Warn("not everything was finished", "error", err)
		}
	}()
	select {
	case <-ended:
	case <-time.After(abandonAll):
		s.log.Warn("what still ran was left behind")
	}
}

// drain finishes what is under way. New deliveries are answered 503 meanwhile. It is an error that anything was left
// at the end of the time for it, whether it could be ended then or not.
func (s *server) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.settings.Limits.Drain)
	defer cancel()
	err := s.rx.Shutdown(ctx)
	if ctx.Err() != nil {
		err = late(s.settings.Limits.Drain, err)
	}
	if err != nil {
		s.log.Warn("not everything was finished", "error", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), connectionsEnd)
	defer cancel()
	var wg sync.WaitGroup
	for _, srv := range s.servers {
		wg.Go(func() {
			if srv.Shutdown(ctx) != nil {
				_ = srv.Close() // connections of clients that do not go
			}
		})
	}
	wg.Wait()
	return err
}

// late says what was left when the time to drain was over; nothing more than that when it could be ended then.
func late(drain time.Duration, left error) error {
	what := ""
	if left != nil {
		for line := range strings.Lines(left.Error()) {
			if line = strings.TrimSpace(line); line != context.DeadlineExceeded.Error() {
				what += "; " + line
			}
		}
	}
	return failed("not everything ended within %s (limits.drain): accepted events go on after the next start%s", config.FormatDuration(drain), what)
}

// close releases what open took, in the reverse order. It may be called with half of it there.
func (s *server) close() error {
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
		s.state.release()
	}
	if s.rx != nil {
		ctx, cancel := context.WithTimeout(context.Background(), connectionsEnd) // it had its time to drain
		defer cancel()
		errs = append(errs, s.rx.Shutdown(ctx))
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil && !errors.Is(err, dedup.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, s.plan.Close())...)
}
