package badgerstore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// Export calls use with the content of the store in dir, which no process may have open, to copy it
// into a store of another kind. Nothing is written, except that after a crash the redo log is
// applied first, as by [Check].
//
// It refuses a store that Check finds damaged or incomplete, one of another format, and one whose
// last commit is later than the clock ([Options.AcceptClock]). Of the other options it uses the
// logger and the clock.
func Export(ctx context.Context, dir string, o Options, use func(*dedup.Source) error) error {
	c := newStore(dir, o).core
	err := c.readOnly(func(in *kv.View) error {
		from, err := (&exporter{core: c, in: in}).source(ctx)
		if err != nil {
			return err
		}
		return use(from)
	})
	if kv.IsDamage(err) {
		return c.cannotOpen(err)
	}
	return err
}

// exporter reads what a transaction sees.
type exporter struct {
	*core
	in   *kv.View
	meta record.Meta
}

// source checks the store and returns its content.
func (x *exporter) source(ctx context.Context) (*dedup.Source, error) {
	var r Report
	all := examination{core: x.core, report: &r, log: func(error) {}, found: map[string]Damage{}}
	if err := all.all(ctx, x.in); err != nil {
		return nil, err
	}
	if !r.Sound() {
		return nil, fmt.Errorf("store %s is damaged or incomplete; run `eyelet store check --dir %[1]s`", x.dir)
	}
	var err error
	if x.meta, err = readMeta(x.in); err != nil {
		return nil, fmt.Errorf("store %s: %w", x.dir, err)
	}
	if err := checkClock(x.core, x.meta); err != nil {
		return nil, err
	}
	m := &x.meta
	return &dedup.Source{
		Events: r.Records, Seq: m.Seq, Token: m.Token,
		Since: dedup.Day(m.Since), Evicted: dedup.Day(m.Evicted), //nolint:gosec // days
		Items: x.items,
	}, nil
}

// items yields the events, the older generations, the traces and the notes, in the order of their
// keys.
func (x *exporter) items(ctx context.Context) iter.Seq2[dedup.Item, error] {
	return func(yield func(dedup.Item, error) bool) {
		at := x.now()
		x.gaps, _ = gaps(x.meta.Gaps).at(at, x.meta.Wall, max(x.meta.Window, dedup.DefaultWindow))
		for it := range x.in.Items([]byte{record.FamilyEvent}) {
			if family := it.Key()[0]; family > record.FamilyTrace {
				return
			} else if family == record.FamilyMeta {
				continue
			}
			item, err := x.item(it.KeyCopy(), at)
			if err == nil {
				err = ctx.Err()
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

func (x *exporter) item(key []byte, at time.Time) (item dedup.Item, err error) {
	if key[0] == record.FamilyNote {
		item.Note, err = readNote(x.in, record.Hash(key[1:]))
		return item, err
	}
	if key[0] == record.FamilyTrace {
		item.Hash = [16]byte(key[1:])
		item.Trace, err = readTrace(x.in, key)
		item.Trace.Day = x.remembered(item.Trace.Day, at)
		return item, err
	}
	p := record.PlaceOf(key)
	r, err := x.readRow(x.in, p)
	if err != nil {
		return item, err
	}
	if item.Record, err = r.whole(x.in, true); err != nil {
		return item, err
	}
	rec := &item.Record
	if r.event.Kind == record.BodyLost && rec.Unaccepted() {
		return item, fmt.Errorf("the payload of the held claim %s was lost to damage: the store must stay in use "+
			"until its producer delivered it again, or its window ended", rec.Event)
	}
	if r.event.Size == 0 && r.event.Kind == record.BodyInline {
		rec.Payload.Body = []byte{}
	}
	for i := range rec.Tasks {
		rec.Recover(i, at, 0)
	}
	item.Older = p.Older != 0
	for _, name := range rec.Aliases {
		owned, err := owns(x.in, record.Alias{Hash: p.Hash, Seq: rec.Seq}, r.name, name)
		if err != nil {
			return item, err
		}
		if owned && !slices.Contains(item.Names, name) {
			item.Names = append(item.Names, name)
		}
	}
	return item, nil
}

// remembered returns the day of a trace as it is for a store without gaps, for which days that do
// not count are over as well.
func (x *exporter) remembered(day dedup.Day, at time.Time) dedup.Day {
	return min(dedup.DayOf(day.Start().Add(x.gaps.all()+24*time.Hour-1)), max(day, dedup.DayOf(at)))
}
