package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Report is the result of checking a store. The counts cover what can be read.
type Report struct {
	// Format is the version of the directory format.
	Format int `json:"format"`
	// Records counts all events. Older counts those that a newer event of the same key has
	// replaced.
	Records int64 `json:"records"`
	Older   int64 `json:"older"`
	// Pending, Running, Done and Dead count tasks. Running ones wait after a start.
	Pending int64 `json:"pending"`
	Running int64 `json:"running"`
	Done    int64 `json:"done"`
	Dead    int64 `json:"dead"`
	// Aliases counts aliases, Pieces the chunks of bodies of more than 512 KiB.
	Aliases int64 `json:"aliases"`
	Pieces  int64 `json:"pieces"`
	// Remembered counts the keys remembered beyond their windows, expired days included.
	Remembered int64 `json:"remembered"`
	// Commit is the number of the last commit in the database, HighWater the one in the
	// high-water file. Lost means that Commit is lower: acknowledged commits are missing.
	Commit    uint64 `json:"commit"`
	HighWater uint64 `json:"high_water"`
	Lost      bool   `json:"lost"`
	// HighWaterUnknown is why there is no high water (missing or damaged), empty if there is one.
	HighWaterUnknown string `json:"high_water_unknown,omitempty"`
	// Missing describes how the store differs from what its last commit counted, which Open
	// refuses. It is empty if it does not, or if nothing was counted yet.
	Missing string `json:"missing,omitempty"`
	// Tables names a table with a wrong checksum, or is empty. [Check] then reads nothing else.
	Tables string `json:"tables,omitempty"`
	// Damaged lists the values that are not what was written.
	Damaged []Damage `json:"damaged"`
}

// Damage is one value that is not what was written.
type Damage struct {
	// Key is the key of the value in the store: its family and the rest in hexadecimal.
	Key string `json:"key"`
	// Event is the id of the event, if known.
	Event string `json:"event,omitempty"`
	// State is the state of the event (pending, running, done, dead), or unknown.
	State string `json:"state"`
	// Reason describes the damage.
	Reason string `json:"reason"`
}

// Sound reports whether the check found no problem.
func (r *Report) Sound() bool {
	return len(r.Damaged) == 0 && r.Tables == "" && r.Missing == "" && !r.Lost && r.HighWaterUnknown == ""
}

func (c *core) check(ctx context.Context, pause time.Duration) (r Report, err error) {
	if err := c.usable(); err != nil {
		return r, err
	}
	r.Format = c.options.formats.current
	// Before the database, which then cannot be behind.
	if r.HighWater, r.HighWaterUnknown, err = c.highWater.Read(); err != nil {
		return r, fmt.Errorf("high-water file: %w", err)
	}
	x := examination{report: &r, pause: pause, note: c.damage, found: map[string]Damage{}}
	err = c.view(func(txn *badger.Txn) error {
		if err := c.verify(); err != nil {
			r.Tables = err.Error()
		}
		return x.all(ctx, txn)
	})
	if err != nil {
		return r, err
	}
	c.damages.replace(x.found)
	return r, nil
}

// Check checks the store in dir, which no process may have open. It opens a cleanly closed store
// read-only; after a crash it recovers the logs first. Of o it uses the formats and the logger.
func Check(ctx context.Context, dir string, o Options) (r Report, err error) {
	s := newStore(dir, o)
	r.Damaged = []Damage{}
	if r.Format, err = s.existing(); err != nil {
		return r, err
	}
	finish, damage, err := s.openToRead()
	if err != nil || damage != nil {
		if damage != nil {
			r.Tables = damage.Error()
		}
		return r, err
	}
	defer func() { err = errors.Join(err, finish()) }()
	if r.HighWater, r.HighWaterUnknown, err = storedir.PeekHighWater(dir); err != nil {
		return r, err
	}
	x := examination{report: &r, note: func(error) {}, found: map[string]Damage{}}
	return r, s.db.View(func(txn *badger.Txn) error { return x.all(ctx, txn) })
}

// The background check pauses for checkPause after every checkStretch values.
const (
	checkStretch = 64
	checkPause   = 10 * time.Millisecond
)

// verify reads the file of every table and compares its checksums. Badger's own function reads
// its cache instead of the file, and panics on a block that does not decompress.
func (c *core) verify() error {
	listed := func(id uint64) bool {
		return slices.ContainsFunc(c.db.Tables(), func(t badger.TableInfo) bool { return t.ID == id })
	}
	o := c.db.Opts()
	for _, t := range c.db.Tables() {
		path := table.NewFilename(t.ID, c.dir)
		err := badgerfile.CheckTable(path, t.ID, table.Options{BlockSize: o.BlockSize, Compression: o.Compression})
		if err != nil && listed(t.ID) { // otherwise compaction has just deleted it
			return fmt.Errorf("table %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

func (c *core) checkValues() error {
	var wrong []error
	err := c.db.View(func(txn *badger.Txn) error {
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

type examination struct {
	report *Report
	pause  time.Duration
	note   func(error)
	found  map[string]Damage // by key
	seen   int
	census record.Census // of what can be read
	unread int           // entries that cannot be read
}

func (x *examination) all(ctx context.Context, txn *badger.Txn) (err error) {
	defer func() {
		if p := recover(); p != nil { // Badger panics on blocks that do not decode
			err = fmt.Errorf("the tables cannot be read: %v", p)
			if x.report.Tables != "" {
				err = nil // which is already reported
			}
		}
		x.finish()
	}()
	m, err := readMeta(txn)
	if err != nil {
		x.damaged(err, "", "")
	}
	x.report.Commit = m.Commit
	x.report.Lost = m.Commit < x.report.HighWater
	x.report.HighWaterUnknown = unknownFor(m, x.report.HighWaterUnknown)
	for item := range items(txn, keysOnly()) {
		if x.seen++; x.pause > 0 && x.seen%checkStretch == 0 {
			time.Sleep(x.pause)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		x.one(txn, item.KeyCopy(nil))
	}
	if x.census.Known = true; missing(m.Census, x.census, x.unread) {
		x.report.Missing = difference(m.Census, x.census)
	}
	return nil
}

func (x *examination) finish() {
	x.report.Damaged = slices.AppendSeq([]Damage{}, maps.Values(x.found))
	slices.SortFunc(x.report.Damaged, func(a, b Damage) int { return cmp.Compare(a.Key, b.Key) })
}

func (x *examination) one(txn *badger.Txn, key []byte) {
	if !record.KnownKey(key) {
		x.damaged(record.Damaged(key, "not a key of the store", nil), "", "")
		return
	}
	switch key[0] {
	case record.FamilyEvent:
		x.event(txn, record.PlaceOf(key))
	case record.FamilyOlder:
		x.report.Older++
		x.event(txn, record.PlaceOf(key))
	case record.FamilyState:
		x.state(txn, key)
	case record.FamilyAlias:
		x.alias(txn, key)
	case record.FamilyTrace:
		x.report.Remembered++
		_, err := readTrace(txn, key)
		x.damaged(err, "", "")
	case record.FamilyChunk:
		x.report.Pieces++
		_, err := readVerified(txn, key)
		x.damaged(err, "", "")
	}
}

func (x *examination) alias(txn *badger.Txn, key []byte) {
	x.report.Aliases++
	value, err := readVerified(txn, key)
	checksum := record.Checksum(value)
	if err != nil {
		x.damaged(err, "", "")
		x.unread++
		checksum = 0
	}
	x.census.Add(1, record.Mark(record.FamilyAlias, record.PlaceOf(key), checksum))
}

func (x *examination) event(txn *badger.Txn, p record.Place) {
	x.report.Records++
	r, err := readRow(txn, p)
	if r == nil { // damaged, as the key was just found
		x.unread++
		x.census.Add(1, (&row{place: p}).mark())
		event, state := x.known(txn, p)
		x.damaged(err, event, state)
		return
	}
	x.census.Add(1, r.mark())
	_, err = r.body(txn)
	x.damaged(err, r.rec.Event, r.rec.State().String())
	for i := range r.rec.Tasks {
		switch r.rec.Tasks[i].State {
		case dedup.Pending:
			x.report.Pending++
		case dedup.Running:
			x.report.Running++
		case dedup.Done:
			x.report.Done++
		case dedup.Dead:
			x.report.Dead++
		}
	}
}

// known returns the id and state of a damaged event, as far as they are known.
func (x *examination) known(txn *badger.Txn, p record.Place) (event, state string) {
	var rec dedup.Record
	key := p.Hash.Key(record.FamilyState)
	value, err := readValue(txn, key)
	if p.Older != 0 || err != nil || value == nil {
		return "", ""
	}
	if _, _, err := record.DecodeState(key, value, &rec); err != nil {
		return "", ""
	}
	return record.EventID(p.Hash, rec.Seq), rec.State().String()
}

// state looks for a state without its event, which no other check would notice.
func (x *examination) state(txn *badger.Txn, key []byte) {
	p := record.PlaceOf(key)
	value, err := readValue(txn, p.Key())
	if err != nil || value != nil {
		return // event reports on its state
	}
	event, state := x.known(txn, p)
	x.damaged(record.Damaged(key, "its event is missing", nil), event, state)
}

func (x *examination) damaged(err error, event, state string) {
	if err == nil {
		return
	}
	x.note(err)
	var d *DamagedError
	if !errors.As(err, &d) {
		d = &DamagedError{Key: "?", Reason: err.Error()}
	}
	reason := d.Reason
	if d.Err != nil {
		reason += ": " + d.Err.Error()
	}
	if old, known := x.found[d.Key]; !known || old.Event == "" {
		x.found[d.Key] = Damage{Key: d.Key, Event: event, State: cmp.Or(state, "unknown"), Reason: reason}
	}
}
