package kv

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
)

// checkpointer notes which part of the log is durable at rest. Badger's files become durable when
// a memory table is written as a table, so a checkpoint waits until every memory table is gone
// that existed when the position was at rest.
type checkpointer struct {
	db   *DB
	mu   sync.Mutex // one checkpoint at a time
	last Checkpoint
	wake chan struct{}
	// reached receives when the log has continued in another segment.
	reached chan struct{}
	work    Work // with files
}

func newCheckpointer(d *DB, last Checkpoint) *checkpointer {
	return &checkpointer{db: d, last: last, wake: make(chan struct{}, 1), reached: make(chan struct{}, 1)}
}

// request asks for a checkpoint soon.
func (c *checkpointer) request() { notify(c.wake) }

func (c *checkpointer) loop() {
	for {
		select {
		case <-c.db.quit:
			return
		case <-c.reached:
			c.noteReached()
			continue
		case <-c.wake:
		}
		if err := c.run(); isExhausted(err) {
			time.AfterFunc(passAgain, c.request)
		} else if err != nil {
			return
		}
	}
}

// noteReached writes the checkpoint again with the segment that the log has reached. Without space
// or descriptors the next segment is noted, or the next checkpoint notes it. The commit that needs
// a checkpoint notices a hang.
func (c *checkpointer) noteReached() {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.last
	if next.Reached = c.db.log.End().Segment; next.Reached <= c.last.Reached || c.db.failed() != nil {
		return
	}
	switch err := c.db.spare.open(func() error { return WriteCheckpoint(c.db.dir, next) }); {
	case err == nil:
		c.last = next
	case !storedir.IsNoSpace(err) && !isExhausted(err):
		c.db.fail("a checkpoint failed", err)
	}
}

// run makes a checkpoint of everything at rest. Any error is final, except that of a closing
// database and a lack of file descriptors.
func (c *checkpointer) run() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.db.failed(); err != nil {
		return err
	}
	c.db.spare.provide(spareOpens, 0)
	at, commit, err := c.pass()
	if err = cmp.Or(err, c.db.failed()); err == nil { // Badger continues after a failure
		err = c.write(at, commit)
	}
	if err == nil {
		err = c.db.log.Release(at)
	}
	if err != nil && !errors.Is(err, errClosing) && !isExhausted(err) {
		c.db.fail("a checkpoint failed", err)
	}
	return err
}

var errClosing = errors.New("the database is closing")

// Waiting for memory tables.
const (
	passPoll     = 2 * time.Millisecond
	passAgain    = 500 * time.Millisecond
	passPatience = time.Minute
)

// looks measures a lack of progress by the waits between two looks, not by the clock: that also
// counts a pause of the process, in which nothing can progress.
type looks struct{ waited time.Duration }

// next returns a channel that receives when the next look is due.
func (l *looks) next(wait time.Duration) <-chan time.Time {
	l.waited += wait
	return time.After(wait)
}

// pass waits until everything at rest now is in tables, and returns its end. That is so when the
// memory tables that existed before are gone, or a later one is: they go in order, but a reader
// keeps those that it began with. It may keep the next one too, so another one begins after a
// while.
func (c *checkpointer) pass() (at redolog.Position, commit uint64, err error) {
	commit, at = c.db.overlay.atRest()
	before, _, err := c.memTables(0)
	if c.discards() {
		oldest, _ := c.db.overlay.oldestView()
		c.db.Badger().SetDiscardTs(oldest)
	}
	last, looks, turned := before, looks{}, time.Duration(0)
	for err == nil {
		newest, passed, err := c.memTables(before)
		switch {
		case err != nil || passed:
			return at, commit, err
		case looks.waited > c.db.o.patience:
			return at, commit, errors.New("a memory table is not deleted")
		case newest == last:
			if err := c.fill(); err != nil {
				return at, commit, err
			}
			turned = looks.waited
			continue
		case looks.waited-turned > passAgain:
			last = newest
			continue
		}
		select {
		case <-c.db.quit:
			return at, commit, errClosing
		case <-looks.next(passPoll):
		}
	}
	return at, commit, err
}

// discards reports that compactions may drop deletions. Badger may merge new tables of level 0
// while it compacts the older ones: it drops deletions that those need, unless a lower level has a
// key in between. Once one has tables it has reachedKey, which every transaction of a changeset
// writes again.
func (c *checkpointer) discards() bool {
	return slices.ContainsFunc(c.db.Badger().Levels(), func(l badger.LevelInfo) bool {
		return l.Level > 0 && l.NumTables > 0
	})
}

// fill writes filler between two changesets, until Badger begins a new memory table.
func (c *checkpointer) fill() error {
	a := c.db.applier
	a.gate.Lock()
	defer a.gate.Unlock()
	return c.db.index.fill(max(1, c.db.overlay.visible), fillerSize(c.db.Badger().Opts().MemTableSize), fillerKey)
}

// memTables returns the number of the newest memory table, and whether all are gone that are not
// newer than one, or one that is newer.
func (c *checkpointer) memTables(than uint64) (newest uint64, passed bool, err error) {
	entries, err := openWith(c.db.spare, func() ([]os.DirEntry, error) { return os.ReadDir(c.db.indexDir()) })
	passed = true
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), memTableExt)
		n, err := strconv.ParseUint(digits, 10, 64)
		if !ok || err != nil {
			continue
		}
		newest = max(newest, n)
		passed = passed && n > than
	}
	// A table that began while the directory was read may be missing in it, but not a later one.
	for n := than + 1; n < newest && !passed && err == nil; n++ {
		_, statErr := os.Lstat(filepath.Join(c.db.indexDir(), fmt.Sprintf("%05d%s", n, memTableExt)))
		passed = errors.Is(statErr, fs.ErrNotExist)
	}
	return newest, newest > than && passed, err
}

const memTableExt = ".mem"

// write makes the files durable and notes the position. Each step follows only if the one before it
// succeeded: values, MANIFEST, the directory, and then the checkpoint. The summary, which may fail,
// is before the checkpoint.
func (c *checkpointer) write(at redolog.Position, commit uint64) error {
	c.work.Begin()
	defer c.work.End()
	values, err := c.db.index.values.Sync()
	if err != nil {
		return fmt.Errorf("value files: %w", err)
	}
	next := c.last
	next.Log, next.Commit = at, commit
	if c.db.log != nil {
		next.Reached = max(next.Reached, c.db.log.End().Segment)
	}
	next.Values, next.NextValue = values, max(next.NextValue, c.db.index.values.Active()+1)
	c.work.Begin()
	if next.Manifest, err = openWith(c.db.spare, c.db.manifest.Sync); err != nil {
		return fmt.Errorf("MANIFEST: %w", err)
	}
	c.work.Begin()
	if err := c.db.spare.open(func() error { return atomicfile.SyncDir(c.db.indexDir()) }); err != nil {
		return err
	}
	c.work.Begin()
	c.summarize(commit)
	c.work.Begin()
	if err := c.db.spare.open(func() error { return WriteCheckpoint(c.db.dir, next) }); err != nil {
		return err
	}
	c.last = next
	return nil
}

// summarize writes the summary. Without it the next start reads the database; the one before is
// then older than the checkpoint, or still right.
func (c *checkpointer) summarize(at uint64) {
	commit, content := c.db.o.Summary.Save(at)
	if content == nil {
		return
	}
	err := c.db.spare.open(func() error { return WriteSummary(c.db.dir, c.last.Store, commit, content) })
	if err != nil {
		c.db.o.Logger.Warn("the summary for the next start could not be written", "dir", c.db.dir, "error", err)
	}
}
