package badgerstore

import (
	"context"
	"fmt"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// reclaimAtStart reclaims what earlier processes left: one that never runs long would not.
func (m *maintenance) reclaimAtStart(ctx context.Context) error {
	if m.removed.Load() < m.options.valueFile {
		return nil
	}
	return m.reclaimBeyond(ctx, m.options.valueFile)
}

// reclaimWhenDue reclaims when enough was deleted, after a day, or anything when the disk is low.
func (m *maintenance) reclaimWhenDue(ctx context.Context, low bool) error {
	passed := m.now().Sub(time.Unix(0, m.reclaimed.Load()))
	one := m.options.valueFile
	beyond := one
	switch {
	case passed >= m.options.rhythm.flatten || passed < 0:
		return m.reclaim(ctx)
	case low && passed >= m.options.rhythm.sweep:
		beyond = 0
	case passed < m.options.rhythm.reclaim || m.removed.Load() < one:
		return nil
	}
	return m.reclaimBeyond(ctx, beyond)
}

func (m *maintenance) reclaimBeyond(ctx context.Context, waste int64) error {
	if n, err := m.db.Waste(ctx); err != nil || n <= waste {
		return err
	}
	return m.reclaim(ctx)
}

// reclaim gives disk space back: tables without what was deleted, and value files that are mostly
// deleted.
func (m *maintenance) reclaim(ctx context.Context) error {
	m.reclaiming.Lock()
	defer m.reclaiming.Unlock()
	if err := m.checkReclaimSpace(); err != nil {
		return err
	}
	if m.removed.Load() > 0 {
		if err := m.db.Compact(ctx); err != nil {
			return err
		}
	}
	err := m.db.Reclaim(ctx, func(values []kv.Stored) error {
		o := &moveOp{ticket: newTicket(false), values: values}
		for _, v := range values {
			o.bytes += len(v.Key) + len(v.Value)
		}
		return m.submit(o)
	}, func(key []byte, err error) { m.damage(record.Damaged(key, "it cannot be read", err)) })
	if err != nil {
		return err
	}
	m.meter.forget()
	return m.submit(&reclaimedOp{newTicket(false)})
}

// checkReclaimSpace returns why there is not enough space to reclaim: it first needs space for
// two memory tables, a value file, and tables that are rewritten before the old ones go.
func (m *maintenance) checkReclaimSpace() error {
	need := m.disk.state().hard + 2*m.disk.memTable + m.options.valueFile + m.meter.usage().tables
	if free := m.disk.state().free; free >= 0 && free < need {
		return fmt.Errorf("reclaiming space needs %s, and %s are free", mib(need), mib(free))
	}
	return nil
}

// moveOp writes values again that are in value files with little else, unless they have changed.
type moveOp struct {
	ticket
	values []kv.Stored
}

func (o *moveOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err() // it needs space before it frees some
	}
	var moved []mutation
	for _, v := range o.values {
		same, err := b.c.db.Unchanged(v)
		if err != nil {
			return err
		}
		if same {
			moved = append(moved, v.Entry)
		}
	}
	b.moved = append(b.moved, moved...)
	return nil
}

type reclaimedOp struct{ ticket }

func (o *reclaimedOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	b.always, b.reclaimed = true, b.now
	return nil
}
