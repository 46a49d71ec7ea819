package kv

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

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
	var at Checkpoint
	_, _ = rand.Read(at.Store[:]) // never fails
	return WriteCheckpoint(dir, at)
}

// parts are what a database has in the directory of its store.
var parts = [...]string{CheckpointFile, SummaryFile, logDir, valuesDir, IndexDir}

// IsPart reports whether a file or folder in the directory of a store is of its database.
func IsPart(name string) bool { return slices.Contains(parts[:], name) }

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
// checkpoint, closes the database and notes a checkpoint. Nothing is read before. The last commit
// is written to the log again: after a failed flush only the page cache has it. So nothing at rest,
// and no answer, depends on bytes that a later crash loses.
func Open(dir string, o Options) (*DB, error) {
	// 1. Read the checkpoint: it says what the other files must have.
	at, err := ReadCheckpoint(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: its checkpoint: %w", errDamaged, err)
	}
	unclean := !at.Closed
	// 2. Verify all files, and then open what is at rest.
	d, err := openAtRest(dir, o, at)
	if err != nil {
		return nil, err
	}
	for _, t := range d.Badger().Tables() {
		o.verified = append(o.verified, t.ID)
	}
	// 3. Apply what the log has beyond the checkpoint, except its last commit.
	commits, err := d.restore(at)
	if err != nil {
		return nil, errors.Join(err, d.closeFiles())
	}
	// 4. Make that durable, and open again what is at rest then. The log keeps no segment behind
	// that of the checkpoint: the last commit must be in that one.
	moved := d.last != nil && d.last.At.Segment != at.Log.Segment
	if commits > 0 || d.lost || moved {
		if err := d.seal(); err != nil {
			return nil, err
		}
		o.Logger.Info("commits after the last checkpoint were applied", "dir", dir, "commits", commits)
		before := d
		at = before.checkpoint.last
		if d, err = openAtRest(dir, o, at); err != nil {
			return nil, err
		}
		d.lost, d.last = before.lost, before.last
	}
	// 5. Write the checkpoint again: perhaps only the page cache has the file that was read.
	at.Closed = false
	if err := WriteCheckpoint(dir, at); err != nil {
		return nil, errors.Join(err, d.closeFiles())
	}
	// 6. Open the log for new commits.
	settings := d.logSettings(at)
	settings.Unclean = unclean
	if d.log, err = redolog.Open(settings, at.Log); err != nil {
		return nil, errors.Join(err, d.closeFiles())
	}
	// 7. Commit the last frame again: after a failed flush only the page cache has it.
	if err := d.carry(); err != nil {
		return nil, errors.Join(err, d.log.Close(), d.closeFiles())
	}
	// 8. Begin the work beside commits.
	d.env = newCommitEnv(d)
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
func openAtRest(dir string, o Options, at Checkpoint) (*DB, error) {
	o.patience = cmp.Or(o.patience, passPatience)
	d := &DB{dir: dir, o: o, quit: make(chan struct{}), spare: &spare{}}
	d.filter.full = make(chan struct{}, 1)
	d.tables = newCompactions(d)
	d.logger = &logger{slog: o.Logger, spare: d.spare, tables: d.tables, fail: d.fail}
	// 2.1 Verify everything, and change nothing.
	manifest, err := d.verify(at)
	if err != nil {
		return nil, err
	}
	// 2.2 Cut the value files at their noted length, and delete newer ones.
	values, err := valuefile.Open(valuefile.Settings{
		Dir: filepath.Join(dir, valuesDir), Store: at.Store, FileSize: o.ValueFile,
		OpenFile: d.spare.opener(o.OpenValues),
	}, at.Values, at.NextValue)
	if err != nil {
		return nil, err
	}
	// 2.3 Delete Badger's own log, and write its list of tables again.
	if err := d.clear(manifest); err != nil {
		return nil, errors.Join(err, values.Close())
	}
	// 2.4 Open Badger, after the descriptor that notices each write of the list that fails.
	if d.manifest, err = badgerfile.OpenManifest(d.indexDir()); err != nil {
		return nil, errors.Join(err, values.Close())
	}
	d.index = &index{values: values, room: d.spare.reserve, writing: d.spare.write}
	if d.index.badger, err = openBadger(d.badgerOptions(), d.logger); err != nil {
		return nil, errors.Join(err, values.Close(), d.manifest.Close())
	}
	d.tables.opened(d.index.badger)
	version := d.index.badger.MaxVersion()
	d.overlay = newOverlay(at.Commit, at.Log, version, &d.filter)
	d.applier = &applier{
		overlay: d.overlay, index: d.index, fail: d.fail, probe: o.Probe, version: version,
		ending: make(chan struct{}), stopped: make(chan struct{}),
	}
	at.Closed = false
	d.checkpoint = newCheckpointer(d, at)
	return d, nil
}

// verify reads the tables, their list and the log, and changes nothing. It returns the list without
// what did not take effect, nil if there is none.
func (d *DB) verify(at Checkpoint) (manifest []byte, err error) {
	dir := d.indexDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	manifest, end, rewritten, err := badgerfile.MendManifest(dir, at.Manifest)
	d.trusted = at.Manifest.Length > 0 && !rewritten && (!at.Closed || end == at.Manifest.Length)
	if err == nil {
		err = badgerfile.CheckTables(dir, d.badgerOptions(), manifest, d.o.verified...)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if !d.o.AcceptLoss {
		_, _, err = redolog.Replay(d.logSettings(at), at.Log, func(f redolog.Frame) error {
			d.tail = f.At
			return nil
		})
	}
	if gone := noSegment(at, d.tail); err == nil && !d.o.AcceptLoss && len(gone) > 0 {
		err = gone[0]
	}
	return manifest, err
}

// clear deletes the files of Badger that are neither tables nor their list. The right to delete its
// write-ahead log comes from the checkpoint: the redo log has what is in it. The list is written
// again: after a failed flush the kernel takes pages for clean that are not on disk.
func (d *DB) clear(manifest []byte) (err error) {
	for _, pattern := range [...]string{"*" + memTableExt, "*.vlog", "DISCARD", badger.KeyRegistryFileName} {
		paths, _ := filepath.Glob(filepath.Join(d.indexDir(), pattern)) // only a wrong pattern is an error
		for _, path := range paths {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err != nil || manifest == nil {
		return err
	}
	return storedir.WriteWhole(d.indexDir(), badger.ManifestFilename, manifest)
}

// restore brings the database to the last commit, and the summary with it. A summary is not trusted
// if it is older than the checkpoint, knows a commit that the log has not, or is of other tables.
// It is deleted then: the checkpoint that this start notes may agree with it.
func (d *DB) restore(at Checkpoint) (commits int, err error) {
	commit, content, ok := ReadSummary(d.dir, at.Store)
	if ok = ok && d.trusted && commit+1 >= at.Commit; !ok {
		content = nil
	}
	d.o.Summary.Load(content)
	if commits, err = d.replay(at); err != nil {
		return commits, err
	}
	last := d.overlay.applied
	if d.last != nil {
		last = max(last, d.last.Group)
	}
	if ok && !d.lost && commit <= last {
		return commits, nil
	}
	d.o.Summary.Load(nil)
	return commits, storedir.Remove(d.dir, SummaryFile)
}

// replayKeys and replayBytes bound what a replay gathers before it applies.
const (
	replayKeys  = 4 << 10
	replayBytes = 4 << 20
)

// replay applies the commits after a checkpoint, except the last one, which carry writes to the log
// again, and returns their number. Tables may be ahead of the checkpoint: the replay writes over
// them. A log that ends before what is at rest is damaged, because commits are flushed before they
// are applied.
func (d *DB) replay(at Checkpoint) (commits int, err error) {
	last := at.Commit
	ahead, err := d.index.reached()
	if err != nil {
		return 0, err
	}
	apply := func() error {
		notify(d.overlay.hurry) // there are no commits to rest for
		if ok, stalled := d.applier.apply(); ok && !stalled {
			return nil
		}
		return cmp.Or(d.overlay.failed, d.overlay.stalls)
	}
	visit := func(f redolog.Frame) error {
		last = max(last, f.Group)
		for _, e := range f.Entries {
			d.o.Summary.Replay(e)
		}
		if f.At == d.tail && len(f.Entries) > 0 {
			d.last = f.Clone()
			return nil
		}
		commits++
		d.overlay.add(max(f.Group, d.overlay.last), f.Entries, f.End)
		if g := d.overlay.live; len(g.writes) < replayKeys && g.bytes < replayBytes {
			return nil
		}
		return apply()
	}
	end, damage, err := redolog.Replay(d.logSettings(at), at.Log, visit)
	if err == nil {
		err = apply()
	}
	if err != nil {
		return commits, err
	}
	damage = append(damage, missing(at, ahead, last, end)...)
	if len(damage) == 0 {
		if d.last != nil {
			end = d.last.At
		}
		d.overlay.pass(end)
		return commits, nil
	}
	if !d.o.AcceptLoss { // the tables and the log differ
		return commits, damage[0]
	}
	d.o.Logger.Warn("opened without damaged commits (accept-loss)", "dir", d.dir, "error", damage[0], "places",
		len(damage))
	d.lost, d.checkpoint.last.Reached = true, 0
	d.overlay.at, d.overlay.applied = end, max(d.overlay.applied, ahead)
	return commits, nil
}

// missing returns what the log lacks, which ends with a commit at a position, while commits up to
// ahead are at rest.
func missing(at Checkpoint, ahead, last uint64, end redolog.Position) (damage []*redolog.DamagedError) {
	if ahead < at.Commit {
		damage = append(damage, &redolog.DamagedError{Segment: at.Log.Segment, Offset: at.Log.Offset,
			Reason: fmt.Sprintf("the tables end with commit %d, and had commit %d", ahead, at.Commit)})
	}
	if last < ahead {
		damage = append(damage, &redolog.DamagedError{Segment: end.Segment, Offset: end.Offset,
			Reason: fmt.Sprintf("it ends with commit %d, and commit %d is at rest", last, ahead)})
	}
	return append(damage, noSegment(at, end)...)
}

// noSegment returns the damage of a log that ends before a segment that it had reached.
func noSegment(at Checkpoint, end redolog.Position) []*redolog.DamagedError {
	if at.Reached <= max(at.Log.Segment, end.Segment) {
		return nil
	}
	return []*redolog.DamagedError{{Segment: at.Reached, Reason: "the segment is missing"}}
}

// carry commits the last frame of the log again, in a new segment. Its old place counts until the
// new one is durable.
func (d *DB) carry() error {
	if d.last == nil {
		return nil
	}
	end, err := d.log.Carry(d.last.Group, d.last.Entries)
	if err != nil {
		return err
	}
	n := max(d.last.Group, d.overlay.last)
	d.overlay.add(n, d.last.Entries, end)
	d.overlay.applied, d.last = n-1, nil // it may be at rest already
	return nil
}

func (d *DB) logSettings(at Checkpoint) redolog.Settings {
	return redolog.Settings{
		Dir: filepath.Join(d.dir, logDir), Store: at.Store, SegmentSize: d.o.Segment, Segments: d.o.Segments,
		AcceptLoss: d.o.AcceptLoss, OpenFile: d.spare.opener(d.o.OpenSegment),
	}
}

// Close puts everything at rest, and notes a checkpoint unless the database has failed.
func (d *DB) Close() error {
	close(d.applier.ending)
	<-d.applier.stopped
	close(d.quit)
	d.background.Wait()
	_, committed := d.overlay.newest()
	if _, applied := d.overlay.atRest(); applied == committed {
		d.overlay.pass(d.log.End())
	}
	err := d.log.Close()
	if d.failed() == nil && err == nil {
		return d.seal()
	}
	return errors.Join(err, d.closeFiles())
}

// seal closes Badger, which turns its memory tables into tables, and notes a checkpoint.
func (d *DB) seal() error {
	err := cmp.Or(d.closeBadger(), d.failed())
	if err == nil {
		d.checkpoint.last.Closed = true
		n, end := d.overlay.atRest()
		err = d.checkpoint.write(end, n)
	}
	d.spare.close()
	return errors.Join(err, d.index.values.Close(), d.manifest.Close())
}

func (d *DB) closeFiles() error {
	d.spare.close()
	return errors.Join(d.closeBadger(), d.index.values.Close(), d.manifest.Close())
}

// closeBadger closes Badger. If a compaction must not end it leaves Badger without its other
// goroutines.
func (d *DB) closeBadger() error {
	closed := make(chan error, 1)
	go func() { closed <- d.index.badger.Close() }()
	select {
	case err := <-closed:
		return err
	case <-d.tables.stuck:
	}
	select {
	case err := <-closed:
		return err
	case <-time.After(closeStuck):
		return errors.New("a compaction does not end")
	}
}

// closeStuck is how long Badger has to write its memory tables while a compaction does not end.
const closeStuck = 5 * time.Second

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

// levelZero is the number of tables that memory tables become before they are compacted.
const levelZero = 8

// MostCompacted is the size of the tables that a compaction rewrites at most, in memory tables.
const MostCompacted = 2 * levelZero

// badgerOptions keep every value in the tables: none is as large as the threshold, except filler,
// so the value log stays empty. Blocks of 16 KiB by Snappy take 10 bytes an event more than by
// Zstandard, whose compression would be a twentieth of the processor time of a delivery, in bursts
// that delay others.
func (d *DB) badgerOptions() badger.Options {
	table := cmp.Or(d.o.MemTable, memTable)
	return badger.DefaultOptions(d.indexDir()).
		WithSyncWrites(false).
		WithBypassLockGuard(true). // the store has locked its directory
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithMemTableSize(table).
		WithNumMemtables(3).
		// A compaction of level 0 rewrites the next level: it has as much to add as that has.
		WithNumLevelZeroTables(levelZero).
		WithBaseLevelSize(levelZero * table).
		WithNumCompactors(2).
		WithValueThreshold(fillerSize(table) + 1).
		WithValueLogFileSize(1 << 20). // the smallest
		WithBlockCacheSize(cmp.Or(d.o.BlockCache, cacheBytes)).
		WithIndexCacheSize(cacheBytes).
		WithCompression(badgeroptions.Snappy).
		WithBlockSize(16 << 10).
		// The store verifies tables itself: Badger's modes panic in a goroutine, or lose keys
		// silently.
		WithChecksumVerificationMode(badgeroptions.NoVerification).
		WithVerifyValueChecksum(false).
		WithMetricsEnabled(false).
		WithLogger(d.logger)
}
