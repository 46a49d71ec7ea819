package tenants

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/verify"
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

// lookup has the tenants that deliveries named.
type lookup struct {
	calls chan struct{} // one for each call of the source

	mu       sync.Mutex
	cached   map[string]*cached
	unknown  map[string]time.Time // when they were looked up
	pending  map[string]*query
	owners   map[[sha256.Size]byte][]string // the cached tenants with a secret
	unproven int                            // pending of tenants that no delivery proved
	rates    *admission.Quotas
	taken    int
	warned   time.Time
}

// cached is a tenant of the last look-up that succeeded.
type cached struct {
	tenant   *Tenant
	at       time.Time // of that look-up
	failed   time.Time // of the last one that did not
	used     time.Time
	verified bool // a delivery was
	gone     bool // the source has deleted it, and that is not stored yet
}

// query is a look-up for which deliveries wait.
type query struct {
	done  chan struct{}
	share admission.Share // of a new name
	err   error           // once it is done
}

func (l *lookup) init() {
	l.calls = make(chan struct{}, maxCalls)
	l.cached, l.unknown, l.pending = map[string]*cached{}, map[string]time.Time{}, map[string]*query{}
	l.owners = map[[sha256.Size]byte][]string{}
	l.rates = newRates()
}

func newRates() *admission.Quotas {
	return admission.NewQuotas(admission.Rate{Events: namesPerTime, Per: time.Second, Burst: namesAtOnce})
}

// Verified notes that a delivery proved to be from the tenant.
func (c *Cache) Verified(t *Tenant) {
	l := &c.lookup
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.cached[t.Name]; e != nil {
		e.verified = true
	}
}

// look returns a tenant, which it looks up unless it is cached.
func (c *Cache) look(ctx context.Context, name string, from netip.Prefix) (*Tenant, error) {
	l := &c.lookup
	l.mu.Lock()
	defer l.mu.Unlock()
	e, now := l.cached[name], time.Now()
	if at, ok := l.unknown[name]; ok && now.Sub(at) < unknownFor {
		return nil, ErrUnknown
	}
	if e != nil {
		if e.used = now; now.Sub(e.at) < freshFor {
			return c.usable(e, now)
		}
	}
	q, err := c.begin(name, e, from, now)
	if e != nil && (now.Sub(e.at) < usedFor || now.Sub(e.failed) < failedFor) {
		return c.usable(e, now) // the look-up is for later deliveries
	}
	if err != nil {
		return nil, err
	}
	l.mu.Unlock()
	select {
	case <-q.done:
	case <-ctx.Done():
		q = &query{err: ctx.Err()}
	}
	l.mu.Lock()
	if e = l.cached[name]; e != nil && ctx.Err() == nil {
		return c.usable(e, time.Now())
	}
	if errors.Is(q.err, ErrUnknown) {
		return nil, ErrUnknown
	}
	return nil, &Unavailable{Err: q.err}
}

// usable returns the cached tenant, whose last look-up may have failed.
func (c *Cache) usable(e *cached, now time.Time) (*Tenant, error) {
	err := e.tenant.err
	if e.gone {
		err = errDeleted
	}
	for _, digest := range e.tenant.digests {
		if len(c.lookup.owners[digest]) > 1 {
			err = errShared
		}
	}
	if now.Sub(e.at) > keptFor {
		err = errors.New("the source is not available")
	}
	if err != nil {
		return nil, &Unavailable{Err: err}
	}
	return e.tenant, nil
}

// begin returns the look-up of a name, after starting it unless one runs or the last one
// failed a moment ago. e is what is cached, or nil. The caller has the lock.
func (c *Cache) begin(name string, e *cached, from netip.Prefix, now time.Time) (*query, error) {
	l := &c.lookup
	if q := l.pending[name]; q != nil {
		return q, nil
	}
	q := &query{done: make(chan struct{})}
	proven := e != nil && e.verified
	switch {
	case e != nil && now.Sub(e.failed) < failedFor:
		return nil, &Unavailable{Err: errors.New("the last look-up failed")}
	case !proven && (l.unproven >= maxUnproven || len(l.calls) == maxCalls):
		return nil, &Unavailable{Err: errors.New("too many look-ups at once"), After: time.Second}
	case e == nil:
		if l.taken++; l.taken > maxTakes {
			l.taken, l.rates = 0, newRates()
		}
		q.share, _ = l.rates.Of(from.String()).Begin() // which has no slots
		if wait, _ := q.share.Take(1, now); wait > 0 {
			return nil, &Unavailable{Err: errors.New("too many new names from one network"), After: wait}
		}
	}
	if !proven {
		l.unproven++ // until the source returns
	}
	l.pending[name] = q
	go c.run(name, q, proven)
	return q, nil
}

// run looks a tenant up.
func (c *Cache) run(name string, q *query, proven bool) {
	l, asked := &c.lookup, time.Now()
	secrets, err := c.call(name, proven)
	unknown := errors.Is(err, ErrUnknown)
	l.mu.Lock()
	e, known := cached{}, l.cached[name]
	if known != nil {
		e = *known
	}
	l.mu.Unlock()
	e.gone = e.tenant != nil && (unknown || err == nil && e.gone)
	generation := 0
	if e.gone {
		var failed error
		if generation, failed = c.raise(context.Background(), name, e.tenant.generation); failed != nil {
			err, unknown = failed, false
		}
	} else if err == nil {
		generation, err = c.generation(name)
	}
	var t *Tenant
	if err == nil {
		t = c.build(name, secrets, generation, e.tenant)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(q.done)
	delete(l.pending, name)
	switch {
	case err == nil:
		q.share.Refund()
		c.keep(name, t, cached{at: asked})
	case unknown:
		c.forget(name)
		q.err = ErrUnknown
		l.unknown[name] = asked
		for other := range l.unknown {
			if len(l.unknown) > maxCached {
				delete(l.unknown, other)
			}
			break
		}
	default:
		if time.Since(l.warned) > warnEvery {
			l.warned = time.Now()
			c.log.Warn("a tenant was not looked up, those that are cached stay", "err", err)
		}
		if q.err = err; known != nil {
			known.failed, known.gone = time.Now(), e.gone
		}
	}
}

// call calls the source. A call that does not return in time counts until it does.
func (c *Cache) call(name string, proven bool) ([]verify.Secret, error) {
	l := &c.lookup
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	type result struct {
		secrets []verify.Secret
		err     error
	}
	returned := make(chan result, 1)
	go func() {
		var r result
		select {
		case l.calls <- struct{}{}:
			r.err = guarded(func() (err error) {
				r.secrets, err = c.Lookup(ctx, name)
				return err
			})
			<-l.calls
		case <-ctx.Done():
			r.err = ctx.Err()
		}
		returned <- r
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		if !proven {
			l.unproven--
		}
	}()
	select {
	case r := <-returned:
		return r.secrets, r.err
	case <-ctx.Done():
		return nil, errors.New("the look-up did not end in time")
	}
}

// generation reads that of a tenant.
func (c *Cache) generation(name string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	note, err := c.store.Note(ctx, c.noteOf(name))
	if err != nil {
		return 0, err
	}
	return parseGeneration(note.Text)
}

// keep caches a tenant. The caller has the lock.
func (c *Cache) keep(name string, t *Tenant, e cached) {
	l := &c.lookup
	before := l.cached[name]
	if before != nil {
		e.verified, e.used = before.verified, before.used
		c.forget(name)
	} else {
		c.evict()
	}
	for _, digest := range t.digests {
		if l.owners[digest] = append(l.owners[digest], name); len(l.owners[digest]) == 2 &&
			(before == nil || before.tenant != t) {
			c.warnShared(name, l.owners[digest][0])
		}
	}
	e.tenant = t
	l.cached[name] = &e
	delete(l.unknown, name)
}

// forget removes a tenant. The caller has the lock.
func (c *Cache) forget(name string) {
	l := &c.lookup
	e := l.cached[name]
	if e == nil {
		return
	}
	delete(l.cached, name)
	for _, digest := range e.tenant.digests {
		owners := slices.DeleteFunc(l.owners[digest], func(one string) bool { return one == name })
		if l.owners[digest] = owners; len(owners) == 0 {
			delete(l.owners, digest)
		}
	}
}

// evict makes room for a tenant: it forgets one that no delivery proved, else the one that was not
// used for the longest time.
func (c *Cache) evict() {
	l := &c.lookup
	if len(l.cached) < maxCached {
		return
	}
	victim := ""
	for name, e := range l.cached {
		if was := l.cached[victim]; was == nil || e.verified != was.verified && was.verified ||
			e.verified == was.verified && e.used.Before(was.used) {
			victim = name
		}
	}
	c.forget(victim)
}

// adoptLookups takes over what the cache before has, with the secrets as this configuration reads
// them.
func (c *Cache) adoptLookups(before *Cache) {
	before.lookup.mu.Lock()
	defer before.lookup.mu.Unlock()
	for name, e := range before.lookup.cached {
		c.keep(name, c.build(name, e.tenant.secrets, e.tenant.generation, nil), *e)
	}
}
