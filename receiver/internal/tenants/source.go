package tenants

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/verify"
)

// The times of the cache.
const (
	listEvery  = 25 * time.Second
	freshFor   = 30 * time.Second // then a tenant is looked up again in the background
	usedFor    = time.Minute      // then before its next use
	keptFor    = time.Hour        // while the source fails
	unknownFor = 10 * time.Second
	failedFor  = 5 * time.Second // before a source that failed is asked again
	warnEvery  = time.Minute

	listTimeout  = 10 * time.Second
	callTimeout  = 5 * time.Second
	storeTimeout = 5 * time.Second
)

// The bounds of look-ups.
const (
	maxCached    = 10_000 // tenants, and as many names of none
	maxCalls     = 16     // at once
	maxUnproven  = 8      // of them for tenants that no delivery proved
	maxTakes     = 10_000 // look-ups of new names, after which all networks may begin again
	namesPerTime = 5      // new names of one network in a second, minus those of tenants
	namesAtOnce  = 10
)

func newRates() *admission.Quotas {
	return admission.NewQuotas(admission.Rate{Events: namesPerTime, Per: time.Second, Burst: namesAtOnce})
}

type secrets = map[string][]verify.Secret

// ask calls the source. A call that does not return in time counts until it does.
func (c *Cache) ask(
	ctx context.Context, limit time.Duration, f func(context.Context) (secrets, error), returned func(),
) (secrets, error) {
	type answer struct {
		all secrets
		err error
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		defer returned()
		select {
		case c.calls <- struct{}{}:
			defer func() { <-c.calls }()
		case <-ctx.Done():
			return
		}
		var a answer
		a.err = guarded(func() (err error) {
			a.all, err = f(ctx)
			return err
		})
		if a.err == nil {
			a.err = ctx.Err() // it may be half a list
		}
		answers <- a
	}()
	select {
	case a := <-answers:
		return a.all, a.err
	case <-ctx.Done():
		return nil, errors.New("the call did not end in time")
	}
}

// Start reads the list, now and every 25 seconds until ctx ends. It waits for the first one unless
// there is one of before.
func (c *Cache) Start(ctx context.Context) {
	if !c.lists() {
		return
	}
	wait := time.Duration(0)
	if c.listed.IsZero() {
		c.refresh(ctx)
		wait = listEvery
	}
	go func() {
		for {
			select {
			case <-time.After(wait):
				c.refresh(ctx)
				wait = listEvery
			case <-ctx.Done():
				return
			}
		}
	}()
}

// refresh reads the list. After a failure all stays as it is.
func (c *Cache) refresh(ctx context.Context) {
	asked := time.Now()
	all, err := c.ask(ctx, listTimeout, c.List, func() {})
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	c.mu.Lock()
	before := slices.Collect(maps.Keys(c.cached))
	c.mu.Unlock()
	if err == nil && len(all) == 0 && len(before) > 0 {
		err = errors.New("the list is empty, and had tenants before")
	}
	var generations map[string]int
	if err == nil {
		generations, err = c.generations(ctx)
	}
	if err != nil {
		c.down(ctx, err)
		return
	}
	for _, name := range before { // first, as another tenant may have its secret now
		if _, still := all[name]; !still {
			if err := c.learn(ctx, name, nil, 0, ErrUnknown, asked); !errors.Is(err, ErrUnknown) {
				c.down(ctx, err)
			}
		}
	}
	for name, own := range all {
		if err := c.learn(ctx, name, own, generations[name], nil, asked); err != nil {
			c.down(ctx, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = asked
}

// down logs a failure, unless the receiver ends.
func (c *Cache) down(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.warned) > warnEvery && !errors.Is(ctx.Err(), context.Canceled) {
		c.warned = time.Now()
		c.log.Warn("secrets of tenants were not read, those of before stay", "err", err)
	}
}

// query is a look-up for which deliveries wait.
type query struct {
	done  chan struct{}
	share admission.Share // of a new name
	err   error           // once it is done
}

// lookUp returns a tenant that is not fresh. e is what is cached, or nil. The caller has the lock.
func (c *Cache) lookUp(ctx context.Context, name string, e *entry, from netip.Prefix) (*Tenant, error) {
	now := time.Now()
	q, err := c.begin(name, e, from, now)
	if e != nil && (now.Sub(e.at) < usedFor || now.Sub(e.failed) < failedFor) {
		return c.usable(e, now) // the look-up is for later deliveries
	}
	if err != nil {
		return nil, err
	}
	c.mu.Unlock()
	select {
	case <-q.done:
		err = q.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	if e = c.cached[name]; e != nil && ctx.Err() == nil {
		return c.usable(e, time.Now())
	}
	if errors.Is(err, ErrUnknown) {
		return nil, ErrUnknown
	}
	return nil, &Unavailable{Err: err}
}

// begin returns the look-up of a name, after starting it unless one runs or the last one
// failed a moment ago. e is what is cached, or nil. The caller has the lock.
func (c *Cache) begin(name string, e *entry, from netip.Prefix, now time.Time) (*query, error) {
	if q := c.pending[name]; q != nil {
		return q, nil
	}
	q := &query{done: make(chan struct{})}
	proven := e != nil && e.verified
	switch {
	case e != nil && now.Sub(e.failed) < failedFor:
		return nil, unavailable("the last look-up failed", 0)
	case !proven && (c.unproven >= maxUnproven || len(c.calls) == maxCalls):
		return nil, unavailable("too many look-ups at once", time.Second)
	case e == nil:
		if c.taken++; c.taken > maxTakes {
			c.taken, c.rates = 0, newRates()
		}
		q.share, _ = c.rates.Of(from.String()).Begin() // which has no slots
		if wait, _ := q.share.Take(1, now); wait > 0 {
			return nil, unavailable("too many new names from one network", wait)
		}
	}
	if !proven {
		c.unproven++ // until the source returns
	}
	c.pending[name] = q
	go c.run(name, q, proven)
	return q, nil
}

// run looks a tenant up.
//
//nolint:contextcheck // a look-up is for later deliveries too
func (c *Cache) run(name string, q *query, proven bool) {
	asked, ctx := time.Now(), context.Background()
	all, err := c.ask(ctx, callTimeout, func(ctx context.Context) (secrets, error) {
		own, err := c.Lookup(ctx, name)
		return secrets{name: own}, err
	}, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !proven {
			c.unproven--
		}
	})
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	generation, unknown := 0, errors.Is(err, ErrUnknown)
	if err == nil {
		generation, err = c.generation(ctx, name)
	}
	if err == nil || unknown {
		err = c.learn(ctx, name, all[name], generation, err, asked)
	}
	if unknown = errors.Is(err, ErrUnknown); err != nil && !unknown {
		c.down(ctx, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(q.done)
	delete(c.pending, name)
	switch q.err = err; {
	case err == nil:
		q.share.Refund()
	case unknown:
		c.unknown[name] = asked
		for other := range c.unknown {
			if len(c.unknown) > maxCached {
				delete(c.unknown, other)
			}
			break
		}
	case c.cached[name] != nil:
		c.cached[name].failed = time.Now()
	}
}
