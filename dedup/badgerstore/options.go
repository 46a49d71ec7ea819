package badgerstore

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/storedir"
)

// Options are the settings of a store. The zero value is ready to use.
type Options struct {
	// Logger logs background work and, at debug level, Badger's own lines. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// Clock is the clock of leases and windows. Defaults to the system clock at the start plus the
	// time elapsed since, so that setting the system clock does not end windows. Tests set another,
	// which must not go back while the store is open.
	Clock dedup.Clock
	// MinFree is the free space of the file system, in bytes, below which new events are refused
	// with ErrUnavailable; stored ones are still finished. At most a quarter of the file system.
	// Defaults to the largest of 512 MiB, eight memory tables (128 MiB) and 15 % of the store.
	MinFree int64
	// RecoverWait returns how long a task waits that was running when the process died; attempt
	// counts from 1. Defaults to full jitter: uniform between 0 and 2^attempt seconds, at most 10
	// minutes.
	RecoverWait func(attempt int) time.Duration
	// AcceptLoss opens a store that has lost acknowledged commits or events, or has a damaged
	// redo log, without what is lost.
	AcceptLoss bool
	// MaxBacklogBytes and MaxBacklogRecords bound the payloads and the number of the events that
	// wait for workers. At a bound, new ones that would wait are refused with ErrUnavailable until
	// the backlog is below 80 % of it; held events, events without tasks and duplicates are not.
	// They default to no bound and to DefaultBacklogRecords; a negative value disables a bound.
	MaxBacklogBytes, MaxBacklogRecords int64
	// AcceptClock opens a store although the clock is before its last commit. A clock more than
	// a day after the last commit is always accepted: that time does not count for windows.
	AcceptClock bool

	// Remember bounds the keys remembered beyond their windows, of about 40 bytes each.
	Remember dedup.Retention

	statfs func(dir string) (free, total int64, err error)
	flush  func(*redolog.Log) error // makes a commit durable
	step   func(commitStep)         // called before each step of a commit
	// Sizes of files in bytes; 0 is the default.
	segment    int64 // of a segment of the redo log
	valueFile  int64 // of a value file
	memTable   int64 // of a memory table
	blockCache int64 // of Badger
	rowBytes   int64 // of events with open tasks
	rhythm     rhythm
	now        func() time.Time // measures how long the disk takes; nil is time.Now
	beats      <-chan time.Time // triggers the heartbeat; nil is a ticker
}

func recoverWait(attempt int) time.Duration {
	limit := min(10*time.Minute, time.Second<<min(max(attempt, 0), 10))
	return rand.N(limit + 1)
}

// rhythm is the timing of background work. Tests use their own.
type rhythm struct {
	look    time.Duration // interval of checks whether something is due
	sweep   time.Duration // interval of deleting records whose window has ended
	slack   time.Duration // how long such records remain visible, at most as long as their window
	reclaim time.Duration // shortest interval of reclaiming space
	flatten time.Duration // longest interval of reclaiming space
	prune   time.Duration // interval of deleting the traces of expired days
	check   time.Duration // interval of reading all values in the background
}

func ownRhythm() rhythm {
	return rhythm{
		look: time.Minute, sweep: 10 * time.Minute, slack: time.Hour, reclaim: time.Hour, flatten: dedup.DefaultWindow,
		prune: time.Hour, check: 24 * time.Hour,
	}
}

const memTable = 8 << 20

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil || o.Clock == dedup.SystemClock() { // it may be set: it is read once
		o.Clock = newElapsed()
	}
	if o.RecoverWait == nil {
		o.RecoverWait = recoverWait
	}
	o.Remember = o.Remember.WithDefaults()
	if o.MaxBacklogRecords == 0 {
		o.MaxBacklogRecords = DefaultBacklogRecords()
	}
	if o.statfs == nil {
		o.statfs = storedir.FreeSpace
	}
	if o.flush == nil {
		o.flush = (*redolog.Log).Flush
	}
	if o.step == nil {
		o.step = func(commitStep) {}
	}
	o.rhythm, o.valueFile = cmp.Or(o.rhythm, ownRhythm()), cmp.Or(o.valueFile, 64<<20)
	o.rowBytes = cmp.Or(o.rowBytes, 32<<20)
	if o.now == nil {
		o.now = time.Now
	}
	return o
}

// commitStep is a step of a commit. Tests end the process before each of them.
type commitStep int

// The steps in their order. A batch is durable after stepFlush; the later steps publish it.
const (
	stepStage commitStep = iota
	stepCommit
	stepFlush
	stepPublish
	stepAnswer
	stepEnd
)
