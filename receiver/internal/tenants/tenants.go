// Package tenants caches what a receiver makes of the secrets of tenants, which it reads while it
// runs: from a list of all tenants, or for those that deliveries name. It knows nothing of HTTP.
package tenants

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
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

// ErrUnknown is returned for a tenant that does not exist.
var ErrUnknown = errors.New("unknown tenant")

// Unavailable is the error of a tenant whose secrets are not known at the moment.
type Unavailable struct {
	Err   error
	After time.Duration // to wait at least; zero for any time
}

// Error returns why.
func (u *Unavailable) Error() string { return fmt.Sprintf("secrets of the tenant: %v", u.Err) }

// Unwrap returns Err.
func (u *Unavailable) Unwrap() error { return u.Err }

// Source is where the tenants of a producer are from. It has List or Lookup.
type Source struct {
	Producer string // its name
	// List returns the secrets of all tenants, Lookup those of one, or ErrUnknown.
	List   func(ctx context.Context) (map[string][]verify.Secret, error)
	Lookup func(ctx context.Context, name string) ([]verify.Secret, error)
	// Make returns the value of a tenant, and what no other tenant may have in common with it.
	Make func(name string, secrets []verify.Secret) (value any, alone []string, err error)
	// Valid reports whether a text is the name of a tenant.
	Valid func(name string) bool
}

// Tenant is one tenant. It is not changed.
type Tenant struct {
	Name  string
	Value any // of Source.Make

	generation int // how often it was deleted
	secrets    []verify.Secret
	digests    [][sha256.Size]byte // of Source.Make, by the key of the cache
	err        error               // why it cannot be used
}

// Principal is the principal of the tenant's events.
func (t *Tenant) Principal() string {
	if t.generation == 0 {
		return t.Name
	}
	return t.Name + "~" + strconv.Itoa(t.generation)
}

// notes is the part of [dedup.Store] that keeps the generations.
type notes interface {
	Note(ctx context.Context, k dedup.Key) (dedup.Note, error)
	ChangeNote(ctx context.Context, k dedup.Key, change func(text string) (string, error)) error
	Notes(ctx context.Context, space string) iter.Seq2[dedup.Note, error]
}

// Cache has the tenants of one producer.
type Cache struct {
	Source
	store notes
	log   *slog.Logger
	key   [32]byte // of the digests of secrets

	list   list
	lookup lookup
}

// New returns an empty cache.
func New(from Source, store notes, log *slog.Logger) *Cache {
	c := &Cache{Source: from, store: store, log: log.With("endpoint", from.Producer)}
	_, _ = rand.Read(c.key[:]) // never fails
	c.lookup.init()
	return c
}

// Replaces takes over the tenants of the producer's configuration before. Either may be nil.
func (c *Cache) Replaces(before *Cache) *Cache {
	switch {
	case c == nil || before == nil:
	case c.List != nil:
		c.adoptList(before)
	default:
		c.adoptLookups(before)
	}
	return c
}

// Start reads the list, and then every 25 seconds until ctx ends. It waits for the first list
// unless there is one of before.
func (c *Cache) Start(ctx context.Context) {
	if c.List == nil {
		return
	}
	first := make(chan struct{})
	go func() {
		c.refresh(ctx)
		close(first)
		ticker := time.NewTicker(listEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				c.refresh(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	if c.list.now.Load() != nil {
		return
	}
	select {
	case <-first:
	case <-time.After(listTimeout):
	}
}

// Get returns a tenant, ErrUnknown, or an [*Unavailable]. from is the network of the client.
func (c *Cache) Get(ctx context.Context, name string, from netip.Prefix) (*Tenant, error) {
	if !c.Valid(name) {
		return nil, ErrUnknown
	}
	if c.List != nil {
		return c.listed(name)
	}
	return c.look(ctx, name, from)
}

// build makes a tenant, or takes over that of before if nothing changed.
func (c *Cache) build(name string, secrets []verify.Secret, generation int, before *Tenant) *Tenant {
	if before != nil && !errors.Is(before.err, errShared) && !errors.Is(before.err, errDeleted) &&
		before.generation == generation && slices.Equal(before.secrets, secrets) {
		return before
	}
	t := &Tenant{Name: name, generation: generation, secrets: slices.Clone(secrets)}
	var alone []string
	t.err = guarded(func() (err error) {
		t.Value, alone, err = c.Make(name, secrets)
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

// guarded turns a panic of f into an error without its value, which may hold a secret.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a function of the tenants panicked with a %T", v)
		}
	}()
	return f()
}

// errShared is why neither of two tenants with one secret is served: a delivery of one would verify
// at the other. A tenant that was deleted and is back needs its generation first (errDeleted).
var (
	errShared  = errors.New("it shares a secret with another tenant")
	errDeleted = errors.New("that it was deleted is not stored yet")
)

func (c *Cache) warnShared(name, other string) {
	c.log.Warn("two tenants have the same secret, and neither is served", "tenant", name, "other", other)
}

func (c *Cache) noteOf(name string) dedup.Key {
	return dedup.Key{Endpoint: c.Producer, Space: dedup.SpaceTenant, ID: name}
}

// raise changes the generation of a tenant that was deleted, unless another receiver did so since.
func (c *Cache) raise(ctx context.Context, name string, from int) (generation int, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err = c.store.ChangeNote(ctx, c.noteOf(name), func(text string) (string, error) {
		stored, err := parseGeneration(text)
		generation = max(stored, from+1)
		return strconv.Itoa(generation), err
	})
	return generation, err
}

func parseGeneration(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, errors.New("the generation of a tenant in the store is not a number")
	}
	return n, nil
}
