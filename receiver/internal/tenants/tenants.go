// Package tenants caches the secrets of the tenants of a producer, which it reads while the
// receiver runs: from a list of all, or for those that deliveries name. It knows nothing of HTTP.
package tenants

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/verify"
)

// Unavailable is the error of a tenant whose secrets are not known at the moment.
type Unavailable struct {
	Err   error
	After time.Duration // to wait at least; zero for any time
}

// Error returns why.
func (u *Unavailable) Error() string { return fmt.Sprintf("secrets of the tenant: %v", u.Err) }

// Unwrap returns Err.
func (u *Unavailable) Unwrap() error { return u.Err }

func unavailable(why string, after time.Duration) error {
	return &Unavailable{Err: errors.New(why), After: after}
}

// ErrUnknown is the error of a tenant that does not exist.
var ErrUnknown = errors.New("unknown tenant")

// Source has the tenants of a producer, as producer.Tenants does.
type Source struct {
	Producer string // its name
	Valid    func(name string) bool
	List     func(ctx context.Context) (map[string][]verify.Secret, error)
	Lookup   func(ctx context.Context, name string) ([]verify.Secret, error) // or ErrUnknown
	// Of returns the value of a tenant, and what no other tenant may have.
	Of func(name string, secrets ...verify.Secret) (value any, alone []string, err error)
}

// Tenant is one tenant. It is not changed.
type Tenant struct {
	Name  string
	Value any // of Source.Of

	generation int // how often it was deleted
	secrets    []verify.Secret
	digests    [][sha256.Size]byte // of what no other tenant may have, by the key of the cache
	err        error               // why it cannot be used
}

// Principal is the principal of the tenant's events.
func (t *Tenant) Principal() string {
	if t.generation == 0 {
		return t.Name
	}
	return t.Name + "~" + strconv.Itoa(t.generation)
}

// entry is a cached tenant.
type entry struct {
	*Tenant
	at       time.Time // when the source was asked that knew it last
	failed   time.Time // when the last look-up failed
	used     time.Time
	verified bool // a delivery was
	gone     bool // the source has deleted it, and that is not stored yet
}

// Cache has the tenants of one producer.
type Cache struct {
	Source
	store dedup.Store
	log   *slog.Logger
	key   [32]byte      // of the digests of secrets
	calls chan struct{} // one for each call of the source

	mu       sync.Mutex
	cached   map[string]*entry
	owners   map[[sha256.Size]byte][]string // the cached tenants with a secret
	listed   time.Time                      // when the source was asked for the list
	warned   time.Time
	unknown  map[string]time.Time // when they were looked up
	pending  map[string]*query
	unproven int // calls for tenants that no delivery proved
	rates    *admission.Quotas
	taken    int
}

// New returns an empty cache.
func New(from Source, store dedup.Store, log *slog.Logger) *Cache {
	c := &Cache{
		Source: from, store: store, log: log.With("endpoint", from.Producer), calls: make(chan struct{}, maxCalls),
		cached: map[string]*entry{}, owners: map[[sha256.Size]byte][]string{}, unknown: map[string]time.Time{},
		pending: map[string]*query{}, rates: newRates(),
	}
	_, _ = rand.Read(c.key[:]) // never fails
	return c
}

func (c *Cache) lists() bool { return c.List != nil }

// Replaces takes over the tenants of the producer's configuration before, with the secrets as this
// one reads them. Either may be nil.
func (c *Cache) Replaces(before *Cache) *Cache {
	if c == nil || before == nil || c.lists() != before.lists() {
		return c
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	c.listed = before.listed
	for name, e := range before.cached {
		own := *e
		own.Tenant = c.build(name, e.secrets, e.generation, nil)
		c.keep(own)
	}
	return c
}

// Get returns a tenant, ErrUnknown, or an [*Unavailable]. from is the network of the client.
func (c *Cache) Get(ctx context.Context, name string, from netip.Prefix) (*Tenant, error) {
	if !c.Valid(name) {
		return nil, ErrUnknown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, now := c.cached[name], time.Now()
	switch {
	case e != nil && (c.lists() || now.Sub(e.at) < freshFor):
		return c.usable(e, now)
	case c.lists() && now.Sub(c.listed) > keptFor:
		return nil, unavailable("the list cannot be read", 0)
	case c.lists() || now.Sub(c.unknown[name]) < unknownFor:
		return nil, ErrUnknown
	}
	return c.lookUp(ctx, name, e, from)
}

// Verified notes that a delivery proved to be from the tenant.
func (c *Cache) Verified(t *Tenant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.cached[t.Name]; e != nil {
		e.verified = true
	}
}

// usable returns a cached tenant unless it cannot be used. The caller has the lock.
func (c *Cache) usable(e *entry, now time.Time) (*Tenant, error) {
	e.used = now
	err := e.err
	if e.gone {
		err = errors.New("that it was deleted is not stored yet")
	}
	for _, digest := range e.digests {
		if len(c.owners[digest]) == 1 {
			continue
		}
		err = errors.New("it shares a secret with another tenant") // whose deliveries would verify
		for _, name := range c.owners[digest] {
			if one := c.cached[name]; !c.lists() && now.Sub(one.at) > usedFor {
				_, _ = c.begin(name, one, netip.Prefix{}, now) // it may have another one by now
			}
		}
	}
	if now.Sub(e.at) > keptFor {
		err = errors.New("the source is not available")
	}
	if err != nil {
		return nil, &Unavailable{Err: err}
	}
	return e.Tenant, nil
}

// learn notes what the source said when it was asked: the secrets of a tenant, whose generation is
// stored, or ErrUnknown. It returns that, or why it could not be stored.
func (c *Cache) learn(
	ctx context.Context, name string, secrets []verify.Secret, generation int, said error, asked time.Time,
) (err error) {
	before := entry{}
	c.mu.Lock()
	if e := c.cached[name]; e != nil {
		e.gone = e.gone || said != nil && c.Valid(name)
		before = *e
	}
	c.mu.Unlock()
	if before.gone {
		if generation, err = c.raise(ctx, name, before.generation); err != nil {
			return err
		}
	}
	var t *Tenant
	if said == nil {
		t = c.build(name, secrets, generation, before.Tenant)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if said != nil {
		c.forget(name)
		return said
	}
	c.keep(entry{Tenant: t, at: asked})
	return nil
}

// build makes a tenant, or returns that of before if nothing changed.
func (c *Cache) build(name string, secrets []verify.Secret, generation int, before *Tenant) *Tenant {
	if before != nil && before.generation == generation && slices.Equal(before.secrets, secrets) {
		return before
	}
	t := &Tenant{Name: name, generation: generation, secrets: slices.Clone(secrets)}
	var alone []string
	t.err = guarded(func() (err error) {
		t.Value, alone, err = c.Of(name, secrets...)
		return err
	})
	if t.err != nil {
		c.log.Warn("a tenant cannot be used", "tenant", name, "err", t.err)
		return t
	}
	for _, credential := range alone {
		mac := hmac.New(sha256.New, c.key[:])
		mac.Write([]byte(credential))
		if digest := [sha256.Size]byte(mac.Sum(nil)); !slices.Contains(t.digests, digest) {
			t.digests = append(t.digests, digest)
		}
	}
	return t
}

// keep caches a tenant. The caller has the lock.
func (c *Cache) keep(e entry) {
	delete(c.unknown, e.Name)
	before := c.cached[e.Name]
	if before != nil {
		e.verified, e.used = before.verified, before.used
	} else if !c.lists() {
		c.evict()
	}
	if before == nil || before.Tenant != e.Tenant {
		c.forget(e.Name)
		for _, digest := range e.digests {
			owners := append(c.owners[digest], e.Name)
			if c.owners[digest] = owners; len(owners) > 1 {
				c.log.Warn("two tenants have the same secret, and neither is served",
					"tenant", e.Name, "other", owners[0])
			}
		}
	}
	c.cached[e.Name] = &e
}

// forget removes a tenant. The caller has the lock.
func (c *Cache) forget(name string) {
	e := c.cached[name]
	if e == nil {
		return
	}
	delete(c.cached, name)
	for _, digest := range e.digests {
		owners := slices.DeleteFunc(c.owners[digest], func(one string) bool { return one == name })
		if c.owners[digest] = owners; len(owners) == 0 {
			delete(c.owners, digest)
		}
	}
}

// evict makes room for a tenant: it forgets one that no delivery proved, else the one that was not
// used for the longest time. The caller has the lock.
func (c *Cache) evict() {
	if len(c.cached) < maxCached {
		return
	}
	var victim *entry
	for _, e := range c.cached {
		if victim == nil || victim.verified && !e.verified ||
			e.verified == victim.verified && e.used.Before(victim.used) {
			victim = e
		}
	}
	c.forget(victim.Name)
}

// guarded turns a panic of f into an error without its value, which may hold a secret.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a function of the tenants panicked with a %T", v)
		}
	}()
	return f()
}
