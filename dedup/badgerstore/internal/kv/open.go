package kv

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	badgeroptions "github.com/dgraph-io/badger/v4/options"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/valuefile"
)

// Create makes an empty database in a directory that the caller has locked. It deletes
// another one. The checkpoint is first: a database without one is damaged.
func Create(dir string) error {
	for _, name := range parts {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	var at storedir.Checkpoint
	_, _ = rand.Read(at.Store[:]) // never fails
	return storedir.WriteCheckpoint(dir, at)
}

// parts are what a database has in the directory of its store.
var parts = [...]string{storedir.CheckpointFile, logDir, valuesDir, IndexDir}

// Exists reports whether a directory has a database, or a part of one.
func Exists(dir string) bool {
	for _, name := range parts {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// Open opens the database in a directory that the caller has locked. It refuses a damaged
// one, whose content it leaves as it was.
//
// After a crash it first makes the files what Close leaves: it applies the log beyond the
// checkpoint, closes the database and notes a checkpoint. Nothing is read before. So no answer
// depends on bytes that only the page cache has, such as those of a failed flush.
func Open(dir string, o Options) (*DB, error) {
	at, err := storedir.ReadCheckpoint(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: its checkpoint: %w", errDamaged, err)
	}
	d, err := openAtRest(dir, o, at)
	if err != nil {
		return nil, err
	}
	commits, err := d.replay(at)
	if err != nil {
		return nil, errors.Join(err, d.closeFiles())
	}
	if commits > 0 || d.lost {
		if err := d.seal(); err != nil {
			return nil, err
		}
		at = d.checkpoint.last
		o.Logger.Info("commits after the last checkpoint were applied", "dir", dir, "commits", commits)
		lost := d.lost
		if d, err = openAtRest(dir, o, at); err != nil {
			return nil, err
		}
		d.lost = lost
	}
	// Again, because only the page cache may have the name of the file that was read.
	if err := storedir.WriteCheckpoint(dir, at); err != nil {
		return nil, errors.Join(err, d.closeFiles())
	}
	if d.log, err = redolog.Open(d.logSettings(at), at.Log); err != nil {
		return nil, errors.Join(err, d.closeFiles())
	}
	d.background.Go(d.applier.run)
	d.background.Go(d.checkpoint.loop)
	d.background.Go(d.keepFilter)
	return d, nil
}

var errDamaged = errors.New("it is damaged")

// IsDamage reports whether Open has failed because a file is damaged or missing.
func IsDamage(err error) bool {
	return errors.Is(err, errDamaged) || errors.As(err, new(*redolog.DamagedError)) ||
		errors.As(err, new(*valuefile.DamagedError))
}

// openAtRest opens what is at rest as a checkpoint names it.
func openAtRest(dir string, o Options, at storedir.Checkpoint) (*DB, error) {
	if o.OpenSegment == nil {
		o.OpenSegment = redolog.OpenFile
	}
	if o.OpenValues == nil {
		o.OpenValues = valuefile.OpenFile
	}
	if o.Probe == nil {
		o.Probe = func() error { return nil }
	}
	o.patience = cmp.Or(o.patience, passPatience)
	if o.Flush == nil {
		o.Flush = (*redolog.Log).Flush
	}
	d := &DB{dir: dir, o: o, quit: make(chan struct{}), spare: &spare{}}
	d.filter.full, d.filter.without = make(chan struct{}, 1), o.Unfiltered
	d.logger = &logger{slog: o.Logger, spare: d.spare, fail: d.fail}
	whole, err := d.verify(at)
	if err != nil {
		return nil, err
	}
	values, err := valuefile.Open(valuefile.Settings{
		Dir: filepath.Join(dir, valuesDir), Store: at.Store, FileSize: o.ValueFile, OpenFile: d.openValues,
	}, at.Values, at.NextValue)
	if err != nil {
		return nil, err
	}
	if err := d.clear(whole); err != nil {
		return nil, errors.Join(err, values.Close())
	}
	if d.manifest, err = badgerfile.OpenManifest(d.indexDir()); err != nil {
		return nil, errors.Join(err, values.Close())
	}
	d.index = &index{values: values}
	if d.index.badger, err = openBadger(d.badgerOptions(), d.logger); err != nil {
		return nil, errors.Join(err, values.Close(), d.manifest.Close())
	}
	d.overlay = newOverlay(at.Commit, at.Log)
	d.applier = newApplier(d.overlay, d.index, d.fail, o.Probe)
	d.checkpoint = newCheckpointer(d, at)
	return d, nil
}

// verify reads the tables, their list and the log, and changes nothing. It returns the length of
// the whole records of the list.
func (d *DB) verify(at storedir.Checkpoint) (whole int64, err error) {
	dir := d.indexDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	whole = math.MaxInt64
	if at.Manifest.Length > 0 {
		whole, _, err = badgerfile.CheckManifest(filepath.Join(dir, badger.ManifestFilename), at.Manifest)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	if err := badgerfile.CheckTables(dir, d.badgerOptions()); err != nil {
		return 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if !d.o.AcceptLoss {
		_, err = redolog.Replay(d.logSettings(at), at.Log, func(redolog.Frame) error { return nil })
	}
	return whole, err
}

// clear deletes the files of Badger that are neither tables nor their list. The right to delete its
// write-ahead log comes from the checkpoint: the redo log has what is in it.
func (d *DB) clear(whole int64) (err error) {
	for _, pattern := range [...]string{"*" + memTableExt, "*.vlog", "DISCARD", badger.KeyRegistryFileName} {
		paths, _ := filepath.Glob(filepath.Join(d.indexDir(), pattern)) // only a wrong pattern is an error
		for _, path := range paths {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return errors.Join(err, copyManifest(d.indexDir(), whole))
}

// copyManifest replaces MANIFEST by a flushed copy of its whole records. After a failed flush the
// kernel takes pages for clean that are not on disk, and nothing writes them again.
func copyManifest(dir string, whole int64) error {
	path := filepath.Join(dir, badger.ManifestFilename)
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(path+".copy", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, whole))
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(path+".copy", path), syncDir(dir))
}

// replayKeys and replayBytes bound what a replay gathers before it applies.
const (
	replayKeys  = 4 << 10
	replayBytes = 4 << 20
)

// replay applies the commits after a checkpoint and returns their number. Their version is at
// least that of everything at rest: tables may be ahead of the checkpoint, and a changeset there
// may have ended with a later commit. A log that ends before what is at rest is damaged, because
// commits are flushed before they are applied.
func (d *DB) replay(at storedir.Checkpoint) (commits int, err error) {
	ahead, last := d.Badger().MaxVersion(), at.Commit
	apply := func() error {
		if ok, stalled := d.applier.apply(); ok && !stalled {
			return nil
		}
		return cmp.Or(d.applier.failed(), d.Stalled())
	}
	visit := func(f redolog.Frame) error {
		commits++
		last = max(last, f.Group)
		d.overlay.add(f.Entries, max(f.Group, ahead, d.overlay.last), f.End)
		if g := d.overlay.live; len(g.values) < replayKeys && g.bytes < replayBytes {
			return nil
		}
		return apply()
	}
	var end redolog.Position
	var damage []*redolog.DamagedError
	if d.o.AcceptLoss {
		end, damage, err = redolog.ReplayDamaged(d.logSettings(at), at.Log, visit)
	} else {
		end, err = redolog.Replay(d.logSettings(at), at.Log, visit)
	}
	if err == nil {
		err = apply()
	}
	if err != nil {
		return commits, err
	}
	if last < ahead {
		damage = append(damage, &redolog.DamagedError{Segment: end.Segment, Offset: end.Offset,
			Reason: fmt.Sprintf("it ends with commit %d, and commit %d is at rest", last, ahead)})
	}
	if len(damage) == 0 {
		d.applier.pass(end)
		return commits, nil
	}
	if !d.o.AcceptLoss {
		return commits, damage[0]
	}
	d.o.Logger.Warn("opened without damaged commits (accept-loss)", "dir", d.dir, "error", damage[0], "places",
		len(damage))
	d.lost = true
	d.applier.at, d.applier.applied = end, max(d.applier.applied, ahead)
	return commits, nil
}

func (d *DB) logSettings(at storedir.Checkpoint) redolog.Settings {
	return redolog.Settings{
		Dir: filepath.Join(d.dir, logDir), Store: at.Store, SegmentSize: d.o.Segment, Segments: d.o.Segments,
		OpenFile: d.openSegment,
	}
}

func (d *DB) openSegment(name string, flag int, perm fs.FileMode) (f redolog.File, err error) {
	err = d.spare.open(func() error { f, err = d.o.OpenSegment(name, flag, perm); return err })
	return f, err
}

func (d *DB) openValues(name string, flag int, perm fs.FileMode) (f valuefile.File, err error) {
	err = d.spare.open(func() error { f, err = d.o.OpenValues(name, flag, perm); return err })
	return f, err
}

// Close puts everything at rest, and notes a checkpoint unless the database has failed.
func (d *DB) Close() error {
	close(d.applier.ending)
	<-d.applier.stopped
	close(d.quit)
	d.background.Wait()
	if d.applier.position() == d.overlay.position() {
		d.applier.pass(d.log.End())
	}
	err := d.log.Close()
	if d.failed() == nil && err == nil {
		return d.seal()
	}
	return errors.Join(err, d.closeFiles())
}

// seal closes Badger, which turns its memory tables into tables, and notes a checkpoint.
func (d *DB) seal() error {
	err := cmp.Or(d.index.badger.Close(), d.failed())
	if err == nil {
		err = d.checkpoint.write(d.applier.position(), d.applier.applied)
	}
	d.spare.release(spareFiles)
	return errors.Join(err, d.index.values.Close(), d.manifest.Close())
}

func (d *DB) closeFiles() error {
	d.spare.release(spareFiles)
	return errors.Join(d.index.badger.Close(), d.index.values.Close(), d.manifest.Close())
}

func openBadger(o badger.Options, log *logger) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: its tables cannot be opened: %v", errDamaged, p)
		}
	}()
	if db, err = badger.OpenManaged(o); err != nil {
		return nil, err
	}
	if text := log.skipped.Load(); text != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", errDamaged, *text), db.Close())
	}
	return db, nil
}

// badgerOptions keep every value in the tables: none is as large as the threshold, except filler,
// so the value log stays empty.
func (d *DB) badgerOptions() badger.Options {
	table := cmp.Or(d.o.MemTable, memTable)
	return badger.DefaultOptions(d.indexDir()).
		WithSyncWrites(false).
		WithBypassLockGuard(true). // the store has locked its directory
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithMemTableSize(table).
		WithNumMemtables(3).
		WithNumCompactors(2).
		WithValueThreshold(fillerSize(table) + 1).
		WithValueLogFileSize(1 << 20). // the smallest
		WithBlockCacheSize(cmp.Or(d.o.BlockCache, cacheBytes)).
		WithIndexCacheSize(cacheBytes).
		WithCompression(badgeroptions.Snappy).
		// The store verifies tables itself: Badger's modes panic in a goroutine, or lose keys
		// silently.
		WithChecksumVerificationMode(badgeroptions.NoVerification).
		WithVerifyValueChecksum(false).
		WithMetricsEnabled(false).
		WithLogger(d.logger)
}
