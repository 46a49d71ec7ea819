// Package receiver turns verified deliveries into calls of your handlers: requests in, outcomes
// out.
//
// Most programs need two functions: [Open] a [Config] with a store, producers and handlers, and
// mount [Receiver.HTTP] (or echov4.Mount, echov5.Mount).
//
// A handler is made by [On], which stores and acknowledges an event and then runs your function
// until it succeeds, or by [Answer], whose result is the response; [Inline] is Answer for a route
// of your router. The function's error decides what happens to the event: nil completes it,
// [Reject] makes it a dead letter, [Postpone] and [RetryAfter] set the time of the next attempt,
// and any other error is retried with backoff.
// Handlers run at least once: make external effects idempotent with [Event.ID].
//
// The examples "Test" and "TestWithAPreset" show how to test a handler of your own with signed
// requests.
package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/receiver/internal/deadline"
)

const (
	webhooksPath = "/webhooks/" // where [Receiver.Handler] serves the endpoints
	policyPath   = "/policy"
	peersEvery   = time.Hour        // how often the known peers are saved
	drainTime    = 30 * time.Second // how long Close waits for work in flight
)

// Receiver accepts deliveries and runs handlers.
type Receiver struct {
	cfg      Config // with its defaults
	registry *registry
	log      *slog.Logger
	sampled  *sampler // for log lines that clients cause
	unknown  *unknownPaths
	workers  *dispatcher

	endpoints  map[string]*endpoint // by the producer's name
	configured time.Time            // when the receiver was made
	policy     *policy
	policyURL  string
	limiter    *admission.Limiter // of unverified requests
	pending    *pendingAnswers    // duplicates that wait for Answer handlers
	answers    *watchdog          // of the runs of Answer handlers
	inflight   admission.InFlight
	storing    *deadline.Timeouts // of StoreTimeout
	ending     context.Context
	end        context.CancelFunc

	refusedPanic sync.Once  // logs the first panic of Config.Refused
	unverified   sync.Mutex // held while Config.Refused gets an unverified delivery
}

// Open checks the configuration, resumes what a crash interrupted, and starts the workers. The
// receiver must be closed. The error joins every mistake of the configuration: one at a producer is
// a [*producer.CheckError], one at a handler a [*HandlerError].
func Open(c Config) (*Receiver, error) {
	rx, err := Idle(c)
	if err != nil {
		return nil, err
	}
	if err := startMonitoring(rx, nil); err != nil {
		rx.end()
		return nil, err
	}
	if rx.cfg.PeersFile != "" {
		rx.loadPeers()
	}
	rx.start()
	return rx, nil
}

// Idle is [Open] for a receiver that runs no handler: for [Receiver.Controls], [Receiver.Pause] and
// [Receiver.Resume] while no other process has the store. It need not be closed.
func Idle(c Config) (*Receiver, error) {
	rx, err := newReceiver(c)
	if err != nil {
		return nil, err
	}
	if err := rx.workers.control.read(rx.ending); err != nil {
		rx.end()
		return nil, err
	}
	return rx, nil
}

// newReceiver returns a receiver that takes no tasks yet. It need not be closed before start.
func newReceiver(c Config) (*Receiver, error) {
	c = withDefaults(c)
	handlers, err := check(c)
	if err != nil {
		return nil, err
	}
	rx := &Receiver{
		cfg: c, registry: handlers, log: c.Logger, sampled: newSampler(c.Logger),
		unknown: &unknownPaths{log: c.Logger}, policyURL: c.PolicyURL,
		storing: deadline.New(c.StoreTimeout), endpoints: map[string]*endpoint{},
		pending: &pendingAnswers{byKey: map[[32]byte]*pendingAnswer{}}, configured: c.Clock(),
	}
	rx.answers = newWatchdog(context.Background(), &rx.cfg)
	rx.ending, rx.end = context.WithCancel(context.Background())
	for _, p := range c.Producers {
		rx.endpoints[p.Name] = newEndpoint(rx, p)
		if route := handlers.inline[p.Name]; route != nil {
			route.host = rx.endpoints[p.Name].host()
		}
		rx.log.Info("identity of events", "endpoint", p.Name, "class", p.Class().String())
		for _, warning := range p.Warnings() {
			rx.log.Warn(warning)
		}
	}
	for _, warning := range producer.SharedSecrets(c.Producers) {
		rx.log.Warn(warning)
	}
	rx.limiter = admission.NewLimiter(rx.bounds())
	if rx.policy, err = newPolicy(rx); err != nil {
		rx.end()
		return nil, err
	}
	if c.Opening != nil {
		if err := c.Opening(&rx.cfg); err != nil {
			rx.end()
			return nil, err
		}
	}
	rx.workers = newDispatcher(rx.cfg, rx.registry, rx.log)
	return rx, nil
}

// start starts the workers.
func (rx *Receiver) start() {
	if rx.cfg.PeersFile != "" {
		go rx.keepPeers()
	}
	if rx.cfg.Store.Guarantees().Shared {
		go rx.workers.control.watch(rx.ending)
	}
	for _, ep := range rx.endpoints {
		if ep.tenants != nil {
			ep.tenants.Start(rx.ending)
		}
	}
	rx.workers.start()
}

// Replace opens a receiver with another configuration in the place of rx, without a pause. The
// store must be that of rx. After an error, which reports every mistake as that of [Open] does, rx
// continues as before.
//
// When Replace returns, rx takes no more tasks, and the new receiver does. rx still answers
// deliveries: route requests to the new receiver, wait for those that rx has, and then shut rx
// down, which waits for the handlers that it runs. A receiver is replaced at most once.
//
// The new receiver carries over, by the names of the producers, what they used of their rate and
// concurrency, and also the known peers, the bodies that are held, and duplicates that wait for a
// response. Tasks of a handler that the new configuration does not have wait for a restart: keep
// removed handlers as [Handler.Retired] or [Handler.Orphaned]. Routes behind [Receiver.Verified]
// belong to one receiver.
func (rx *Receiver) Replace(c Config) (*Receiver, error) {
	if c.Store != rx.cfg.Store {
		return nil, errors.New("store: a receiver that replaces another needs its store")
	}
	next, err := newReceiver(c)
	if err != nil {
		return nil, err
	}
	if err := startMonitoring(next, rx); err != nil {
		next.end()
		return nil, err
	}
	next.pending, next.limiter = rx.pending, rx.limiter
	next.limiter.Resize(next.bounds())
	for name, ep := range next.endpoints {
		if old := rx.endpoints[name]; old != nil {
			ep.quota = old.quota.Resize(admission.Rate(ep.p.Rate), ep.p.Concurrency)
			ep.former = newFormer(&ep.p, old.former)
			ep.nonces = ep.nonces.Replaces(old.nonces)
			ep.tenants = ep.tenants.Replaces(old.tenants)
		}
	}
	rx.workers.stopTake()
	<-rx.workers.taking
	rx.workers.control.configure(next.registry.byName)
	next.workers.control = rx.workers.control
	if err := rx.workers.control.read(next.ending); err != nil {
		rx.log.Warn("the states of handlers that are new could not be read: they run", "err", err)
	}
	next.start()
	return next, nil
}

// bounds are those of the limiter: the bytes of all bodies and of the largest one that any
// producer may send, and the number of endpoints.
func (rx *Receiver) bounds() (bodies, largest int64, endpoints int) {
	for i := range rx.cfg.Producers {
		largest = max(largest, rx.cfg.Producers[i].MaxBody)
	}
	return rx.cfg.BodyBudget, largest, len(rx.cfg.Producers)
}

// Starting returns a handler for the time until [Open] returns: a store with many events takes
// time to open. It answers everything 503 with Retry-After (Config.RetryAfter) and the code
// starting, and reads no body. It needs neither the store nor the producers of the configuration.
func Starting(c Config) http.Handler {
	c = withDefaults(c)
	rx := &Receiver{cfg: c, policyURL: c.PolicyURL, log: c.Logger}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rx.endRequest(w, r, false)
		resp := rx.problemReply(&producer.Producer{}, fail(codeStarting, nil))
		resp.send(w)
		rx.reportRefused(r.Context(), w, r, resp)
	})
}

// endRequest prepares the connection for the time after the response. net/http reads the rest of
// an unread body before it reuses the connection, so that needs a deadline. If both lengths were
// sent, net/http hides one of them: the connection must not be reused (RFC 9112 section 6.1).
func (rx *Receiver) endRequest(w http.ResponseWriter, r *http.Request, read bool) {
	if !read && r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(rx.cfg.BodyTimeout))
	}
	if r.ProtoMajor == 1 && slices.Contains(r.TransferEncoding, "chunked") {
		w.Header().Set("Connection", "close")
	}
}

// HTTP returns the endpoint of the named producer. It panics for an unknown name.
func (rx *Receiver) HTTP(name string) http.Handler {
	ep := rx.endpoints[name]
	if ep == nil {
		panic(fmt.Sprintf("receiver: there is no producer %q", name))
	}
	return ep
}

// Handler serves all endpoints at /webhooks/NAME and the policy at /policy. It compares paths
// octet for octet as received: another form of a path gets 404, and no request is redirected.
//
// To mount it under a prefix, wrap it: http.StripPrefix("/api", rx.Handler()). Signatures that
// cover the URL are still verified over the whole path.
func (rx *Receiver) Handler() http.Handler { return http.HandlerFunc(rx.route) }

func (rx *Receiver) route(w http.ResponseWriter, r *http.Request) {
	at, _ := parseTarget(requestTarget(r))
	if h := rx.at(at.path); h != nil {
		h.ServeHTTP(w, r)
	} else if h := rx.at(at.below(r.URL)); h != nil {
		h.ServeHTTP(w, r)
	} else {
		rx.endRequest(w, r, false)
		rx.serveNotFound(w, r, at)
	}
}

// at returns the handler of a path, or nil.
func (rx *Receiver) at(path string) http.Handler {
	if path == policyPath {
		return rx.Policy()
	}
	path, ok := strings.CutPrefix(path, webhooksPath)
	name, tenant, below := strings.Cut(path, "/")
	ep := rx.endpoints[name]
	if !ok || ep == nil || below != (ep.tenants != nil) || below && !producer.IsTenant(tenant) {
		return nil
	}
	return ep
}

func (rx *Receiver) servePolicy(w http.ResponseWriter, r *http.Request) {
	rx.endRequest(w, r, false)
	rx.policy.ServeHTTP(w, r)
}

// Policy serves the page that both drafts require: what this receiver expects and answers.
func (rx *Receiver) Policy() http.Handler { return http.HandlerFunc(rx.servePolicy) }

var errShuttingDown = errors.New("the receiver is shutting down")

// Ready returns nil while deliveries are accepted, else the reason, for a readiness probe.
func (rx *Receiver) Ready(ctx context.Context) error {
	if rx.inflight.Draining() {
		return errShuttingDown
	}
	return rx.cfg.Store.Health(ctx)
}

// Shutdown stops accepting (503), waits until ctx ends for responses and running tasks, and
// stops the workers. Unfinished tasks run after the next start. It may be called more than once.
func (rx *Receiver) Shutdown(ctx context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- rx.workers.stop(ctx) }()
	err := rx.inflight.Drain(ctx)
	rx.savePeers()
	rx.end()
	rx.answers.stop() // Answer handlers that outlast ctx
	defer rx.unknown.close()
	defer rx.sampled.close() //nolint:contextcheck // the counts are written even after ctx
	return errors.Join(err, <-stopped)
}

// Close is Shutdown with the default drain time of 30 seconds.
func (rx *Receiver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	return rx.Shutdown(ctx)
}

// TakeIn takes in an event that the Source of the named producer lists, unless it is known: through
// the claim of a delivery, with the key, the handlers, lanes, window and quota that its delivery
// would have had. It returns whether the event is new, and its id if that is known. With dry,
// nothing is stored. A *verify.Error is about the event itself. After any
// other error the outcome is unknown, and the same call finds out; [Wait] says when.
//
// The Source must have the events. [Open] refuses a producer whose events cannot be named without
// their deliveries.
func (rx *Receiver) TakeIn(
	ctx context.Context, name string, f producer.Listed, dry bool,
) (fresh bool, event string, err error) {
	ep := rx.endpoints[name]
	switch {
	case ep == nil || !ep.p.Source.On() || ep.p.Source.Asks():
		return false, "", errors.New("the producer has no source of events")
	case ep.retired():
		return false, "", fail(codeEndpointRetired, nil)
	case !rx.inflight.Begin():
		return false, "", fail(codeShuttingDown, errShuttingDown)
	}
	defer rx.inflight.Done()
	return ep.takeIn(ctx, f, dry)
}

// Pause stops a handler: its tasks wait in the store, and those that run finish. That survives a
// restart, and holds for all receivers of a shared store, within a second. It also replaces the
// pause of a breaker. ErrUnknownHandler without such a handler, ErrAnswering for one made by
// [Answer] or [Inline].
func (rx *Receiver) Pause(ctx context.Context, handler, reason string) error {
	return rx.workers.control.order(ctx, handler, func(s *Control, now time.Time) {
		*s = Control{Paused: true, By: ByOperator, Reason: reason, Since: now}
	})
}

// Resume lets a paused handler run again, also after its breaker. Errors are those of Pause.
func (rx *Receiver) Resume(ctx context.Context, handler string) error {
	return rx.workers.control.order(ctx, handler, func(s *Control, _ time.Time) { *s = Control{} })
}

// Controls returns whether each handler runs, in the order of their names, and retired ones only if
// they are paused. What another receiver of a shared store changed is known here within a second.
func (rx *Receiver) Controls() []Control { return rx.workers.control.list() }

func (rx *Receiver) loadPeers() {
	exists := func(endpoint string) bool { return rx.endpoints[endpoint] != nil }
	if err := rx.limiter.Load(rx.cfg.PeersFile, exists, time.Now()); err != nil {
		rx.log.Warn("some known peers could not be read and are unknown", slog.Any("error", err))
	}
}

// savePeers writes the file of known peers. After a failure senders only lack their credit at
// the next start.
func (rx *Receiver) savePeers() {
	if rx.cfg.PeersFile == "" {
		return
	}
	if err := rx.limiter.Save(rx.cfg.PeersFile, time.Now()); err != nil {
		rx.log.Warn("the known peers were not saved", slog.Any("error", err))
	}
}

// keepPeers saves the known peers every hour until the receiver ends.
func (rx *Receiver) keepPeers() {
	ticker := time.NewTicker(peersEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			rx.savePeers()
		case <-rx.ending.Done():
			return
		}
	}
}
