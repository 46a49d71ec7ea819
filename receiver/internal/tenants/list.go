package tenants

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/verify"
)

// list has the tenants that the source lists. A delivery reads it without a lock.
type list struct{ now atomic.Pointer[listing] }

// listing is one list. It is not changed.
type listing struct {
	at      time.Time
	tenants map[string]*Tenant
	gone    map[string]int // generations of deleted tenants that are not stored yet
}

func (c *Cache) listed(name string) (*Tenant, error) {
	l := c.list.now.Load()
	if l == nil || time.Since(l.at) > keptFor {
		return nil, &Unavailable{Err: errors.New("the list cannot be read")}
	}
	t := l.tenants[name]
	switch {
	case t == nil:
		return nil, ErrUnknown
	case t.err != nil:
		return nil, &Unavailable{Err: t.err}
	}
	return t, nil
}

// refresh replaces the list. After a failure it stays as it is.
func (c *Cache) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	asked := time.Now()
	var all map[string][]verify.Secret
	err := guarded(func() (err error) {
		all, err = c.List(ctx)
		return err
	})
	before := c.list.now.Load()
	if before == nil {
		before = &listing{}
	}
	if err == nil && len(all) == 0 && len(before.tenants) > 0 {
		err = errors.New("the list is empty, and had tenants before")
	}
	var generations map[string]int
	if err == nil {
		generations, err = c.generations(ctx)
	}
	if err == nil {
		err = ctx.Err() // it may be half a list
	}
	if err != nil {
		if context.Cause(ctx) != context.Canceled { //nolint:errorlint // the receiver ends
			c.log.Warn("the tenants were not read, those of before stay", "err", err)
		}
		return
	}
	next := &listing{at: asked, tenants: make(map[string]*Tenant, len(all)), gone: map[string]int{}}
	for name, from := range c.deleted(before, all) {
		if generations[name], err = c.raise(ctx, name, from); err != nil {
			next.gone[name] = from
		}
	}
	if n := len(next.gone); n > 0 {
		c.log.Warn("that tenants were deleted is not stored yet", "tenants", n, "err", err)
	}
	for name, secrets := range all {
		if from, waits := next.gone[name]; waits {
			next.tenants[name] = &Tenant{Name: name, generation: from, err: errDeleted}
		} else {
			next.tenants[name] = c.build(name, secrets, generations[name], before.tenants[name])
		}
	}
	c.separate(next.tenants, before.tenants)
	c.list.now.Store(next)
}

// deleted returns the generations of tenants that the next list does not have, and of those that
// were deleted before but have theirs still.
func (c *Cache) deleted(l *listing, next map[string][]verify.Secret) map[string]int {
	gone := map[string]int{}
	maps.Copy(gone, l.gone)
	for name, t := range l.tenants {
		if _, still := next[name]; !still && c.Valid(name) {
			gone[name] = t.generation
		}
	}
	return gone
}

// generations reads those of all tenants of the producer.
func (c *Cache) generations(ctx context.Context) (map[string]int, error) {
	all := map[string]int{}
	for note, err := range c.store.Notes(ctx, dedup.SpaceTenant) {
		if err != nil {
			return nil, err
		}
		if note.Key.Endpoint != c.Producer {
			continue
		}
		n, err := parseGeneration(note.Text)
		if err != nil {
			return nil, err
		}
		all[note.Key.ID] = n
	}
	return all, nil
}

// separate refuses tenants with a secret of another one, and logs those that it did not refuse
// before.
func (c *Cache) separate(tenants, before map[string]*Tenant) {
	owners := map[[sha256.Size]byte]*Tenant{}
	for _, t := range tenants {
		for _, digest := range t.digests {
			other := owners[digest]
			if other == nil {
				owners[digest] = t
			} else if other != t {
				if was := before[t.Name]; was == nil || !errors.Is(was.err, errShared) {
					c.warnShared(t.Name, other.Name)
				}
				for _, one := range []*Tenant{t, other} {
					refused := *one
					refused.err = errShared
					tenants[one.Name] = &refused
				}
			}
		}
	}
}

// adoptList takes over the list of before, with the secrets as this configuration reads them.
func (c *Cache) adoptList(before *Cache) {
	old := before.list.now.Load()
	if old == nil {
		return
	}
	next := &listing{at: old.at, tenants: make(map[string]*Tenant, len(old.tenants)), gone: old.gone}
	for name, t := range old.tenants {
		next.tenants[name] = c.build(name, t.secrets, t.generation, nil)
	}
	c.separate(next.tenants, old.tenants)
	c.list.now.Store(next)
}
