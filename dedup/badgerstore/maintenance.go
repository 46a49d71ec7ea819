package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// maintenance deletes records whose window has ended, reclaims their space, and looks for damage.
type maintenance struct {
	*core
	evicting   sync.Once  // logs that more keys should be remembered than Max allows
	reclaiming sync.Mutex // held while space is reclaimed
}

// run sweeps and reclaims until the store is closed.
func (m *maintenance) run(ctx context.Context) {
	m.restrictFiles()
	m.warn("reclaim", m.reclaimAtStart(ctx))
	tick := time.NewTicker(m.options.rhythm.look)
	defer tick.Stop()
	swept, pruned := time.Now(), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.warn("time", m.noteTime())
		if low := m.disk.state().low(); low || time.Since(swept) >= m.options.rhythm.sweep {
			swept = time.Now()
			m.restrictFiles()
			m.warn("sweep", m.sweep(m.options.rhythm.slack))
			m.warn("reclaim", m.reclaimWhenDue(ctx, low))
			if time.Since(pruned) >= m.options.rhythm.prune {
				pruned = time.Now()
				m.warn("prune", errors.Join(m.prune(), m.forgetFences(ctx, dedup.FenceMax)))
			}
		}
	}
}

// idleMost is the longest time without a commit: a start would mistake a quiet weekend for a clock
// that jumped.
const idleMost = time.Hour

type timeOp struct{ ticket }

func (o *timeOp) apply(b *batch) error {
	b.always = b.always || b.now.Sub(b.c.meta.Wall) >= idleMost && !b.disk.frozen()
	return nil
}

// noteTime keeps the last commit less than an hour old.
func (m *maintenance) noteTime() error { return m.submit(&timeOp{newTicket(false)}) }

// restrictFiles makes every file 0600. The directory is 0700 already.
func (m *maintenance) restrictFiles() {
	_ = filepath.WalkDir(m.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // it is gone
		}
		if info, err := e.Info(); err == nil && info.Mode().Perm() != 0o600 {
			_ = os.Chmod(path, 0o600)
		}
		return nil
	})
}

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
	if err := m.checkReclaimSpace(kv.MostCompacted * m.disk.memTable); err != nil {
		return err
	}
	removed := m.removed.Load()
	if removed > 0 {
		whole := m.checkReclaimSpace(math.MaxInt64) == nil
		kept, err := m.db.Compact(ctx, whole)
		if err != nil {
			return err
		}
		if kept {
			removed = 0 // some of it is left to do
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
	return m.submit(&reclaimedOp{newTicket(false), removed})
}

// checkReclaimSpace returns why there is not enough space to reclaim: it first needs space for
// two memory tables, a value file, and the tables, at most some bytes of them, that the largest
// compaction rewrites before the old ones go: those of level 0 and of the next level.
func (m *maintenance) checkReclaimSpace(most int64) error {
	tables := min(m.meter.usage().tables, most)
	need := m.disk.state().hard + 2*m.disk.memTable + m.options.valueFile + tables
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
	for i := range o.values {
		if v := &o.values[i]; v.Unchanged() {
			b.moved = append(b.moved, v.Entry)
		}
	}
	return nil
}

// reclaimedOp notes that what had been removed by then is reclaimed.
type reclaimedOp struct {
	ticket
	removed int64
}

func (o *reclaimedOp) apply(b *batch) error {
	if b.disk.frozen() {
		return b.disk.err()
	}
	b.always, b.reclaimed, b.removed = true, b.now, b.removed-o.removed
	return nil
}
