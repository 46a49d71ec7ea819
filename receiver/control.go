package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
)

// Who paused a handler, in [Control].
const (
	ByOperator = "operator" // [Receiver.Pause]
	ByBreaker  = "breaker"  // [Handler.Breaker]
)

const (
	trialBase, trialCap = 30 * time.Second, 10 * time.Minute // the wait before a breaker tries an event
	controlsEvery       = time.Second                        // how often those of a shared store are read
	controlTimeout      = 5 * time.Second                    // of a call of the store for them
)

// The mistakes of [Receiver.Pause].
var (
	ErrUnknownHandler = errors.New("no handler has this name")
	ErrAnswering      = errors.New("it answers requests, which would fail: a handler of stored events can be paused")
)

// Control is whether a handler runs.
type Control struct {
	Handler string `json:"handler"`
	Paused  bool   `json:"paused"`
	// By is who paused it, and Reason the words of the operator or the code of the last failure.
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Next is when a breaker tries an event, and Tries counts those that failed since it paused.
	Next  time.Time `json:"next,omitzero"`
	Tries int       `json:"tries,omitempty"`
}

// control decides how many tasks of which handlers may be taken. Those without limits cost nothing.
// It outlives its receiver when that is replaced.
type control struct {
	cfg     *Config // of the first receiver
	log     *slog.Logger
	storing sync.Mutex // held while states are read or changed in the store

	mu     sync.Mutex
	byName map[string]*Handler
	limits map[string]*limit // by handler: those with limits, or paused
	parent context.Context   //nolint:containedctx // of taking
	taking context.Context   //nolint:containedctx // of the Take that waits, and of later ones until it ends
	cancel context.CancelFunc
}

// limit is what bounds a handler.
type limit struct {
	quota     *admission.Quota // nil without a bound
	half      *admission.Quota // of it, for unverified events
	breaker   int
	failed    map[string]string // the lanes of the events that failed since a success, by event
	state     Control
	exhausted bool // the last Take wanted none
	may       bool // try an event, until state.Next
	trying    bool
}

// configure takes over the limits of handlers. Those that are there already keep their use.
func (c *control) configure(handlers map[string]*Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.limits
	c.byName, c.limits = handlers, map[string]*limit{}
	for name, h := range handlers {
		l := before[name]
		if l == nil {
			l = newLimit(name)
		}
		rate := admission.Rate(h.rate.WithDefaults())
		l.quota, l.breaker = l.quota.Resize(rate, h.concurrency), h.breaker
		rate.Per, rate.Burst = 2*rate.Per, max(1, rate.Burst/2)
		l.half = l.half.Resize(rate, (h.concurrency+1)/2)
		if l.bounds() {
			c.limits[name] = l
		}
	}
}

func newLimit(handler string) *limit {
	return &limit{failed: map[string]string{}, state: Control{Handler: handler}}
}

func (l *limit) bounds() bool { return l.quota != nil || l.breaker > 0 || l.state.Paused }

// begin returns the context of a Take, which ends when it may take more, and how many tasks of
// handlers with limits it may take. The map is nil if there are none.
func (c *control) begin(ctx context.Context) (context.Context, context.CancelFunc, map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimTrials()
	if c.parent != ctx || c.taking.Err() != nil {
		c.parent = ctx
		c.taking, c.cancel = context.WithCancel(ctx)
	}
	var most map[string]int
	var soonest time.Duration
	now := time.Now()
	for name, l := range c.limits {
		n, wait := l.free(now)
		if l.exhausted = n == 0; n < 0 {
			continue
		}
		if most == nil {
			most = map[string]int{}
		}
		if most[name] = n; wait > 0 && (soonest == 0 || wait < soonest) {
			soonest = wait
		}
	}
	if soonest > 0 {
		ctx, end := context.WithTimeout(c.taking, soonest)
		return ctx, end, most
	}
	return c.taking, func() {}, most
}

// free returns how many tasks may be taken, negative for any number, and after which time that
// changes by itself, zero for never.
func (l *limit) free(now time.Time) (n int, wait time.Duration) {
	if n = -1; l.quota != nil {
		n, wait = l.quota.Free(now)
	}
	switch {
	case l.state.By == ByBreaker && l.may && n == 0:
	case l.state.By == ByBreaker && l.may:
		n, wait = 1, l.untilTrial(now)
	case l.state.By == ByBreaker && !l.trying:
		n, wait = 0, l.untilTrial(now)
	case l.state.Paused:
		n, wait = 0, 0
	}
	return n, wait
}

// untilTrial is how long until the right to the next trial can be claimed. After a failed claim
// that is not at once.
func (l *limit) untilTrial(now time.Time) time.Duration {
	if wait := l.state.Next.Sub(now); wait > 0 {
		return wait
	}
	return controlsEvery
}

// wake ends the Take that waits. The caller has the lock.
func (c *control) wake() {
	if c.cancel != nil {
		c.cancel()
	}
}

// start counts a task that was taken. It returns false if that must wait, because its handler was
// paused meanwhile.
func (c *control) start(a *attempt) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.limits) == 0 {
		return true
	}
	l := c.limits[a.task().Handler]
	switch {
	case l == nil:
		return true
	case l.state.Paused && (!l.may || isUnverified(&a.rec)):
		return false
	}
	if isUnverified(&a.rec) {
		if a.half, ok = begin(l.half); !ok {
			return false
		}
	}
	if a.share, ok = begin(l.quota); !ok {
		a.half.Refund()
		a.half.Release()
		return false
	}
	if a.limit = l; l.may {
		l.may, l.trying, a.trial = false, true, true
	}
	return true
}

// begin takes a slot and a token of a quota.
func begin(q *admission.Quota) (s admission.Share, ok bool) {
	if s, ok = q.Begin(); ok {
		wait, _ := s.Take(1, time.Now())
		if ok = wait == 0; !ok {
			s.Release()
		}
	}
	return s, ok
}

// free returns what a task used of its limit, when its handler has returned or will not run.
func (c *control) free(a *attempt) {
	if a.limit == nil {
		return
	}
	if !a.working {
		a.share.Refund()
		a.half.Refund()
	}
	a.share.Release()
	a.half.Release()
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.limit.exhausted {
		c.wake()
	}
}

// close ends the trial of a breaker.
func (c *control) close(a *attempt) {
	if !a.trial {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.limit.trying = false
	c.wake()
}

// report counts a recorded outcome for the breaker: it pauses the handler, or ends its pause.
func (c *control) report(a *attempt) {
	if a.limit == nil || isUnverified(&a.rec) {
		return
	}
	change := c.classify(a)
	if change == nil {
		return
	}
	ctx, cancel := a.d.storeContext()
	defer cancel()
	if err := c.change(ctx, a.task().Handler, change); err != nil {
		a.log().Warn("the breaker of the handler was not changed", "err", err)
	}
}

// classify returns the change that an outcome makes, or nil.
func (c *control) classify(a *attempt) func(*Control, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, res := a.limit, &a.result
	broken := l.state.By == ByBreaker
	done := res.Kind == dedup.ResultDone && res.Reason != dedup.ReasonStale
	failed := res.Kind == dedup.ResultDead || res.Kind == dedup.ResultRetry && !res.Postponed
	if done {
		clear(l.failed)
	}
	var change func(*Control, time.Time) // of a pause of the breaker
	switch {
	case failed && !l.state.Paused && l.fail(&a.rec, a.task().Lane):
		reason := fmt.Sprintf("%d events failed in a row, the last: %s", l.breaker, res.Reason)
		return func(s *Control, now time.Time) {
			if !s.Paused {
				*s = Control{Paused: true, By: ByBreaker, Reason: reason, Since: now, Next: now.Add(trialBase)}
			}
		}
	case broken && done:
		change = func(s *Control, _ time.Time) { *s = Control{} }
	case broken && failed && a.trial:
		change = func(s *Control, now time.Time) {
			s.Tries++
			s.Next = now.Add(trialWait(s.Tries))
		}
	case broken && a.trial: // it was postponed, say
		change = func(s *Control, now time.Time) { s.Next = now }
	default:
		return nil
	}
	return func(s *Control, now time.Time) {
		if s.By == ByBreaker {
			change(s, now)
		}
	}
}

// fail notes an event that failed, and reports whether the breaker trips. An event without a lane
// is a lane of its own.
func (l *limit) fail(rec *dedup.Record, lane string) (trips bool) {
	if l.breaker == 0 {
		return false
	}
	if lane == "" {
		lane = rec.Event
	}
	others := false
	for _, failed := range l.failed {
		others = others || failed != lane
	}
	_, again := l.failed[rec.Event]
	if !again && len(l.failed) >= l.breaker-1 && others {
		clear(l.failed)
		return true
	}
	if len(l.failed) < l.breaker {
		l.failed[rec.Event] = lane
	}
	return false
}

// trialWait is how long a breaker waits after so many trials that failed.
func trialWait(tries int) time.Duration { return min(trialBase<<min(tries, 8), trialCap) }

// claimTrials gets the right to try one event for each breaker that has waited long enough. Of the
// receivers that share a store one gets it. The caller has the lock, which is free meanwhile.
func (c *control) claimTrials() {
	var due []string
	now := time.Now()
	for name, l := range c.limits {
		if l.state.By == ByBreaker && !l.trying && !now.Before(l.state.Next) {
			l.may, due = false, append(due, name)
		}
	}
	if len(due) == 0 {
		return
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	for _, name := range due {
		may := false
		ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
		err := c.change(ctx, name, func(s *Control, now time.Time) {
			if may = s.By == ByBreaker && !now.Before(s.Next); may {
				s.Next = now.Add(trialWait(s.Tries) + c.cfg.HandlerTimeout)
			}
		})
		cancel()
		c.mu.Lock()
		if l := c.limits[name]; l != nil {
			l.may = may && err == nil
		}
		c.mu.Unlock()
	}
}

// change changes the state of a handler in the store, and in memory.
func (c *control) change(ctx context.Context, name string, change func(s *Control, now time.Time)) error {
	c.storing.Lock()
	defer c.storing.Unlock()
	var next Control
	k := dedup.Key{Space: dedup.SpaceHandler, ID: name}
	err := c.cfg.Store.ChangeNote(ctx, k, func(text string) (string, error) {
		next = parseControl(name, text)
		if change(&next, time.Now().UTC().Round(0)); !next.Paused {
			return "", nil
		}
		next.Handler = name
		out, err := json.Marshal(next)
		return string(out), err
	})
	if err == nil {
		c.set(name, next)
	}
	return err
}

// parseControl returns the state in a note. A handler whose state cannot be read stays paused.
func parseControl(name, text string) (s Control) {
	if text != "" && json.Unmarshal([]byte(text), &s) != nil {
		s = Control{Paused: true, By: ByOperator, Reason: "its state in the store cannot be read"}
	}
	s.Handler = name
	return s
}

// set notes the state of a handler.
func (c *control) set(name string, s Control) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, l := c.byName[name], c.limits[name]
	if s.Handler = name; h == nil || h.answer || l == nil && !s.Paused {
		return
	}
	if l == nil {
		l = newLimit(name)
	}
	if was := l.state; was == s {
		return
	} else if l.state = s; s.Paused && (was.By != s.By || was.Reason != s.Reason) {
		c.log.Warn("the handler is paused, and its tasks wait",
			"handler", name, "by", s.By, "reason", s.Reason)
	} else if was.Paused && !s.Paused {
		c.log.Info("the handler runs again", "handler", name)
	}
	if l.may = l.may && s.By == ByBreaker; l.bounds() {
		c.limits[name] = l
	} else {
		delete(c.limits, name)
	}
	c.wake()
}

// read reads the states of all handlers.
func (c *control) read(ctx context.Context) error {
	c.storing.Lock()
	defer c.storing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	texts := map[string]string{}
	for note, err := range c.cfg.Store.Notes(ctx, dedup.SpaceHandler) {
		if err != nil {
			return fmt.Errorf("states of handlers: %w", err)
		}
		texts[note.Key.ID] = note.Text
	}
	for _, name := range c.names() {
		c.set(name, parseControl(name, texts[name]))
	}
	return nil
}

func (c *control) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.byName))
}

// watch reads what other receivers of a shared store changed, until ctx ends.
func (c *control) watch(ctx context.Context) {
	failed := false
	for pause(ctx.Done(), controlsEvery) {
		if err := c.read(ctx); err != nil && !failed && ctx.Err() == nil {
			failed = true
			c.log.Warn("the states of handlers could not be read, and may be old", "err", err)
		} else if err == nil {
			failed = false
		}
	}
}

func (c *control) order(ctx context.Context, handler string, change func(*Control, time.Time)) error {
	names := c.names()
	c.mu.Lock()
	h := c.byName[handler]
	c.mu.Unlock()
	switch {
	case h == nil:
		return fmt.Errorf("handler %q: %w (there are: %s)", handler, ErrUnknownHandler, strings.Join(names, ", "))
	case h.answer:
		return fmt.Errorf("handler %q: %w", handler, ErrAnswering)
	}
	return c.change(ctx, handler, change)
}

// list returns the states of all handlers, in the order of their names.
func (c *control) list() []Control {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := []Control{}
	for _, name := range slices.Sorted(maps.Keys(c.byName)) {
		s := Control{Handler: name}
		if l := c.limits[name]; l != nil {
			s = l.state
		}
		if s.Paused || !c.byName[name].retired {
			all = append(all, s)
		}
	}
	return all
}
