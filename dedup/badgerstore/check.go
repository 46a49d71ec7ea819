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
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
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
	// Aliases counts aliases, Bodies the bodies of more than 512 KiB.
	Aliases int64 `json:"aliases"`
	Bodies  int64 `json:"bodies"`
	// Remembered counts the keys remembered beyond their windows, expired days included.
	Remembered int64 `json:"remembered"`
	// Commit is the number of the last commit.
	Commit uint64 `json:"commit"`
	// Missing describes how the store differs from what its last commit counted, which Open
	// refuses. It is empty if it does not, or if nothing was counted yet.
	Missing string `json:"missing,omitempty"`
	// Tables names a damaged or missing file: a table, MANIFEST, the checkpoint, a segment of the
	// redo log or a value file. It is empty if there is none; else [Check] reads nothing more. A
	// damaged value in a value file is one of Damaged.
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
	return len(r.Damaged) == 0 && r.Tables == "" && r.Missing == ""
}

func (c *core) check(ctx context.Context, pause time.Duration) (r Report, err error) {
	if err := c.usable(); err != nil {
		return r, err
	}
	r.Format = formatVersion
	x := examination{core: c, report: &r, pause: pause, log: c.damage, found: map[string]Damage{}}
	err = c.view(func(in *kv.View) error {
		if err := c.verify(); err != nil {
			r.Tables = err.Error()
		}
		return x.all(ctx, in)
	})
	if err != nil {
		return r, err
	}
	c.damages.replace(maps.Keys(x.found))
	return r, nil
}

// Check checks the store in dir, which no process may have open. After a crash it first applies the
// redo log, which leaves what closing the store would have left. Of o it uses the logger.
func Check(ctx context.Context, dir string, o Options) (r Report, err error) {
	s := newStore(dir, o)
	r.Format, r.Damaged = formatVersion, []Damage{}
	x := examination{core: s.core, report: &r, log: func(error) {}, found: map[string]Damage{}}
	err = s.readOnly(func(in *kv.View) error { return x.all(ctx, in) })
	if kv.IsDamage(err) {
		r.Tables, err = err.Error(), nil
	}
	return r, err
}

// The background check pauses for checkPause after every checkStretch values.
const (
	checkStretch = 64
	checkPause   = 10 * time.Millisecond
)

func (m *maintenance) keepChecking(ctx context.Context) {
	tick := time.NewTicker(m.options.rhythm.check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.checkQuietly(ctx)
	}
}

func (m *maintenance) checkQuietly(ctx context.Context) {
	began := time.Now()
	r, err := m.check(ctx, checkPause)
	if err != nil {
		if ctx.Err() == nil {
			m.warn("check", err)
		}
		return
	}
	if damage := cmp.Or(r.Tables, r.Missing); damage != "" && m.corrupt.Load() == nil {
		m.log.Error("store is damaged", "dir", m.dir, "error", damage)
		why := errors.New(damage)
		m.corrupt.Store(&dedup.ErrUnavailable{Reason: "the store is damaged: restore a backup", Err: why})
	}
	m.log.Info("store checked", "dir", m.dir, "records", r.Records, "damaged", len(r.Damaged),
		"took", time.Since(began).Round(time.Millisecond))
}

// verify reads the file of every table and compares its checksums. Badger's own function reads
// its cache instead of the file, and panics on a block that does not decompress.
func (c *core) verify() error {
	listed := func(id uint64) bool {
		return slices.ContainsFunc(c.db.Badger().Tables(), func(t badger.TableInfo) bool { return t.ID == id })
	}
	dir := filepath.Join(c.dir, kv.IndexDir)
	tables, err := badgerfile.Tables(dir, c.db.Badger().Opts())
	if err != nil {
		return err
	}
	for id, o := range tables {
		path := table.NewFilename(id, dir)
		err := badgerfile.CheckTable(path, id, o)
		if err != nil && listed(id) { // otherwise compaction has just deleted it
			return fmt.Errorf("table %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

type examination struct {
	*core
	report *Report
	pause  time.Duration
	log    func(damage error)
	found  map[string]Damage // by key
	seen   int
	census record.Census // of what can be read
	unread int           // entries that cannot be read
}

func (x *examination) all(ctx context.Context, in *kv.View) (err error) {
	defer func() {
		if p := recover(); p != nil { // Badger panics on blocks that do not decode
			err = fmt.Errorf("the tables cannot be read: %v", p)
			if x.report.Tables != "" {
				err = nil // which is already reported
			}
		}
		x.finish()
	}()
	m, err := readMeta(in)
	if err != nil {
		x.damaged(err, "", "")
	}
	x.report.Commit = m.Commit
	for item := range in.Items(nil) {
		if x.seen++; x.pause > 0 && x.seen%checkStretch == 0 {
			time.Sleep(x.pause)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		x.one(in, item.KeyCopy())
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

func (x *examination) one(in source, key []byte) {
	if !record.KnownKey(key) {
		x.damaged(record.Damaged(key, "not a key of the store", nil), "", "")
		return
	}
	switch key[0] {
	case record.FamilyEvent:
		x.event(in, record.PlaceOf(key))
	case record.FamilyOlder:
		x.report.Older++
		x.event(in, record.PlaceOf(key))
	case record.FamilyAlias:
		x.alias(in, key)
	case record.FamilyTrace:
		x.report.Remembered++
		_, err := readTrace(in, key)
		x.damaged(err, "", "")
	case record.FamilyNote:
		_, err := readNote(in, record.Hash(key[1:]))
		x.damaged(err, "", "")
	case record.FamilyBody:
		x.report.Bodies++ // each event reads its own
	}
}

func (x *examination) alias(in source, key []byte) {
	x.report.Aliases++
	a, err := readAlias(in, record.Hash(key[1:]))
	if err != nil {
		x.damaged(err, "", "")
		x.unread++
		a.checksum = record.Checksum(nil)
	}
	x.census.Add(1, record.Digest(record.FamilyAlias, record.PlaceOf(key), a.checksum))
}

func (x *examination) event(in source, p record.Place) {
	x.report.Records++
	value, content, broken := in.Read(p.Key())
	r, err := x.stateRow(p.Key(), value)
	if err != nil {
		if value == nil {
			err = cmp.Or(unreadable(p.Key(), broken), err)
		}
		x.unread++
		x.census.Add(1, (&row{place: p}).digest())
		x.damaged(err, "", "")
		return
	}
	if err = r.load(content, broken); err == nil {
		_, err = r.body(in)
	}
	x.damaged(err, record.EventID(p.Hash, r.rec.Seq), r.rec.State().String())
	t := r.tally()
	x.census.Add(1, t.sum)
	x.report.Pending += t.Pending
	x.report.Running += t.Running
	x.report.Dead += t.Dead
	x.report.Done += int64(len(r.rec.Tasks)) - t.Pending - t.Running - t.Dead
}

func (x *examination) damaged(err error, event, state string) {
	if err == nil {
		return
	}
	x.log(err)
	d, ok := errors.AsType[*DamagedError](err)
	if !ok {
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
