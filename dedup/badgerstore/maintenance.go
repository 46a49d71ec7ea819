package badgerstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// maintenance deletes records whose window has ended, reclaims their space, and looks for damage.
type maintenance struct {
	*core
	evicting   sync.Once  // logs that more keys should be remembered than Max allows
	reclaiming sync.Mutex // held while space is reclaimed
}

// run sweeps and reclaims until the store is closed.
func (m *maintenance) run() {
	ctx, cancel := m.lifetime()
	defer cancel()
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
				m.warn("prune", m.prune())
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

// lifetime returns a context that ends when the store is closed. Call cancel at the end.
func (m *maintenance) lifetime() (ctx context.Context, cancel func()) {
	ctx, cancel = context.WithCancel(context.Background())
	go func() {
		select {
		case <-m.quit:
		case <-m.stopped:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, cancel
}

func (m *maintenance) keepChecking() {
	ctx, cancel := m.lifetime()
	defer cancel()
	tick := time.NewTicker(m.options.CheckEvery)
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
	if r.Tables != "" && m.corrupt.Load() == nil {
		m.log.Error("store is damaged", "dir", m.dir, "error", r.Tables)
		why := errors.New(r.Tables)
		m.corrupt.Store(&dedup.ErrUnavailable{Reason: "the store is damaged: restore a backup", Err: why})
	}
	m.log.Info("store checked", "dir", m.dir, "records", r.Records, "damaged", len(r.Damaged),
		"took", time.Since(began).Round(time.Millisecond))
}

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
