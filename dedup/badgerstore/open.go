package badgerstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/dgraph-io/badger/v4"
	badgeroptions "github.com/dgraph-io/badger/v4/options"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Open opens the store in dir, and creates it if it does not exist. It recovers from a crash: tasks
// that were running have used up that attempt and wait for the next one, and held claims are free.
//
// It refuses a directory that another process uses, a newer format, a store that lost acknowledged
// commits (see AcceptLoss), a store whose last commit is later than the clock (see AcceptClock),
// and a full disk. A refused store is left unchanged. The store must be closed.
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
	go s.heart.watch(s.core)
	s.background.Go(s.maintenance.run)
	if o.CheckEvery >= 0 {
		s.background.Go(s.maintenance.keepChecking)
	}
	return s, nil
}

func newStore(dir string, o Options) *Store {
	o = o.withDefaults()
	fds := &spare{}
	c := &core{
		dir: dir, options: o, log: o.Logger, clock: o.Clock, logger: &logger{slog: o.Logger, spare: fds},
		queue: newQueue(), heart: newHeartbeat(o.now), meter: meter{dir: dir}, spare: fds,
		backlog: &backlog{maxBytes: o.MaxBacklogBytes, maxRecords: o.MaxBacklogRecords},
		damages: damageLog{keys: map[string]struct{}{}},
		failed:  make(chan struct{}), stopped: make(chan struct{}), quit: make(chan struct{}),
		ended: make(chan struct{}), grown: make(chan struct{}, 1),
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

// openLocked opens the store in a locked directory. It restores the files if it refuses the store.
func (c *core) openLocked() (w *committer, err error) {
	if err := c.options.formats.check(c.dir); err != nil {
		return nil, err
	}
	options := c.badgerOptions()
	c.disk = &disk{
		dir: c.dir, statfs: c.options.statfs, minFree: c.options.MinFree, memTable: options.MemTableSize,
		size: func() int64 { return c.meter.usage().all },
	}
	if d := c.disk.look(); d.frozen() {
		return nil, fmt.Errorf("store %s cannot be opened: %w", c.dir, d.err())
	}
	defer func() {
		if err == nil {
			return
		}
		if c.db != nil {
			err = errors.Join(err, c.db.Close())
			c.spare.release(spareFiles)
		}
		if c.highWater != nil {
			err = errors.Join(err, c.highWater.File.Close())
		}
		err = errors.Join(err, c.undo())
	}()
	if err := c.prepare(options); err != nil {
		return nil, err
	}
	if c.db, err = openBadger(c.dir, options, c.logger); err != nil {
		return nil, err
	}
	if c.options.CheckOnOpen {
		if err := c.checkValues(); err != nil {
			return nil, fmt.Errorf("store %s is damaged: %w; restore a backup, or open it without the check",
				c.dir, err)
		}
	}
	v := &recovery{committer: newCommitter(c)}
	if err := v.check(); err != nil {
		return nil, err
	}
	if err := storedir.ConfirmStart(c.dir); err != nil {
		return nil, fmt.Errorf("store %s: %w", c.dir, err)
	}
	return v.committer, v.run()
}

func (c *core) prepare(o badger.Options) error {
	if err := storedir.UndoStart(c.dir); err != nil {
		return fmt.Errorf("store %s: the files of an interrupted start cannot be restored: %w", c.dir, err)
	}
	unnamed, err := badgerfile.CheckTables(c.dir, o)
	if err != nil {
		return fmt.Errorf("store %s is damaged: %w; restore a backup", c.dir, err)
	}
	inOrder, err := storedir.ClosedCleanly(c.dir)
	if err == nil && inOrder && len(unnamed) == 0 {
		c.before, err = storedir.BadgerFiles(c.dir)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", c.dir, err)
	}
	if c.before == nil {
		if err := c.keepBefore(unnamed); err != nil {
			return err
		}
	}
	return c.repairValueLog()
}

func (c *core) keepBefore(unnamed []string) error {
	if err := storedir.KeepBefore(c.dir, unnamed); err != nil {
		return fmt.Errorf("store %s: its newest logs cannot be copied before it is opened, which needs as much "+
			"space as they take: %w", c.dir, err)
	}
	if len(unnamed) > 0 {
		c.log.Info("tables that MANIFEST does not list are left out", "dir", c.dir, "tables", unnamed)
	}
	return nil
}

// undo restores the files that existed before the start and deletes the new ones.
func (c *core) undo() error {
	if c.before != nil { // Badger has created empty logs, and nothing else that matters
		return storedir.RemoveUnlisted(c.dir, c.before, ".mem", ".vlog")
	}
	return storedir.UndoStart(c.dir)
}

// repairValueLog prevents Badger from truncating a value log that is damaged in its middle.
func (c *core) repairValueLog() error {
	n, err := badgerfile.RepairValueLog(c.dir, record.ChunkKeySize)
	var cut *badgerfile.LostValuesError
	switch {
	case errors.As(err, &cut) && c.options.AcceptLoss:
		c.log.Warn("opened with lost values (accept-loss)", "dir", c.dir, "error", err)
		return nil
	case err != nil:
		return fmt.Errorf("store %s: %w", c.dir, err)
	case n > 0:
		c.log.Error("value log is damaged; its other values are kept", "dir", c.dir, "entries", n)
	}
	return nil
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
	if name := foreign(entries); name != "" {
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

func openBadger(dir string, o badger.Options, log *logger) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store %s is damaged: it cannot be opened: %v; restore a backup", dir, p)
		}
	}()
	db, err = badger.Open(o.WithBypassLockGuard(true)) // we have the lock
	if err != nil {
		return nil, fmt.Errorf("store %s cannot be opened: %w", dir, err)
	}
	if text := log.skipped.Load(); text != nil {
		return nil, errors.Join(fmt.Errorf("store %s is damaged: %s; restore a backup", dir, *text), db.Close())
	}
	return db, nil
}

// existing returns the format of the store, which must exist and have the current format.
func (c *core) existing() (int, error) {
	version, err := storedir.ReadFormat(c.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("there is no store in %s; use the directory of one", c.dir)
	case err == nil && version > c.options.formats.current:
		return version, &FormatError{Dir: c.dir, Format: version, Known: c.options.formats.current}
	case err == nil && version < c.options.formats.current:
		return version, fmt.Errorf("store %s has format %d: start the program with it once to upgrade it to "+
			"format %d", c.dir, version, c.options.formats.current)
	}
	return version, err
}

// openToRead opens the database of a store that is not in use, after a crash for writing. finish
// closes it and restores the files. damage is that of the tables; then nothing is open.
func (c *core) openToRead() (finish func() error, damage, err error) {
	if c.lock, err = storedir.LockDir(c.dir); err != nil {
		return nil, nil, err
	}
	finish = func() error {
		var closed error
		if c.db != nil {
			closed = c.db.Close()
		}
		return errors.Join(closed, storedir.UndoStart(c.dir), c.lock.Release())
	}
	if damage, err = c.openTables(); damage != nil || err != nil {
		return nil, damage, errors.Join(err, finish())
	}
	return finish, nil, nil
}

func (c *core) openTables() (damage, err error) {
	if err := storedir.UndoStart(c.dir); err != nil {
		return nil, err
	}
	o := c.badgerOptions()
	unnamed, damage := badgerfile.CheckTables(c.dir, o)
	if damage != nil {
		return damage, nil
	}
	inOrder, err := storedir.ClosedCleanly(c.dir)
	if err != nil {
		return nil, err
	}
	if inOrder = inOrder && len(unnamed) == 0; !inOrder {
		if err := errors.Join(c.keepBefore(unnamed), c.repairValueLog()); err != nil {
			return nil, err
		}
	}
	c.db, err = openBadger(c.dir, o.WithReadOnly(inOrder), c.logger)
	return nil, err
}

// badgerOptions keeps values of more than 256 bytes in the value log: compaction moves only
// pointers, and the log is reclaimed when the windows of its events have ended.
func (c *core) badgerOptions() badger.Options {
	o := c.options
	return badger.DefaultOptions(c.dir).
		WithSyncWrites(true).
		WithDetectConflicts(false). // the committer is the only writer
		WithNumVersionsToKeep(1).
		WithMemTableSize(cmp.Or(o.memTable, memTable)).
		WithNumMemtables(3).
		WithNumCompactors(2).
		WithValueThreshold(256).
		WithValueLogFileSize(cmp.Or(o.logFile, 64<<20)).
		WithBlockCacheSize(cmp.Or(o.blockCache, cacheBytes)).
		WithIndexCacheSize(cacheBytes).
		WithCompression(badgeroptions.Snappy).
		// The store verifies tables itself: Badger's modes panic in a goroutine, or lose keys
		// silently.
		WithChecksumVerificationMode(badgeroptions.NoVerification).
		WithVerifyValueChecksum(false). // every value has a checksum of its own
		WithMetricsEnabled(false).
		WithLogger(c.logger)
}

// formatVersion is the version of the directory format: keys, values, and the version of Badger.
const formatVersion = 2

// FormatError reports a store with a newer format than this program opens, or one too old to be
// upgraded. The directory was not changed.
type FormatError struct {
	// Dir is the directory of the store.
	Dir string
	// Format is the format of the store, Known the newest that this program opens.
	Format, Known int
}

// Error names both formats and the program that opens the store.
func (e *FormatError) Error() string {
	if e.Format > e.Known {
		return fmt.Sprintf("store %s has format %d, this program knows formats up to %d: use the newer program "+
			"that wrote it", e.Dir, e.Format, e.Known)
	}
	return fmt.Sprintf("store %s has format %d, which this program (format %d) no longer opens: upgrade it with "+
		"an older program first", e.Dir, e.Format, e.Known)
}

// formats are the formats that a program opens: its own, and older ones, each upgraded to the next
// by its step. A step may run again after a crash.
type formats struct {
	current int
	steps   map[int]func(dir string) error // by the format that they start from
}

// ownFormats returns the formats of this program. Format 2 reads every value of format 1 and writes
// none: the step changes only the format file. From then on older programs refuse the store.
func ownFormats() formats {
	return formats{formatVersion, map[int]func(dir string) error{1: func(string) error { return nil }}}
}

// check reads the format of the store in dir, upgrades an older one, and writes it for a new store.
// From its file an older program recognizes a newer store before it touches the database.
func (f formats) check(dir string) error {
	version, err := storedir.ReadFormat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return storedir.WriteFormat(dir, f.current)
	}
	if err != nil {
		return err
	}
	if version > f.current {
		return &FormatError{Dir: dir, Format: version, Known: f.current}
	}
	for ; version < f.current; version++ {
		step := f.steps[version]
		if step == nil {
			return &FormatError{Dir: dir, Format: version, Known: f.current}
		}
		if err := step(dir); err != nil {
			return fmt.Errorf("store %s: upgrading format %d: %w", dir, version, err)
		}
		if err := storedir.WriteFormat(dir, version+1); err != nil {
			return err
		}
	}
	return nil
}
