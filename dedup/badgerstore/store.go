// Package badgerstore is the default store of Eyelet: an embedded database in one directory of
// one machine.
//
// [Open] it and pass it to receiver.Open. When a method returns a nil error, its effect
// survives a crash of the process and of the machine, provided the disk keeps what it has
// flushed. One process owns the directory.
//
// # What it does not promise
//
// Losing the disk loses the store. A power cut is survived on file systems that make the name
// of a new file durable together with its content (ext4, xfs, btrfs on Linux). Checksums and a
// census detect damage, but cannot distinguish the last commits before a power cut, which may
// be torn, from damaged ones. docs/reliability.md has the whole list.
package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
)

// Store keeps records in a directory. [Open] returns one.
type Store struct {
	*core
	maintenance *maintenance
	background  sync.WaitGroup
	closing     sync.Once
	closeErr    error // result of Close
}

var (
	_ dedup.Store = (*Store)(nil)
)

// Failed returns a channel that is closed when a commit has failed. The store is unusable from
// then on; the program should exit with an error and be restarted by its supervisor.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Degraded reports problems of a store that still accepts claims: stored values that are
// damaged, whose keys stay known, and compactions that fail. It returns nil if none are known.
func (s *Store) Degraded() error {
	return cmp.Or(s.damages.err(), s.db.Compacting())
}

// Damaged returns how often a damaged value was read since the store was opened.
func (s *Store) Damaged() int64 { return s.damages.read.Load() }

// Health implements [dedup.Store].
func (s *Store) Health(ctx context.Context) error {
	if err := cmp.Or(s.usable(), ctx.Err(), s.corrupt.err(), s.heart.err()); err != nil {
		return err
	}
	if err := s.db.Descriptors(); err != nil {
		return err
	}
	if d := s.disk.state(); d.low() { // before what a full disk stalls
		return d.err()
	}
	return cmp.Or(s.db.Stalled(), s.backlog.err())
}

// Guarantees implements [dedup.Store].
func (s *Store) Guarantees() dedup.Guarantees {
	return dedup.Guarantees{Durability: dedup.DurableMachine}
}

// Stats implements [dedup.Store].
func (s *Store) Stats(ctx context.Context) (dedup.Stats, error) {
	if err := cmp.Or(s.usable(), ctx.Err()); err != nil {
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
	used := s.meter.usage()
	st.Bytes, st.Events, st.Free = used.all, used.events, s.disk.state().free
	return st, nil
}

// Close implements [dedup.Store]: queued operations are committed, blocked Takes return ErrClosed.
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

// close ends the goroutines and closes the files. It does not wait for a disk that hangs.
func (s *Store) close() error {
	defer close(s.ended)
	late := s.waitFor(s.stopped)
	s.quit()
	if late != nil {
		return late
	}
	closed := make(chan struct{})
	var err error
	go func() {
		defer close(closed)
		s.background.Wait()
		s.readers.Lock()
		defer s.readers.Unlock()
		err = errors.Join(s.db.Close(), s.lock.Release())
	}()
	if late := s.waitFor(closed); late != nil {
		return late
	}
	return err
}

// Check reads every value of the store while it is in use, compares all checksums and counts.
func (s *Store) Check(ctx context.Context) (Report, error) { return s.check(ctx, 0) }

// Repair repairs the damaged values that Check finds. Keys stay known until their window ends: no
// repeated delivery is accepted as new. Values damaged only on disk are rewritten from memory. Work
// that cannot be done, or may have been done, becomes a dead letter with the reason "damaged". It
// can be reopened if the payload is left, otherwise Reopen returns ErrNoPayload; purging it forgets
// its key, and the producer can deliver the event again.
//
// It returns the repairs in the order of the keys, and the report of the last check: the second one
// if there was damage. A damaged table, whose content is unknown, is not repaired. At the end the
// store recounts its events, which delays commits for as long as a start takes.
func (s *Store) Repair(ctx context.Context) ([]Repair, Report, error) {
	before, err := s.Check(ctx)
	if err != nil {
		return nil, before, err
	}
	if before.Tables != "" {
		return nil, before, fmt.Errorf("store %s has a damaged table, which cannot be repaired: %s; "+
			"restore a backup", s.dir, before.Tables)
	}
	return (&repairer{s.core}).repair(ctx, before)
}

// Backup writes everything acknowledged before the call to w; [Restore] reads it. Damaged values
// are written as they are: their keys stay known, and the log names them.
//
// The store stays in use. The backup sees it at one moment, and no space is reclaimed meanwhile.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	if err := s.usable(); err != nil {
		return err
	}
	return s.view(func(in *kv.View) error { return writeBackup(ctx, in, w, s.damage) })
}

// closePatience is how long Close waits for a disk that does not respond.
const closePatience = time.Second

// errStaysOpen reports that Close could not wait for the disk.
var errStaysOpen = errors.New("the disk does not respond; the files stay open until the process ends")

// waitFor waits until done is closed, only briefly if the store has failed or the disk hangs.
func (s *Store) waitFor(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-s.failed:
	case <-s.heart.hangs.wait():
	}
	select {
	case <-done:
		return nil
	case <-time.After(closePatience):
		return errStaysOpen
	}
}
