package badgerstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
)

// The rhythm of what happens in the background.
const (
	sweepEvery   = 10 * time.Minute
	flattenEvery = dedup.DefaultWindow
	verifyEvery  = 24 * time.Hour
	// sweepSlack is how long a record stays in the store after its window has ended, for people to look at.
	sweepSlack = time.Hour
)

// keepHouse gives back the space of what has ended, and looks for damage.
func (s *Store) keepHouse() {
	s.restrictFiles()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	flattened, verified := time.Now(), time.Now()
	for {
		select {
		case <-s.quit:
			return
		case <-s.stopped:
			return
		case <-tick.C:
		}
		s.restrictFiles()
		s.note("sweep", s.sweep(sweepSlack))
		if time.Since(flattened) >= flattenEvery {
			flattened = time.Now()
			s.note("compaction", s.db.Flatten(1))
		}
		s.note("value log", s.collect())
		if time.Since(verified) >= verifyEvery {
			verified = time.Now()
			s.verify()
		}
	}
}

func (s *Store) note(what string, err error) {
	if err != nil && !errors.Is(err, dedup.ErrClosed) {
		s.log.Warn("housekeeping failed", "dir", s.dir, "what", what, "error", err)
	}
}

// sweepOp deletes records whose window has ended.
type sweepOp struct {
	ticket
	places []place
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
	before := s.now().Add(-slack)
	var ended []place
	err := s.view(func(txn *badger.Txn) error {
		it := txn.NewIterator(keysOnly(familyState))
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			var rec dedup.Record
			key := it.Item().Key()
			err := it.Item().Value(func(value []byte) error { return decodeState(key, value, &rec) })
			if err != nil {
				s.damage(err)
				continue
			}
			if rec.Disposable(before) {
				ended = append(ended, place{hash: hash(key[1:rowKeySize])})
			}
		}
		ended = append(ended, s.endedOlder(txn, before)...)
		return nil
	})
	for err == nil && len(ended) > 0 {
		n := min(len(ended), 256)
		o := &sweepOp{ticket: newTicket(false), places: ended[:n], before: before}
		o.bytes = n * 64
		ended = ended[n:]
		if err = s.queue.push(o); err == nil {
			<-o.ticket.done
			err = o.err
		}
	}
	return err
}

// endedOlder returns the older generations that were dead letters and are so no longer.
func (s *Store) endedOlder(txn *badger.Txn, before time.Time) (ended []place) {
	it := txn.NewIterator(keysOnly(familyOlder))
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		p := olderPlace(it.Item().Key())
		r, err := readRow(txn, p)
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

// collect gives back value log files that hold mostly what was deleted.
func (s *Store) collect() error {
	for {
		err := s.db.RunValueLogGC(0.5)
		switch {
		case errors.Is(err, badger.ErrNoRewrite), errors.Is(err, badger.ErrRejected):
			return nil
		case err != nil:
			return err
		}
		select {
		case <-s.stopped:
			return nil
		default:
		}
	}
}

// verify reads every table. Damage turns the health red; what can be read is served on.
func (s *Store) verify() {
	if err := s.db.VerifyChecksum(); err != nil {
		s.log.Error("store is damaged", "dir", s.dir, "error", err)
		s.unsound.Store(&dedup.ErrUnavailable{Reason: "the store is damaged: restore a backup", Err: err})
	}
}

// restrictFiles takes from others what they have no business with. The directory keeps them out already.
func (s *Store) restrictFiles() {
	_ = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil && info.Mode().Perm() != 0o600 {
				_ = os.Chmod(path, 0o600)
			}
		}
		return nil
	})
}
