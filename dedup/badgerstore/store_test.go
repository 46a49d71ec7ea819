package badgerstore

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/internal/faultdisk"
)

func TestMain(m *testing.M) {
	faultdisk.SpendMemory()
	if campaignMain() || childMain() || linearMain() || handlerMain() || starvedMain() ||
		growthMain() {
		return
	}
	faultdisk.TempInMemory()
	if !faultdisk.Long() && os.Getenv("EYELET_RUNS") == "" {
		_ = os.Setenv("EYELET_RUNS", "1") // of the model; see package deduptest
	}
	goleak.VerifyTestMain(m)
}

// quiet returns the default options of tests: nothing is logged, commits may take as long as a busy
// machine needs, and files are small, which makes Open cheap: four segments as on a disk of 1 GiB.
func quiet() Options {
	return Options{
		Logger: slog.New(slog.DiscardHandler), RecoverWait: func(int) time.Duration { return 0 },
		beats: make(chan time.Time), segment: 2 << 20, memTable: 1 << 20,
		statfs: func(string) (free, total int64, err error) { return 1 << 30, 1 << 30, nil },
	}
}

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && s.failure.Load() == nil {
			t.Errorf("Close: %v", err)
		}
		s = nil // package testing keeps this function, and with it the memory of the store
	})
	return s
}

// inspectOp runs a function in the goroutine of the committer.
type inspectOp struct {
	ticket
	inspect func(c *committer)
}

func (o *inspectOp) apply(b *batch) error {
	o.inspect(b.c)
	return nil
}

// onCommitter runs a function in the goroutine of a store's committer.
func onCommitter(t testing.TB, s *Store, inspect func(c *committer)) {
	t.Helper()
	if err := s.submit(&inspectOp{newTicket(true), inspect}); err != nil {
		t.Fatal(err)
	}
}

func TestStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	options := func(clock *deduptest.Clock) Options {
		o := quiet()
		// The suite moves the clock by months between closing and opening.
		o.Clock, o.AcceptClock = clock, true
		// To allocate segments is much of the work of an Open. These are four small ones.
		o.segment, o.statfs = 1<<20, func(string) (free, total int64, err error) { return 1 << 30, 1 << 30, nil }
		return o
	}
	deduptest.Run(t, deduptest.Harness{
		Open: func(t *testing.T, clock *deduptest.Clock) dedup.Store {
			s, err := Open(t.TempDir(), options(clock))
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Reopen: func(t *testing.T, s dedup.Store, clock *deduptest.Clock) dedup.Store {
			dir := s.(*Store).dir
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(dir, options(clock))
			if err != nil {
				t.Fatal(err)
			}
			return again
		},
	})
}
