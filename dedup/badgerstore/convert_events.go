package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// convertInPlace converts a store of format 3, whose files this program can read: only its events
// have another layout. Opening the database applies what its log has. Each commit rewrites some
// events whole and counts them, so a conversion that was interrupted continues with the others.
func convertInPlace(c *core, from int) (err error) {
	identity, _, err := storedir.ReadIdentity(c.dir)
	if err != nil || identity == "" && !kv.Exists(c.dir) { // it was just being created
		return err
	}
	if err := storedir.RemoveSummary(c.dir); err != nil { // the next start reads and counts everything
		return err
	}
	o := c.kvOptions()
	o.Summary = nil
	if c.db, err = kv.Open(c.dir, o); err != nil {
		return c.cannotOpen(err)
	}
	defer func() {
		c.options.step(stepConvert)
		err = errors.Join(err, c.db.Close())
		c.db = nil
	}()
	w := newRewriter(c, 0)
	if err := w.begin(from); err != nil {
		return err
	}
	if err := w.run(); err != nil {
		return err
	}
	c.options.step(stepConvert)
	_, err = storedir.NewIdentity(c.dir) // it is not the store of the earlier backups
	return err
}

// keepValues converts a store of format 4, whose tasks have no history, 5, which has an entry for
// each name of an occurrence, or 6, whose contents have no words and whose value files name keys:
// the values stay as they are. It only makes the backup, if one is wanted.
func keepValues(c *core, from int) (err error) {
	if c.options.backup == "" || !kv.Exists(c.dir) {
		return nil
	}
	if c.db, err = kv.Open(c.dir, c.kvOptions()); err != nil {
		return c.cannotOpen(err)
	}
	defer func() {
		err = errors.Join(err, c.db.Close())
		c.db = nil
	}()
	return c.db.View(func(in *kv.View) error { return backUpWhole(c, in, from) })
}

// backUpWhole makes the backup of a database that this program can read.
func backUpWhole(c *core, in *kv.View, from int) error {
	m, err := readMeta(in)
	if err != nil {
		return err
	}
	head := backupHead{Format: from, Version: in.Commit(), Commit: m.Commit}
	return backUp(c, head, func(out *backupWriter) error {
		return (&snapshot{c}).all(context.Background(), in, out, Position{})
	})
}

// rewriter rewrites the events of older formats in an open database. What it does not know is
// already rewritten.
type rewriter struct {
	*core
	loader
	meta   record.Meta
	done   int // events
	logged time.Time
}

func newRewriter(c *core, commit uint64) *rewriter {
	return &rewriter{core: c, loader: newLoader(c, commit), logged: time.Now()}
}

// begin refuses a store that the program which wrote it would refuse, makes the backup, and lets
// that program refuse the store from now on.
func (w *rewriter) begin(from int) error {
	if err := w.compare(); err != nil {
		return err
	}
	if storedir.Converting(w.dir) {
		if _, err := os.Stat(w.options.backup); w.options.backup != "" && err != nil {
			return fmt.Errorf("its conversion has begun, so it cannot be backed up as it was: %w", err)
		}
		return nil
	}
	err := w.db.View(func(in *kv.View) error { return backUpWhole(w.core, in, from) })
	if err == nil {
		err = conversionSpace(w.core)
	}
	if err != nil {
		return err
	}
	w.options.step(stepConvert)
	return storedir.BeginConversion(w.dir, from, formatVersion)
}

// compare checks the clock, and compares the events and aliases with what the last commit counted.
func (w *rewriter) compare() error {
	return w.db.View(func(in *kv.View) error {
		m, err := readMeta(in)
		if err != nil {
			return fmt.Errorf("%w; restore a backup", err)
		}
		if err := checkClock(w.core, m); err != nil {
			return err
		}
		found := w.stock(in)
		if missing(m.Census, found.census, found.damaged) && !w.options.AcceptLoss {
			return errMissing(w.dir, m.Census, found.census)
		}
		return nil
	})
}

// stock counts the events and aliases. Some events may be rewritten already.
func (w *rewriter) stock(in *kv.View) (found survey) {
	s := scanner{core: w.core, in: in, part: partsOf(1)[0], found: &found}
	count := func(item *kv.Iterator) {
		p := record.PlaceOf(item.Key())
		state, event := w.stateOf(in, p), []byte(nil)
		if state == nil {
			event = w.value(in, item.Key())
		}
		sum := checksumOf(p, event, state)
		if sum == 0 {
			found.damaged++
		}
		found.census.Add(1, record.Mark(p.Family(), p, sum))
	}
	s.each(record.FamilyEvent, record.KeySize, count)
	s.each(record.FamilyOlder, record.OlderKeySize, count)
	s.aliases()
	found.census.Known = true
	return found
}

// value returns a stored value, nil if the key does not exist, and empty if it cannot be read.
func (w *rewriter) value(in *kv.View, key []byte) []byte {
	value, err := readValue(in, key)
	if err != nil {
		w.damage(err)
		return []byte{}
	}
	return value
}

// stateOf returns the state that an older format has beside an event, nil if there is none.
func (w *rewriter) stateOf(in *kv.View, p record.Place) []byte {
	if p.Older != 0 {
		return nil
	}
	return w.value(in, p.Hash.Key(record.FamilyState))
}

// checksumOf returns the checksum in the mark of an event, zero if its newest state is damaged.
func checksumOf(p record.Place, event, state []byte) uint32 {
	key, value := p.Key(), event
	if state != nil {
		key, value = p.Hash.Key(record.FamilyState), state
	}
	if record.Verify(key, value) != nil {
		return 0
	}
	return record.Checksum(value)
}

// run rewrites the events, and states whose event is lost.
func (w *rewriter) run() error {
	return w.db.View(func(in *kv.View) (err error) {
		if w.meta, err = readMeta(in); err != nil {
			return err
		}
		w.commit = max(w.commit, w.meta.Commit, in.Commit())
		w.mark = func([]byte) mutation {
			w.meta.Commit = w.commit + 1
			return mutation{Key: record.MetaKey, Value: w.meta.Encode()}
		}
		if w.db.Lost() { // the numbers of the lost commits must not be used again
			w.meta.Seq, w.meta.Token = w.meta.Seq+lostGap, w.meta.Token+lostGap
			w.commit = max(w.commit, w.db.Newest())
			w.writes = append(w.writes, w.mark(nil))
		}
		for _, family := range [...]byte{record.FamilyEvent, record.FamilyOlder, record.FamilyState} {
			for item := range in.Items(family) {
				if err := w.one(in, item.KeyCopy()); err != nil {
					return err
				}
			}
			if err := w.flush(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *rewriter) one(in *kv.View, key []byte) error {
	if len(key) < record.KeySize || key[0] != record.FamilyState && !record.KnownKey(key) {
		return nil
	}
	p := record.PlaceOf(key)
	state, event, orphan := w.stateOf(in, p), []byte(nil), key[0] == record.FamilyState
	if !orphan {
		event = w.value(in, key)
	} else if known, err := w.db.Get(p.Key()); known != nil || err != nil {
		return nil //nolint:nilerr // its event is there, and rewritten
	}
	value, content, upgraded := record.Upgrade(p, event, state)
	if !upgraded {
		return nil
	}
	mark := record.Mark(p.Family(), p, record.Checksum(value))
	if orphan {
		w.meta.Census.Add(1, mark)
	} else {
		w.meta.Census.Add(0, mark-record.Mark(p.Family(), p, checksumOf(p, event, state)))
	}
	w.meta.Removed += int64(len(event))
	if w.done++; time.Since(w.logged) >= progressEvery {
		w.logged = time.Now()
		w.log.Info("the store is being converted", "dir", w.dir, "events", w.done)
	}
	changes := []mutation{{Key: p.Key(), Value: value, Content: content}}
	if state != nil {
		changes = append(changes, mutation{Key: p.Hash.Key(record.FamilyState)})
	}
	return w.put(changes...)
}
