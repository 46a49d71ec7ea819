package badgerstore

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
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

	statfs  func(dir string) (free, total int64, err error)
	commit  func(*badger.Txn) error
	step    func(step) // called before each step of a commit
	formats formats
	// Sizes of files, in bytes; 0 is the default.
	logFile  int64 // of the value log
	memTable int64 // of a memory table
	rhythm   rhythm
	// blockCache is the size of the cache of Badger's blocks, in bytes; 0 is the default.
	blockCache int64
	// now measures how long the disk takes, beats is when the heartbeat looks; nil are those of the machine.
	now   func() time.Time
	beats <-chan time.Time
}

func recoverWait(attempt int) time.Duration {
	limit := min(10*time.Minute, time.Second<<min(max(attempt, 0), 10))
	return rand.N(limit + 1)
}

// rhythm is how often what happens in the background happens. Tests have one of their own.
type rhythm struct {
	look    time.Duration // how often it is looked whether something is due
	sweep   time.Duration // how often records are deleted whose window has ended
	slack   time.Duration // how long they stay for people to look at
	reclaim time.Duration // how often, at most, space is given back that deleted values take
	flatten time.Duration // how often it is given back although that is little
	prune   time.Duration // how often the keys of days that are over are deleted
}

func ownRhythm() rhythm {
	return rhythm{
		look: time.Minute, sweep: 10 * time.Minute, slack: time.Hour, reclaim: time.Hour, flatten: dedup.DefaultWindow,
		prune: time.Hour,
	}
}

const (
	verifyEvery = 24 * time.Hour
	// growth is after how many bytes the mappings of the logs are looked at again.
	growth = 2 << 20
)

const (
	memTable   = 16 << 20
	cacheBytes = 64 << 20
)

// withDefaults returns the options with every default filled in.
func (o Options) withDefaults() Options {
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
	return o
}
