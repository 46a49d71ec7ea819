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
	// time elapsed since, so that setting the system clock does not end windows. When another clock
	// is set back, time continues from where it was; when it jumps ahead, so do leases and windows.
	Clock dedup.Clock
	// MinFree is the free space of the file system, in bytes, below which new events are refused
	// with ErrUnavailable; stored ones are still finished. At most a quarter of the file system.
	// Defaults to the largest of 512 MiB, eight memory tables (128 MiB) and 15 % of the store.
	MinFree int64
	// RecoverWait returns how long a task waits that was running when the process died; attempt
	// counts from 1. Defaults to full jitter: uniform between 0 and 2^attempt seconds, at most 10
	// minutes.
	RecoverWait func(attempt int) time.Duration
	// CheckOnOpen makes Open read every value and refuse damage. Without it, Open verifies the
	// tables (4 seconds for ten million keys); values are verified when read and periodically.
	CheckOnOpen bool
	// CheckEvery is the interval of the background check, which reads a few thousand values per
	// second. Degraded reports damaged values, Health a damaged table. Defaults to 24 hours; a
	// negative value disables the check.
	CheckEvery time.Duration
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
	// CacheBytes bounds the memory for events with open tasks. Defaults to 32 MiB.
	CacheBytes int64

	// Remember bounds the keys remembered beyond their windows, of about 40 bytes each.
	Remember dedup.Retention

	statfs func(dir string) (free, total int64, err error)
	flush  func(*redolog.Log) error // makes a commit durable
	step   func(step)               // called before each step of a commit
	// Sizes of files in bytes; 0 is the default.
	segment    int64 // of a segment of the redo log
	valueFile  int64 // of a value file
	memTable   int64 // of a memory table
	blockCache int64 // of Badger
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
}

func ownRhythm() rhythm {
	return rhythm{
		look: time.Minute, sweep: 10 * time.Minute, slack: time.Hour, reclaim: time.Hour, flatten: dedup.DefaultWindow,
		prune: time.Hour,
	}
}

const (
	verifyEvery = 24 * time.Hour
	memTable    = 8 << 20
)

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
		o.statfs = storedir.FreeSpace
	}
	if o.flush == nil {
		o.flush = (*redolog.Log).Flush
	}
	if o.step == nil {
		o.step = func(step) {}
	}
	o.CheckEvery = cmp.Or(o.CheckEvery, verifyEvery)
	o.rhythm, o.valueFile = cmp.Or(o.rhythm, ownRhythm()), cmp.Or(o.valueFile, 64<<20)
	if o.now == nil {
		o.now = time.Now
	}
	return o
}
