// Package badgerstore is the default store of Eyelet: an embedded database in one directory of one machine.
//
// [Open] it and give it to receiver.Open. A nil error of its methods means that the effect survives a crash of
// the process and of the machine, as far as the disk keeps what it was told to flush. One process owns the
// directory.
//
// # What it does not promise
//
// Losing the disk loses the store. A power cut is survived on file systems that make the name of a new file
// durable with its content (ext4, xfs, btrfs on Linux). Damage is noticed by checksums and a census, and the last
// commits that a power cut may have torn are not told from ones that are damaged. docs/reliability.md has the whole list.
package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// Store keeps records in a directory. [Open] makes one.
type Store struct {
	dir     string
	options Options
	log     *slog.Logger
	db      *badger.DB
	logger  *logger
	clock   dedup.Clock
	disk    *disk
	meter   meter
	water   *highWater
	spare   *spare
	backlog *backlog
	queue   *queue
	heart   *heartbeat
	boot    uint64
	// identity names the history of the store.
	identity string
	lock     *dirLock
	gaps     gaps
	before   []string // the tables and logs that were there before a start that followed an orderly end

	// commitTxn is badger's Commit; tests make it fail.
	commitTxn   func(*badger.Txn) error
	largeBodies atomic.Uint32
	removed     atomic.Int64 // bytes of bodies deleted since the last reclaim
	reclaimed   atomic.Int64 // when that was, in nanoseconds since 1970

	// The committer's own.
	meta      record.Meta
	agenda    *taskqueue.Queue[record.Hash]
	cache     rowCache
	older     generations
	parked    []*takeOp
	grace     grace
	growth    int64
	unopened  bool   // the value log could not be changed for a new one
	published uint64 // the newest sequence that is in recent

	failure atomic.Pointer[dedup.ErrUnavailable]
	failed  chan struct{}
	unsound atomic.Pointer[dedup.ErrUnavailable]
	closed  atomic.Bool
	stopped chan struct{} // the committer has ended
	quit    chan struct{} // the housekeeper shall end
	grown   chan struct{} // the logs have grown
	done    sync.WaitGroup
	readers sync.RWMutex // held for reading while the database is read
	closing sync.Once
	ended   chan struct{} // Close has ended
	// closeErr is what it returns.
	closeErr error
	crowded  sync.Once // says that more keys are to be remembered than there is room for

	mu     sync.Mutex
	stats  dedup.Stats
	bad    int64
	harmed map[string]struct{} // keys of damaged values, as far as they are counted
	recent recent
}

var (
	_ dedup.Store     = (*Store)(nil)
	_ dedup.Expediter = (*Store)(nil)
)

// DamagedError reports a stored value that is not what was written: Key names it, Reason describes the damage, Err is
// the cause, if there is one. The key that it belongs to stays known: a claim of it fails with this error and is never
// accepted as new.
type DamagedError = record.DamagedError

var (
	errQueueClosed = dedup.ErrClosed
	errQueueFull   = &dedup.ErrUnavailable{Reason: "too many deliveries wait for the disk", RetryAfter: time.Second}
)

// usable returns nil while the store works.
func (s *Store) usable() error {
	if s.closed.Load() {
		return dedup.ErrClosed
	}
	if f := s.failure.Load(); f != nil {
		return f
	}
	return nil
}

// do gives an operation to the committer and waits for its answer.
func (s *Store) do(ctx context.Context, o op) error {
	if err := s.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !o.self().claim {
		return s.push(ctx, o, nil)
	}
	if err := s.heart.err(); err != nil {
		return err
	}
	return s.push(ctx, o, s.heart.hangs.wait())
}

// push gives an operation to the committer and waits for its answer, but no longer than until ctx ends, the store has
// failed, or hangs is closed: then the operation may still happen.
func (s *Store) push(ctx context.Context, o op, hangs <-chan struct{}) error {
	if err := s.queue.push(o); err != nil {
		return err
	}
	for {
		select {
		case <-o.self().done:
			return o.self().err
		case <-ctx.Done():
			return ctx.Err()
		case <-s.failed:
			return s.failure.Load()
		case <-hangs:
			if err := s.heart.err(); err != nil {
				return err
			}
			hangs = nil // the disk answers again
		}
	}
}

// view reads the database. What it sees is durable: a transaction begins after the commits before it.
func (s *Store) view(read func(txn *badger.Txn) error) error {
	if !s.reads() {
		return dedup.ErrClosed
	}
	defer s.readers.RUnlock()
	if err := s.usable(); err != nil {
		return err
	}
	return s.db.View(read)
}

// reads begins to read the database, which readers.RUnlock ends. It is false once Close waits for the readers.
func (s *Store) reads() bool { return s.readers.TryRLock() }

func (s *Store) now() time.Time { return s.clock.Now().Round(0).UTC() }

// fatal is the cause of a failure that lasts until the store is opened again.
type fatal struct{ err error }

func (f *fatal) Error() string        { return f.err.Error() }
func (f *fatal) Unwrap() error        { return f.err }
func (f *fatal) Is(target error) bool { return target == dedup.ErrFailed }

// fail makes the store useless for good. After a commit that failed nothing tells what is durable, and what
// failed can be read all the same; only opening the store again tells.
func (s *Store) fail(reason string, err error) *dedup.ErrUnavailable {
	f := &dedup.ErrUnavailable{Reason: reason + "; the program must be restarted", Err: &fatal{err}}
	if s.failure.CompareAndSwap(nil, f) {
		s.log.Error("store failed", "dir", s.dir, "reason", reason, "error", err)
		close(s.failed)
	}
	return s.failure.Load()
}

// Failed returns a channel that is closed when a commit has failed. The store answers nothing any more then;
// the program should end with an error, so that its supervisor starts it afresh.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// damage notes a value that is not what was written.
func (s *Store) damage(err error) {
	var d *DamagedError
	if !errors.As(err, &d) {
		return
	}
	s.mu.Lock()
	s.bad++
	_, known := s.harmed[d.Key]
	if !known && len(s.harmed) < harmedMax {
		s.harmed[d.Key] = struct{}{}
	}
	s.mu.Unlock()
	if !known {
		s.log.Error("stored value is damaged", "dir", s.dir, "key", d.Key, "error", err)
	}
}

// harmedMax is how many damaged values are counted and logged once only.
const harmedMax = 1000

// Degraded says what is wrong with the store although it accepts claims: stored values that are damaged. Their
// keys stay known, and everything else goes on. It returns nil when nothing is known to be wrong.
func (s *Store) Degraded() error {
	s.mu.Lock()
	n := len(s.harmed)
	s.mu.Unlock()
	switch {
	case n == 0:
		return s.logger.compacting.current()
	case n == 1:
		return errors.New("1 stored value is damaged; its key stays known, deliveries of it are answered 503")
	case n >= harmedMax:
		return fmt.Errorf("%d or more stored values are damaged; their keys stay known, deliveries of them are answered 503", n)
	}
	return fmt.Errorf("%d stored values are damaged; their keys stay known, deliveries of them are answered 503", n)
}

// Damaged returns how often a damaged value was met since the store was opened.
func (s *Store) Damaged() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}

// Health implements [dedup.Store].
func (s *Store) Health(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if u := s.unsound.Load(); u != nil {
		return u
	}
	if err := s.heart.err(); err != nil {
		return err
	}
	if err := s.spare.err(); err != nil {
		return err
	}
	if d := s.disk.state(); d.low() {
		return d.err()
	}
	return s.backlog.err()
}

// Guarantees implements [dedup.Store].
func (s *Store) Guarantees() dedup.Guarantees {
	return dedup.Guarantees{Durability: dedup.DurableMachine}
}

// Stats implements [dedup.Store].
func (s *Store) Stats(ctx context.Context) (dedup.Stats, error) {
	if err := s.usable(); err != nil {
		return dedup.Stats{}, err
	}
	if err := ctx.Err(); err != nil {
		return dedup.Stats{}, err
	}
	if !s.reads() {
		return dedup.Stats{}, dedup.ErrClosed
	}
	defer s.readers.RUnlock()
	if s.closed.Load() {
		return dedup.Stats{}, dedup.ErrClosed
	}
	s.mu.Lock()
	st := s.stats
	st.Quarantined = maps.Clone(st.Quarantined)
	s.mu.Unlock()
	st.Bytes = s.meter.usage().all
	st.Free = s.disk.state().free
	return st, nil
}

// Close implements [dedup.Store]: operations that wait are committed, blocked Takes return ErrClosed.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.queue.close()
		if s.closeErr = s.close(); s.closeErr != nil {
			s.closeErr = fmt.Errorf("closing store %s: %w", s.dir, s.closeErr)
		}
	})
	return s.closeErr
}

// close ends what runs, and then closes the files. It does not wait for a disk that does not answer.
func (s *Store) close() error {
	defer close(s.ended)
	late := s.awaits(s.stopped)
	close(s.quit)
	if late != nil {
		return late
	}
	closed := make(chan struct{})
	var err error
	go func() {
		defer close(closed)
		s.done.Wait()
		s.readers.Lock()
		defer s.readers.Unlock()
		err = s.closeFiles()
		s.spare.release(spareFiles)
	}()
	if late := s.awaits(closed); late != nil {
		return late
	}
	return err
}

// closeFiles closes the database. The store was closed in order when everything that it wrote is on disk, which nothing
// tells after a failure.
func (s *Store) closeFiles() error {
	err := errors.Join(s.db.Close(), s.water.close())
	if err == nil && s.failure.Load() == nil && s.logger.unsynced.Load() == nil {
		err = markClosed(s.dir)
	}
	return errors.Join(err, s.lock.release())
}
