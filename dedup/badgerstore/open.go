package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Open opens the store in dir, and creates it if it does not exist. It recovers from a crash: tasks
// that were running have used up that attempt and wait for the next one, and held claims are free.
//
// It refuses a directory that another process uses, another format (see [FormatError]), a damaged
// store, one that lost acknowledged commits (see AcceptLoss), one whose last commit is later than
// the clock (see AcceptClock), and a full disk. A refused store keeps its content. The store must
// be closed.
func Open(dir string, o Options) (*Store, error) {
	if dir == "" {
		return nil, errors.New("store has no directory: name one")
	}
	s := newStore(dir, o)
	c, err := s.open()
	if err != nil {
		return nil, err
	}
	go c.run()
	s.heart.follow(c.db)
	go s.watch()
	ctx, quit := context.WithCancel(context.Background())
	s.quit = quit
	s.background.Go(func() { s.maintenance.run(ctx) })
	s.background.Go(func() { s.maintenance.keepChecking(ctx) })
	return s, nil
}

func newStore(dir string, o Options) *Store {
	o = o.withDefaults()
	c := &core{
		dir: dir, options: o, log: o.Logger, clock: o.Clock, opened: o.Clock.Now(),
		queue: newQueue(), large: semaphore.NewWeighted(largeBytes), heart: newHeartbeat(o.now), meter: meter{dir: dir},
		backlog: &backlog{maxBytes: o.MaxBacklogBytes, maxRecords: o.MaxBacklogRecords},
		damages: damageLog{keys: map[string]struct{}{}}, summary: &summarizer{},
		failed: make(chan struct{}), stopped: make(chan struct{}), ended: make(chan struct{}), quit: func() {},
	}
	return &Store{core: c, maintenance: &maintenance{core: c}}
}

// open opens the files and returns the committer, ready to run.
func (c *core) open() (w *committer, err error) {
	if err := makeDir(c.dir); err != nil {
		return nil, err
	}
	if c.lock, err = storedir.LockDir(c.dir); err != nil {
		return nil, err
	}
	if w, err = c.openLocked(); err != nil {
		return nil, errors.Join(err, c.lock.Release())
	}
	return w, nil
}

// openLocked opens the store in a locked directory. A refused store keeps its content.
func (c *core) openLocked() (w *committer, err error) {
	c.disk = &disk{
		dir: c.dir, statfs: c.options.statfs, minFree: c.options.MinFree,
		memTable: cmp.Or(c.options.memTable, memTable), size: func() int64 { return c.meter.usage().all },
		probe: c.lock.Probe,
	}
	if d := c.disk.look(); d.frozen() {
		return nil, fmt.Errorf("store %s cannot be opened: %w", c.dir, d.err())
	}
	if _, err := storedir.ReadFormat(c.dir); errors.Is(err, fs.ErrNotExist) { // before anything of a new store
		if err := storedir.WriteFormat(c.dir, formatVersion); err != nil {
			return nil, err
		}
	}
	if err := c.existing(); err != nil {
		return nil, err
	}
	if !kv.Exists(c.dir) {
		if err := kv.Create(c.dir); err != nil {
			return nil, fmt.Errorf("store %s cannot be created: %w", c.dir, err)
		}
	}
	if c.db, err = kv.Open(c.dir, c.kvOptions()); err != nil {
		return nil, c.cannotOpen(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.db.Close())
		}
	}()
	v := &recovery{committer: newCommitter(c)}
	if err := v.check(); err != nil {
		return nil, err
	}
	if err := v.run(); err != nil {
		return nil, err
	}
	c.summary.follow(v.summarize)
	return v.committer, nil
}

func (c *core) cannotOpen(err error) error {
	switch {
	case errors.As(err, new(*redolog.DamagedError)):
		return fmt.Errorf("store %s lost acknowledged data: %w; %s", c.dir, err, restoreOrAccept)
	case kv.IsDamage(err):
		return fmt.Errorf("store %s: %w; restore a backup", c.dir, err)
	}
	return fmt.Errorf("store %s cannot be opened: %w", c.dir, err)
}

// The redo log has 16 segments of 16 MiB, and at least 4: less than a sixteenth of the file system.
const (
	segmentSize   = 16 << 20
	segmentsMost  = 16
	segmentsLeast = 4
)

// segments returns the number of segments of the log.
func (c *core) segments() int {
	_, total, err := c.options.statfs(c.dir)
	if err != nil {
		return segmentsMost
	}
	return int(min(segmentsMost, max(segmentsLeast, total/16/segmentSize)))
}

func (c *core) kvOptions() kv.Options {
	o := c.options
	return kv.Options{
		Probe:  c.lock.Probe,
		Logger: o.Logger, Fail: func(reason string, err error) { _ = c.fail(reason, err) }, AcceptLoss: o.AcceptLoss,
		Summary:  c.summary,
		MemTable: o.memTable, Segment: o.segment, ValueFile: o.valueFile, BlockCache: o.blockCache,
		Segments: c.segments(),
		Flush: func(l *redolog.Log) error {
			c.options.step(stepFlush)
			return c.options.flush(l)
		},
	}
}

// makeDir creates the directory and checks that it is writable. It refuses one with other files,
// because the store removes the permissions of other users.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store directory %s cannot be created: %w; choose another one", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("store directory %s cannot be read: %w; choose another one", dir, err)
	}
	if name := foreign(entries); name == storedir.RestoreFailedFile {
		return fmt.Errorf("a restore into directory %s failed; restore again, or remove the file %s for a new store",
			dir, name)
	} else if name != "" {
		return fmt.Errorf("directory %s is not a store and not empty (%s): use an empty directory, or one that "+
			"does not exist", dir, name)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("store directory %s belongs to another user: %w; choose another one", dir, err)
	}
	f, err := os.CreateTemp(dir, storedir.TempPrefix+"*")
	if err != nil {
		return fmt.Errorf("store directory %s is not writable: %w; make it writable for this user, or choose "+
			"another one", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// foreign returns the name of a file in a directory without a store, empty if there is none.
func foreign(entries []os.DirEntry) (name string) {
	for _, e := range entries {
		switch {
		case e.Name() == storedir.FormatFile:
			return ""
		case e.Name() != "lost+found" && !strings.HasPrefix(e.Name(), storedir.TempPrefix):
			name = e.Name()
		}
	}
	return name
}

// existing checks that the store exists and has the format of this program.
func (c *core) existing() error {
	version, err := storedir.ReadFormat(c.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no store in %s; use the directory of one", c.dir)
	case err == nil && version != formatVersion:
		return &FormatError{Dir: c.dir, Format: version, Known: formatVersion}
	}
	return err
}

// readOnly calls read with a store that is not in use.
func (c *core) readOnly(read func(in *kv.View) error) (err error) {
	if err := c.existing(); err != nil {
		return err
	}
	if c.lock, err = storedir.LockDir(c.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.lock.Release()) }()
	if c.db, err = kv.Open(c.dir, c.kvOptions()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.db.Close()) }()
	return c.db.View(read)
}

// formatVersion is the version of the directory format: keys, values, and the version of Badger.
const formatVersion = 10

// FormatError reports a store of another format than the one that this program reads and writes.
// The directory was not changed.
type FormatError struct {
	// Dir is the directory of the store.
	Dir string
	// Format is the format of the store, Known the only one that this program opens.
	Format, Known int
}

// Error names both formats and the program that opens the store.
func (e *FormatError) Error() string {
	return fmt.Sprintf("store %s has format %d, and this version reads only format %d (nothing was changed); use "+
		"the version that wrote it", e.Dir, e.Format, e.Known)
}
