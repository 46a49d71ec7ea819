package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// core is what the parts of a store share: constant while the store is open, or safe for concurrent
// use. The state of the writing goroutine is in committer.
type core struct {
	dir     string
	options Options
	log     *slog.Logger
	clock   dedup.Clock
	opened  time.Time
	db      *kv.DB
	lock    *storedir.DirLock
	gaps    gaps

	queue   *queue
	large   *semaphore.Weighted // bytes of large bodies, which are copied
	heart   *heartbeat
	disk    *disk
	meter   meter
	backlog *backlog
	damages damageLog
	summary *summarizer

	removed   atomic.Int64 // bytes of bodies and keys deleted since the last reclaim
	reclaimed atomic.Int64 // when that was, in nanoseconds since 1970

	failure outage        // final
	failed  chan struct{} // closed with failure
	corrupt outage        // a table is damaged
	closed  atomic.Bool
	stopped chan struct{} // closed when the committer has ended
	quit    func()        // ends the maintenance
	ended   chan struct{} // closed when Close has ended
	readers sync.RWMutex  // held for reading while the database is read

	mu     sync.Mutex
	stats  dedup.Stats
	recent recent
}

// usable returns nil while the store works.
func (c *core) usable() error {
	if c.closed.Load() {
		return dedup.ErrClosed
	}
	return c.failure.err()
}

func (c *core) now() time.Time { return c.clock.Now().Round(0).UTC() }

// view reads the database as the last commit before the call has left it.
func (c *core) view(read func(in *kv.View) error) error {
	if !c.reads() {
		return dedup.ErrClosed
	}
	defer c.readers.RUnlock()
	if err := c.usable(); err != nil {
		return err
	}
	return c.db.View(read)
}

// reads starts a read, which readers.RUnlock ends. It returns false while Close waits for readers.
func (c *core) reads() bool { return c.readers.TryRLock() }

// fatal is the cause of a failure that lasts until the store is opened again.
type fatal struct{ error }

func (f *fatal) Unwrap() error        { return f.error }
func (f *fatal) Is(target error) bool { return target == dedup.ErrFailed }

// fail makes the store unusable until it is opened again. After a failed commit it is unknown
// what is durable, and data that failed to be written can still be read.
func (c *core) fail(reason string, err error) *dedup.ErrUnavailable {
	f := &dedup.ErrUnavailable{Reason: reason + "; the program must be restarted", Err: &fatal{err}}
	if c.failure.CompareAndSwap(nil, f) {
		c.log.Error("store failed", "dir", c.dir, "reason", reason, "error", err)
		close(c.failed)
	}
	return c.failure.Load()
}

// watch looks at the heartbeat until the store has failed or is closed.
func (c *core) watch() {
	beats := c.options.beats
	if beats == nil {
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		beats = tick.C
	}
	for {
		select {
		case <-c.ended:
			return
		case <-c.failed:
			return
		case <-beats:
			c.beat()
		}
	}
}

func (c *core) beat() {
	h := c.heart
	before := h.err()
	failed := h.look(c.db.Flushing())
	after := h.err()
	switch {
	case failed != nil:
		_ = c.fail("the disk does not respond", failed)
	case before == nil && after != nil:
		c.log.Error("the disk does not respond: new events are refused", "dir", c.dir, "error", errors.Unwrap(after))
	case before != nil && after == nil:
		c.log.Info("the disk responds again", "dir", c.dir)
	}
}

// count publishes the statistics; c.mu is held.
func (c *core) count(n *record.Counts) {
	c.stats.Records, c.stats.Pending, c.stats.Running, c.stats.Dead = n.Records, n.Pending, n.Running, n.Dead
	c.stats.Backlog, c.stats.Quarantined = n.Backlog, n.Quarantined
	c.backlog.set(n.WaitingBytes, n.Waiting)
}

func (c *core) warn(what string, err error) {
	if err != nil && !errors.Is(err, dedup.ErrClosed) && !errors.Is(err, context.Canceled) {
		c.log.Warn("maintenance failed", "dir", c.dir, "what", what, "error", err)
	}
}

func (c *core) damage(err error) {
	if d, ok := errors.AsType[*DamagedError](err); ok && c.damages.add(d.Key) {
		c.log.Error("stored value is damaged", "dir", c.dir, "key", d.Key, "error", err)
	}
}

// DamagedError reports a stored value that is not what was written: Key names it, Reason describes
// the damage, Err is the cause or nil. A claim of its key is never accepted as new: it is Known if
// the event is finished and its state is intact, and fails otherwise.
type DamagedError = record.DamagedError

// reasonDamaged is the reason of dead letters whose stored values are damaged.
const reasonDamaged = "damaged"

// damageLog counts the damaged values that were read.
type damageLog struct {
	mu   sync.Mutex
	keys map[string]struct{} // which, up to maxDamagedKeys
	read atomic.Int64        // how often
}

// maxDamagedKeys is how many damaged values are distinguished, and so logged only once.
const maxDamagedKeys = 1000

func (l *damageLog) add(key string) bool {
	l.read.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.keys[key]
	if !known && len(l.keys) < maxDamagedKeys {
		l.keys[key] = struct{}{}
	}
	return !known
}

// replace keeps only what a full check found: damaged values may have been purged since.
func (l *damageLog) replace(found iter.Seq[string]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.keys)
	for key := range found {
		if len(l.keys) < maxDamagedKeys {
			l.keys[key] = struct{}{}
		}
	}
}

func (l *damageLog) err() error {
	l.mu.Lock()
	n := len(l.keys)
	l.mu.Unlock()
	switch {
	case n == 0:
		return nil
	case n == 1:
		return errors.New("1 stored value is damaged; its key stays known, deliveries of it may be answered 503")
	case n >= maxDamagedKeys:
		return fmt.Errorf("%d or more stored values are damaged; their keys stay known, deliveries of them may be "+
			"answered 503", n)
	}
	return fmt.Errorf("%d stored values are damaged; their keys stay known, deliveries of them may be answered 503", n)
}
