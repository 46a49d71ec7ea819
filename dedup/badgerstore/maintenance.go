package badgerstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
)

// maintenance deletes records whose window has ended, reclaims their space, and looks for damage.
type maintenance struct {
	*core
	evicting sync.Once // logs that more keys should be remembered than Max allows
}

// run sweeps and reclaims until the store is closed.
func (m *maintenance) run() {
	m.restrictFiles()
	readahead := badgerfile.NewReadahead(m.dir)
	readahead.DisableNew()
	m.warn("reclaim", m.reclaimAtStart())
	tick := time.NewTicker(m.options.rhythm.look)
	defer tick.Stop()
	swept, pruned := time.Now(), time.Time{}
	for {
		select {
		case <-m.quit:
			return
		case <-m.stopped:
			return
		case <-m.grown:
			readahead.DisableNew()
			continue
		case <-tick.C:
		}
		m.warn("time", m.noteTime())
		if low := m.disk.state().low(); low || time.Since(swept) >= m.options.rhythm.sweep {
			swept = time.Now()
			m.restrictFiles()
			m.warn("sweep", m.sweep(m.options.rhythm.slack))
			m.warn("reclaim", m.reclaimWhenDue(low))
			if time.Since(pruned) >= m.options.rhythm.prune {
				pruned = time.Now()
				m.warn("prune", m.prune())
			}
		}
	}
}

// reclaimAtStart reclaims what earlier processes left: one that never runs long would not.
func (m *maintenance) reclaimAtStart() error {
	if worth, err := m.wasteful(m.db.Opts().ValueLogFileSize); !worth || err != nil {
		return err
	}
	return m.reclaim()
}

// reclaimWhenDue reclaims when enough was deleted, after a day, or anything when the disk is low.
func (m *maintenance) reclaimWhenDue(low bool) error {
	passed := m.now().Sub(time.Unix(0, m.reclaimed.Load()))
	removed := m.removed.Load()
	one := m.db.Opts().ValueLogFileSize
	due := passed >= m.options.rhythm.flatten || passed < 0
	var err error
	switch {
	case due:
	case low && passed >= m.options.rhythm.sweep:
		due, err = m.wasteful(0)
	case passed >= m.options.rhythm.reclaim && removed >= one:
		due, err = m.wasteful(one)
	}
	if !due || err != nil {
		return err
	}
	return m.reclaim()
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

func (m *maintenance) keepChecking() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-m.quit:
		case <-m.stopped:
		case <-ctx.Done():
		}
		cancel()
	}()
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
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm() != 0o600 {
			_ = os.Chmod(filepath.Join(m.dir, e.Name()), 0o600)
		}
	}
}
