package badgerstore

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	badgeroptions "github.com/dgraph-io/badger/v4/options"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/badgerfile"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// Options are the settings of a store. The zero value is ready to use.
type Options struct {
	// Logger gets what happens in the background and, at debug level, Badger's own lines. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// Clock judges leases and windows. Defaults to the system's clock at the start plus the time that has
	// passed since, so that a step of the system's clock does not end windows. When another clock is set back,
	// time goes on from where it was; when it jumps ahead, so do leases and windows.
	Clock dedup.Clock
	// MinFree is how much of the file system stays free, in bytes: below it new events are refused
	// with ErrUnavailable, while those that are kept are finished. Never more than a quarter of the file
	// system. Defaults to the largest of 512 MiB, eight memory tables (128 MiB) and 15 % of the store.
	MinFree int64
	// RecoverWait is how long a task waits that was running when the process died; attempt counts from 1.
	// Defaults to full jitter: uniform between 0 and the lesser of 2^attempt seconds and 10 minutes.
	RecoverWait func(attempt int) time.Duration
	// CheckOnOpen reads every value when the store is opened and refuses one with damage. Without it the
	// tables of the database are verified when it is opened (about 4 seconds for ten million keys), and
	// values when they are read and by the periodic check.
	CheckOnOpen bool
	// CheckEvery is how often tables and values are verified in the background, a few thousand values a
	// second. Damaged values show in Degraded, a damaged table in Health. Defaults to 24 hours; less than
	// zero is never.
	CheckEvery time.Duration
	// AcceptLoss opens a store although commits or events that were acknowledged are missing, or nothing tells
	// whether they are because the high-water file is missing or damaged.
	AcceptLoss bool
	// MaxBacklogBytes and MaxBacklogRecords bound the events that wait for workers, their payloads in bytes
	// and their number: at the bound new events that would wait are refused with ErrUnavailable, until 80 %
	// of it is left. Duplicates are answered, and events that their claimer holds or that have no task are
	// accepted. MaxBacklogBytes defaults to no bound, MaxBacklogRecords to DefaultBacklogRecords; less than
	// zero is no bound.
	MaxBacklogBytes, MaxBacklogRecords int64
	// AcceptClock opens a store although the clock is before its last commit. A clock that is more than a day after it
	// needs no consent: that time does not count for windows.
	AcceptClock bool
	// CacheBytes bounds the memory for events with open tasks. Defaults to 32 MiB.
	CacheBytes int64

	// Remember bounds what is remembered of keys beyond their windows, by claims that ask for it. A key takes about 40 bytes.
	Remember dedup.Retention

	layout  layout
	statfs  func(dir string) (free, total int64, err error)
	commit  func(*badger.Txn) error
	step    func(step) // called before each step of a commit
	formats formats
	// Sizes of files, in bytes; 0 is that of the layout.
	logFile  int64 // of the value log
	memTable int64 // of a memory table
	rhythm   rhythm
	// blockCache is the size of the cache of Badger's blocks, in bytes; 0 is the default.
	blockCache int64
	// now measures how long the disk takes, beats is when the heartbeat looks; nil are those of the machine.
	now   func() time.Time
	beats <-chan time.Time
}

// layout is how bodies are placed. BenchmarkSustained compares the two over the whole life of events (claim, take,
// finish) with 64 clients and bodies of 1 KiB that do not compress. Here are the processor time and the bytes
// written for one event, by the process with its load, measured twice with the layouts in turn. The two cores were
// busy with other work, so that rates say little:
//
//	                        value log                 tree
//	60 s, bodies kept       43, 53 us  2.4, 2.3 kB    68, 72 us  6.4, 8.2 kB
//	18 s, bodies kept       61, 44 us  2.0, 2.1 kB    56, 45 us  3.8, 3.6 kB
//	18 s, bodies dropped    65, 45 us  2.4, 2.4 kB    54, 57 us  3.3, 3.5 kB
//
// The tree is as cheap at first, and pays once it compacts: its worst five seconds within the 60 s took 570 and
// 1,170 events/s, those of the value log 4,570 and 4,900. Flushes of the device and events to a commit (36 and 37)
// do not differ beyond the noise. Not measured: hours, and disks with a slow flush.
type layout int

const (
	// layoutValueLog keeps values of more than 256 bytes in Badger's value log: compaction moves pointers
	// only, and the log gives space back when the windows of its events have ended.
	layoutValueLog layout = iota
	// layoutTree keeps all values in the LSM tree, which rewrites them while it compacts. It is here to be
	// measured against.
	layoutTree
)

const (
	memTable     = 16 << 20
	memTableTree = 32 << 20
	cacheBytes   = 64 << 20
)

func (l layout) badgerOptions(dir string, log *logger) badger.Options {
	o := badger.DefaultOptions(dir).
		WithSyncWrites(true).
		WithDetectConflicts(false). // one committer has none
		WithNumVersionsToKeep(1).
		WithMemTableSize(memTable).
		WithNumMemtables(3).
		WithNumCompactors(2).
		WithValueThreshold(256).
		WithValueLogFileSize(64 << 20).
		WithBlockCacheSize(cacheBytes).
		WithIndexCacheSize(cacheBytes).
		WithCompression(badgeroptions.Snappy).
		// Verified by us (verify): Badger's own modes panic in a goroutine of theirs, or lose keys silently.
		WithChecksumVerificationMode(badgeroptions.NoVerification).
		WithVerifyValueChecksum(false). // every value has a checksum of ours
		WithMetricsEnabled(false).
		WithLogger(log)
	if l == layoutTree {
		o = o.WithMemTableSize(memTableTree).WithValueThreshold(1 << 20)
	}
	return o
}

// Open opens the store in dir, making it when it is not there, with everything that a crash left behind put in
// order: tasks that were running have used that attempt and wait for the next one, and held claims are free.
//
// It refuses a directory that another process uses, one of a newer format, one that has lost commits it had
// acknowledged (see AcceptLoss), one whose last commit is after the clock's time (see AcceptClock), and one on a
// full disk. The files of a store that is refused are as they were. The store must be closed.
func Open(dir string, o Options) (*Store, error) {
	if dir == "" {
		return nil, errors.New("store has no directory: name one")
	}
	s := newStore(dir, o)
	if err := s.open(); err != nil {
		return nil, err
	}
	go s.run()
	go s.keepBeating()
	s.done.Go(s.keepHouse)
	if o.CheckEvery >= 0 {
		s.done.Go(s.keepChecking)
	}
	return s, nil
}

func newStore(dir string, o Options) *Store {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Clock = clockOf(o.Clock)
	if o.RecoverWait == nil {
		o.RecoverWait = recoverWait
	}
	o.Remember = o.Remember.WithDefaults()
	if o.MaxBacklogRecords == 0 {
		o.MaxBacklogRecords = DefaultBacklogRecords()
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 32 << 20
	}
	if o.statfs == nil {
		o.statfs = statfs
	}
	if o.commit == nil {
		o.commit = (*badger.Txn).Commit
	}
	if o.step == nil {
		o.step = func(step) {}
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = verifyEvery
	}
	if o.rhythm == (rhythm{}) {
		o.rhythm = ownRhythm()
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.formats.current == 0 {
		o.formats = ownFormats()
	}
	held := &spare{}
	return &Store{
		spare: held, dir: dir, meter: meter{dir: dir}, options: o, log: o.Logger, clock: o.Clock, commitTxn: o.commit,
		logger: &logger{slog: o.Logger, spare: held}, queue: newQueue(), heart: newHeartbeat(o.now), agenda: taskqueue.New[record.Hash](),
		cache: rowCache{rows: map[record.Place]*row{}, max: o.CacheBytes},
		older: generations{}, harmed: map[string]struct{}{},
		backlog: &backlog{maxBytes: o.MaxBacklogBytes, maxRecords: o.MaxBacklogRecords},
		failed:  make(chan struct{}), stopped: make(chan struct{}), quit: make(chan struct{}), ended: make(chan struct{}), grown: make(chan struct{}, 1),
	}
}

func recoverWait(attempt int) time.Duration {
	limit := min(10*time.Minute, time.Second<<min(max(attempt, 0), 10))
	return rand.N(limit + 1)
}

func (s *Store) open() (err error) {
	if err := makeDir(s.dir); err != nil {
		return err
	}
	if s.lock, err = lockDir(s.dir); err != nil {
		return err
	}
	if err := s.openLocked(); err != nil {
		return errors.Join(err, s.lock.release())
	}
	return nil
}

// openLocked opens the store whose directory is locked. Until it is sure that the store is whole it can put the files back
// as they were, and does when it refuses the store.
func (s *Store) openLocked() (err error) {
	if err := s.options.formats.check(s.dir); err != nil {
		return err
	}
	options := s.badgerOptions()
	s.disk = &disk{
		dir: s.dir, statfs: s.options.statfs, minFree: s.options.MinFree, memTable: options.MemTableSize,
		size: func() int64 { return s.meter.usage().all },
	}
	if d := s.disk.look(); d.frozen() {
		return fmt.Errorf("store %s cannot be opened: %w", s.dir, d.err())
	}
	defer func() {
		if err == nil {
			return
		}
		if s.db != nil {
			err = errors.Join(err, s.db.Close())
			s.spare.release(spareFiles)
		}
		if s.water != nil {
			err = errors.Join(err, s.water.f.Close())
		}
		err = errors.Join(err, s.undo())
	}()
	if err := s.prepare(options); err != nil {
		return err
	}
	if s.db, err = openBadger(s.dir, options, s.logger); err != nil {
		return err
	}
	if s.options.CheckOnOpen {
		if err := s.checkValues(); err != nil {
			return fmt.Errorf("store %s is damaged: %w; restore a backup, or open it without the check", s.dir, err)
		}
	}
	left, err := s.openMeta()
	if err != nil {
		return err
	}
	if err := startIsSure(s.dir); err != nil {
		return fmt.Errorf("store %s: %w", s.dir, err)
	}
	return s.recover(left)
}

// prepare makes the files ready for Badger, which changes them when it opens them.
func (s *Store) prepare(o badger.Options) error {
	if err := undoStart(s.dir); err != nil {
		return fmt.Errorf("store %s: what the last start left cannot be put back: %w", s.dir, err)
	}
	unnamed, err := badgerfile.CheckTables(s.dir, o)
	if err != nil {
		return fmt.Errorf("store %s is damaged: %w; restore a backup", s.dir, err)
	}
	inOrder, err := closedInOrder(s.dir)
	if err == nil && inOrder && len(unnamed) == 0 {
		s.before, err = badgerFiles(s.dir)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", s.dir, err)
	}
	if s.before == nil {
		if err := s.keepBefore(unnamed); err != nil {
			return err
		}
	}
	return s.guard()
}

// keepBefore keeps the files as they are.
func (s *Store) keepBefore(unnamed []string) error {
	if err := keepBefore(s.dir, unnamed); err != nil {
		return fmt.Errorf("store %s: its newest logs cannot be copied before it is opened, which takes as much space as they have: %w", s.dir, err)
	}
	if len(unnamed) > 0 {
		s.log.Info("tables are left out that the list of tables does not name", "dir", s.dir, "tables", unnamed)
	}
	return nil
}

// undo brings the files back that were there before the start, and takes away what it has made.
func (s *Store) undo() error {
	if s.before != nil { // Badger has made logs, which are empty, and nothing else that matters
		return removeUnlisted(s.dir, s.before, ".mem", ".vlog")
	}
	return undoStart(s.dir)
}

// guard keeps Badger from cutting off a value log that is damaged in its middle.
func (s *Store) guard() error {
	n, err := badgerfile.RepairValueLog(s.dir, record.ChunkKeySize)
	var cut *badgerfile.LostValuesError
	switch {
	case errors.As(err, &cut) && s.options.AcceptLoss:
		s.log.Warn("values are lost, as accepted", "dir", s.dir, "error", err)
		return nil
	case err != nil:
		return fmt.Errorf("store %s: %w", s.dir, err)
	case n > 0:
		s.log.Error("value log is damaged; the other values in it are kept", "dir", s.dir, "entries", n)
	}
	return nil
}

// makeDir makes the directory and sees whether it can be written to. A directory with files of others is left
// alone: the store takes every right of others to its own away.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("store directory %s cannot be made: %w; choose another one", dir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("store directory %s cannot be read: %w; choose another one", dir, err)
	}
	if name := foreign(entries); name != "" {
		return fmt.Errorf("directory %s is no store and not empty (%s): name an empty directory, or one that does not exist", dir, name)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("store directory %s is not ours: %w; choose another one", dir, err)
	}
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return fmt.Errorf("store directory %s is not writable: %w; give this user the right to write, or choose another one", dir, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// tempPrefix begins the names of files that a crash may leave before the directory is a store.
const tempPrefix = "eyelet-new-"

// foreign returns the name of a file that a directory without a store holds, empty when there is none.
func foreign(entries []os.DirEntry) (name string) {
	for _, e := range entries {
		switch {
		case e.Name() == formatName:
			return ""
		case e.Name() != "lost+found" && !strings.HasPrefix(e.Name(), tempPrefix):
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
		return nil, fmt.Errorf("store %s does not open: %w", dir, err)
	}
	if text := log.skipped.Load(); text != nil {
		return nil, errors.Join(fmt.Errorf("store %s is damaged: %s; restore a backup", dir, *text), db.Close())
	}
	return db, nil
}

// clockSlack is how far the clock may be behind the last commit without question: clocks are
// corrected by so much.
const clockSlack = time.Minute

// openMeta reads the counters, compares them with the high-water file, the clock and what the store holds, and takes
// note of all that is there. It returns what recover has to do.
func (s *Store) openMeta() (left unfinished, err error) {
	txn := s.db.NewTransaction(false)
	m, err := readMeta(txn)
	txn.Discard()
	if err != nil {
		return left, fmt.Errorf("store %s: %w; restore a backup", s.dir, err)
	}
	mark, unknown, err := peekHighWater(s.dir)
	if err != nil {
		return left, fmt.Errorf("store %s: high-water file: %w", s.dir, err)
	}
	unknown = unknownFor(m, unknown)
	if unknown != "" && !s.options.AcceptLoss {
		return left, errUnknownLoss(s.dir, unknown) // before a file is made in its place
	}
	if m.Commit < mark && !s.options.AcceptLoss {
		return left, errLost(s.dir, m.Commit, mark)
	}
	if err := s.checkClock(m); err != nil {
		return left, err
	}
	s.meta = m
	s.openGaps()
	found, left, err := s.takeStock()
	if err != nil {
		return left, err
	}
	missing := missing(m.Census, found.census, found.damaged)
	if missing && !s.options.AcceptLoss {
		return left, errMissing(s.dir, m.Census, found.census)
	}
	s.meta.Census = found.census
	if missing {
		s.log.Warn("events are missing, as accepted", "dir", s.dir, "counted", m.Census.Entries, "found", found.census.Entries)
	}
	return left, s.acceptMeta(mark, unknown, missing)
}

// openGaps notes the time since the last commit when it was too long to count.
func (s *Store) openGaps() {
	m := &s.meta
	all, found := gaps(m.Gaps).at(s.now(), m.Wall, max(m.Window, dedup.DefaultWindow))
	if found != nil {
		s.log.Warn("the last commit is longer ago than a window: the time does not count for any window, and nothing is deleted for a day. "+
			"Set the clock if it is wrong", "dir", s.dir, "last", m.Wall, "now", s.now(), "gap", found.Rest)
	}
	m.Gaps, s.gaps = all, all
}

// acceptMeta opens the identity and the high-water file, and makes the counters those of a new history when commits are
// lost and that was accepted.
func (s *Store) acceptMeta(mark uint64, unknown string, missing bool) error {
	m := &s.meta
	lost := unknown != "" || m.Commit < mark || missing
	// Before anything tells that the loss was accepted: from then on the history is another one.
	if err := s.openIdentity(*m, lost); err != nil {
		return err
	}
	water, err := openHighWater(s.dir)
	if err != nil {
		return fmt.Errorf("store %s: high-water file: %w", s.dir, err)
	}
	s.water, s.disk.probe = water, water.probe
	if unknown != "" {
		s.log.Warn("whether commits are lost is not known, as accepted", "dir", s.dir, "highwater", unknown)
		if err := errors.Join(water.write(m.Commit), water.f.Sync()); err != nil {
			return fmt.Errorf("store %s: high-water file: %w", s.dir, err)
		}
	}
	if m.Commit < mark {
		s.log.Warn("commits are lost, as accepted", "dir", s.dir, "last", m.Commit, "acknowledged", mark)
		m.Commit = mark
	}
	if lost { // numbers that the lost commits gave out must not come again
		m.Seq, m.Token = m.Seq+lostGap, m.Token+lostGap
	}
	s.beginToRemember(m)
	m.Boot++
	m.Window = max(m.Window, dedup.DefaultWindow)
	if m.Reclaimed.IsZero() {
		m.Reclaimed = s.now()
	}
	s.boot = m.Boot
	s.removed.Store(m.Removed)
	s.reclaimed.Store(m.Reclaimed.UnixNano())
	return nil
}

// unknownFor says why there is no high water although there should be: a store without a commit has none.
func unknownFor(m record.Meta, unknown string) string {
	if m.Commit == 0 {
		return ""
	}
	return unknown
}

// lostGap is more events and tokens than the logs that can be lost at once hold.
const lostGap = 1 << 32

// checkClock refuses a clock that is behind the last commit. One that is far ahead is no reason: see gap.
func (s *Store) checkClock(m record.Meta) error {
	now := s.now()
	if m.Wall.IsZero() || s.options.AcceptClock || !now.Before(m.Wall.Add(-clockSlack)) {
		return nil
	}
	return fmt.Errorf("store %s: the clock says %s, but the last commit was later, at %s: set the clock; "+
		"if the clock is right, accept it once (AcceptClock, --accept-clock)", s.dir, now.Format(time.RFC3339), m.Wall.Format(time.RFC3339))
}
