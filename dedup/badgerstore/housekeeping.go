package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// rhythm is how often what happens in the background happens. Tests have one of their own.
type rhythm struct {
	look    time.Duration // how often it is looked whether something is due
	sweep   time.Duration // how often records are deleted whose window has ended
	slack   time.Duration // how long they stay for people to look at
	reclaim time.Duration // how often, at most, space is given back that deleted values take
	flatten time.Duration // how often it is given back although that is little
	prune   time.Duration // how often the keys of days that are over are deleted
}

func ownRhythm() rhythm {
	return rhythm{
		look: time.Minute, sweep: 10 * time.Minute, slack: time.Hour, reclaim: time.Hour, flatten: dedup.DefaultWindow,
		prune: time.Hour,
	}
}

const (
	verifyEvery = 24 * time.Hour
	// growth is after how many bytes the mappings of the logs are looked at again.
	growth = 2 << 20
)

// keepHouse gives back the space of what has ended.
func (s *Store) keepHouse() {
	s.restrictFiles()
	readahead := badgerfile.NewReadahead(s.dir)
	readahead.DisableNew()
	s.note("reclaim", s.reclaimAtStart())
	tick := time.NewTicker(s.options.rhythm.look)
	defer tick.Stop()
	swept, pruned := time.Now(), time.Time{}
	for {
		select {
		case <-s.quit:
			return
		case <-s.stopped:
			return
		case <-s.grown:
			readahead.DisableNew()
			continue
		case <-tick.C:
		}
		s.note("time", s.noteTime())
		if low := s.disk.state().low(); low || time.Since(swept) >= s.options.rhythm.sweep {
			swept = time.Now()
			s.restrictFiles()
			s.note("sweep", s.sweep(s.options.rhythm.slack))
			s.note("reclaim", s.reclaimWhenDue(low))
			if time.Since(pruned) >= s.options.rhythm.prune {
				pruned = time.Now()
				s.note("prune", s.prune())
			}
		}
	}
}

// reclaimAtStart gives space back that the processes before left: one that never runs for long would never come to it.
func (s *Store) reclaimAtStart() error {
	if worth, err := s.wasteful(s.db.Opts().ValueLogFileSize); !worth || err != nil {
		return err
	}
	return s.reclaim()
}

// reclaimWhenDue gives space back when enough was deleted, when a day has passed since it was done last, or when the
// disk is low and there is anything to give back.
func (s *Store) reclaimWhenDue(low bool) error {
	passed := s.now().Sub(time.Unix(0, s.reclaimed.Load()))
	removed := s.removed.Load()
	one := s.db.Opts().ValueLogFileSize
	due := passed >= s.options.rhythm.flatten || passed < 0
	var err error
	switch {
	case due:
	case low && passed >= s.options.rhythm.sweep:
		due, err = s.wasteful(0)
	case passed >= s.options.rhythm.reclaim && removed >= one:
		due, err = s.wasteful(one)
	}
	if !due || err != nil {
		return err
	}
	return s.reclaim()
}

// idleMost is how long a store goes without a commit. A start compares the clock with the last one, and would take a
// quiet weekend for a clock that has jumped.
const idleMost = time.Hour

// timeOp commits the time when nothing else was committed for long.
type timeOp struct{ ticket }

// apply implements op.
func (o *timeOp) apply(b *batch) error {
	if b.now.Sub(b.s.meta.Wall) >= idleMost && !b.disk.frozen() {
		b.always = true
	}
	return nil
}

// noteTime makes the time of the last commit less than an hour old.
func (s *Store) noteTime() error {
	o := &timeOp{newTicket(false)}
	if err := s.queue.push(o); err != nil {
		return err
	}
	<-o.done
	return o.err
}

// keepChecking verifies the store every now and then, until it is closed.
func (s *Store) keepChecking() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.quit:
		case <-s.stopped:
		case <-ctx.Done():
		}
		cancel()
	}()
	tick := time.NewTicker(s.options.CheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.checkQuietly(ctx)
	}
}

// checkQuietly verifies tables and values, slowly, and notes what is damaged.
func (s *Store) checkQuietly(ctx context.Context) {
	began := time.Now()
	r, err := s.check(ctx, checkPause)
	if err != nil {
		if ctx.Err() == nil {
			s.note("check", err)
		}
		return
	}
	if r.Tables != "" && s.unsound.Load() == nil {
		s.log.Error("store is damaged", "dir", s.dir, "error", r.Tables)
		s.unsound.Store(&dedup.ErrUnavailable{Reason: "the store is damaged: restore a backup", Err: errors.New(r.Tables)})
	}
	s.log.Info("store checked", "dir", s.dir, "records", r.Records, "damaged", len(r.Damaged), "took", time.Since(began).Round(time.Millisecond))
}

func (s *Store) note(what string, err error) {
	if err != nil && !errors.Is(err, dedup.ErrClosed) {
		s.log.Warn("housekeeping failed", "dir", s.dir, "what", what, "error", err)
	}
}

// sweepOp deletes records whose window has ended.
type sweepOp struct {
	ticket
	places []record.Place
	before time.Time
	done   int
}

// apply implements op.
func (o *sweepOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	for _, p := range o.places {
		r, err := b.at(p)
		if err != nil || r == nil || !r.rec.Disposable(o.before) {
			continue // damage is noted; it must not keep the others
		}
		if err := b.remove(r); err != nil {
			continue
		}
		o.done++
	}
	return nil
}

// sweep deletes what may be forgotten, slack after its window has ended. Nothing is left to Badger's own
// expiry: that follows the system's clock, and a clock that jumps ahead would open every window.
func (s *Store) sweep(slack time.Duration) error {
	if s.gaps.holdsSweep(s.now()) {
		return nil
	}
	before := s.now().Add(-slack)
	var ended []record.Place
	err := s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(keysOnly(record.FamilyState))
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			var rec dedup.Record
			key := it.Item().Key()
			err := it.Item().Value(func(value []byte) error {
				_, _, err := record.DecodeState(key, value, &rec)
				return err
			})
			if err != nil {
				s.damage(err)
				continue
			}
			s.gaps.prolong(&rec)
			if rec.Disposable(before) {
				ended = append(ended, record.Place{Hash: record.Hash(key[1:record.KeySize])})
			}
		}
		ended = append(ended, s.endedOlder(txn, before)...)
		return nil
	})
	for most := 256; err == nil && len(ended) > 0; {
		n := min(len(ended), most)
		o := &sweepOp{ticket: newTicket(false), places: ended[:n], before: before}
		o.bytes = n * 64
		if err = s.queue.push(o); err == nil {
			<-o.ticket.done
			err = o.err
		}
		if errors.Is(err, dedup.ErrTooLarge) && n > 1 { // they have many names, or many pieces
			most, err = n/2, nil
			continue
		}
		ended = ended[n:]
	}
	return err
}

// endedOlder returns the older generations that were dead letters and are so no longer.
func (s *Store) endedOlder(txn *badger.Txn, before time.Time) (ended []record.Place) {
	it := txn.NewIterator(keysOnly(record.FamilyOlder))
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		p := record.PlaceOf(it.Item().Key())
		r, err := s.readRow(txn, p)
		if err != nil {
			s.damage(err)
			continue
		}
		if r != nil && r.rec.Disposable(before) {
			ended = append(ended, p)
		}
	}
	return ended
}

// The check in the background reads so many values and then lets others work for checkPause.
const (
	checkStretch = 64
	checkPause   = 10 * time.Millisecond
)

// verify reads the file of every table and compares its checksums. Badger's own function looks into its cache
// instead of the file, and panics on a block that does not decompress.
func (s *Store) verify() error {
	listed := func(id uint64) bool {
		for _, t := range s.db.Tables() {
			if t.ID == id {
				return true
			}
		}
		return false
	}
	o := s.db.Opts()
	for _, t := range s.db.Tables() {
		path := table.NewFilename(t.ID, s.dir)
		err := badgerfile.CheckTable(path, t.ID, table.Options{BlockSize: o.BlockSize, Compression: o.Compression})
		if err != nil && listed(t.ID) { // else compaction has just deleted it
			return fmt.Errorf("table %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// checkValues reads every value and compares its checksum.
func (s *Store) checkValues() error {
	var wrong []error
	err := s.db.View(func(txn *badger.Txn) error {
		return eachPlace(context.Background(), txn, func(p record.Place) {
			r, err := readRow(txn, p)
			if err == nil && r != nil {
				_, err = r.body(txn)
			}
			if err != nil && len(wrong) < 10 {
				wrong = append(wrong, err)
			}
		})
	})
	return errors.Join(append(wrong, err)...)
}

// restrictFiles takes from others what they have no business with. The directory keeps them out already.
func (s *Store) restrictFiles() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm() != 0o600 {
			_ = os.Chmod(filepath.Join(s.dir, e.Name()), 0o600)
		}
	}
}
