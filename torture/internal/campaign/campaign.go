// Package campaign checks the promise of a receiver: it kills a receiver process at random under
// signed load, and compares the store and the effects of the handlers with what was acknowledged.
package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/internal/pgserver"
)

// Harness kills a receiver again and again under signed load and checks the promise. Every
// acknowledged event is stored with its exact payload, reached its handlers (in the order of its
// lane, if any), and was accepted once. Every duplicate got the first response.
type Harness struct {
	// Dir holds the store and the log of handler runs.
	Dir        string
	Rounds     int // kills
	Clients    int // concurrent deliveries
	Seed       uint64
	NoCrashers bool // leave out the events whose handler kills the process
	// Effects is how handlers leave their effects: [EffectsLogged], the default, or [EffectsOnce],
	// which starts a database in Dir for them.
	Effects string
	// Stops is how often a receiver is paused, for longer than its lease if several share a store.
	// ServerKills is how often the database is killed.
	Stops, ServerKills int
	// MinLife and MaxLife bound the random time from a round's first acknowledgement to the kill.
	MinLife, MaxLife time.Duration
	// Progress receives a line per ten rounds and per violation. Defaults to none.
	Progress io.Writer
	// Child returns the command line of a process that calls [Child] for dir.
	Child func(dir string) []string
}

// Tally holds the counts of a run.
type Tally struct {
	Rounds       int `json:"rounds"`
	Acknowledged int `json:"acknowledged"`
	Duplicates   int `json:"duplicates_answered"`
	Unknown      int `json:"without_answer"` // deliveries that the kill cut off
	Answered     int `json:"answered_by_a_handler"`
	Runs         int `json:"handler_runs"`
	Laned        int `json:"runs_in_lanes"`
	Crashes      int `json:"handler_kills"` // times a handler killed the process
	Lost         int `json:"lost"`
	Doubled      int `json:"doubled"`
	Wrong        int `json:"wrong_answers"`
	Unhandled    int `json:"unhandled"`
	Disordered   int `json:"out_of_order"` // lanes
	Damaged      int `json:"damaged"`
	Transient    int `json:"answered_503"`
	// Repeated counts the tasks with more than one complete run of their handler, or, where
	// effects are rows of a table, with more than one effect. Twice counts those whose effects must
	// happen once.
	Repeated int `json:"repeated"`
	Twice    int `json:"effects_doubled"`
	// Fleet holds the counts of several receivers, nil for one.
	Fleet *FleetTally `json:"fleet,omitempty"`
}

// Broken reports whether the promise was broken.
func (t Tally) Broken() bool {
	return t.Lost+t.Doubled+t.Wrong+t.Unhandled+t.Disordered+t.Damaged+t.Twice > 0 || t.Fleet != nil && t.Fleet.broken()
}

// maxAttempts is the number of attempts of the child's handlers. Our kills interrupt harmless
// tasks too; this is enough that chance does not exhaust them.
const maxAttempts = 6

// Run runs the rounds and the checks. An error means that the harness failed; broken promises are
// in the tally, each with a line of progress.
func (t *Harness) Run(ctx context.Context) (Tally, error) {
	if err := errors.Join(t.check(), t.checkEffects()); err != nil {
		return Tally{}, err
	}
	rng := rand.New(rand.NewPCG(t.Seed, 1))
	o := newOracle(t.Progress)
	o.effects = t.Effects
	db, err := t.openEffects(ctx)
	if err != nil {
		return Tally{}, err
	}
	defer db.close()
	faults := t.faults(db, rng)
	var sum Tally
	for round := 1; round <= t.Rounds; round++ {
		if err := t.round(ctx, o, rng, round, faults[round-1]); err != nil {
			return sum, fmt.Errorf("round %d: %w", round, err)
		}
		sum.Rounds = round
		if round%10 == 0 || round == t.Rounds {
			n := o.counts()
			t.printf("round %d of %d: %d acknowledged, %d duplicates answered, %d answers wrong",
				round, t.Rounds, n.Acknowledged, n.Duplicates, n.Wrong)
		}
	}
	if err := t.drain(ctx, o); err != nil {
		return sum, fmt.Errorf("after the last kill: %w", err)
	}
	t.printf("checking %d events", len(o.ids(true)))
	runs, err := t.readEffects(ctx, db, func(run) {})
	if err != nil {
		return sum, err
	}
	check, records, err := o.check(ctx, t.list, runs)
	if err != nil {
		return sum, err
	}
	o.checkLanes(&check, records, runs)
	check.Rounds = sum.Rounds
	// This comes last, because delivering a lost event would restore it.
	t.printf("sending all of them once more")
	if err := t.resendAll(ctx, o); err != nil {
		return sum, fmt.Errorf("while every event is sent once more: %w", err)
	}
	return check, o.checkAgain(ctx, t.list, &check)
}

// round starts a receiver, loads it, and kills it at a random moment, perhaps after another fault.
// Every third of the first thirty rounds, and every tenth after, begins with a crasher: an event
// whose handler kills the process. It costs as many starts as it has attempts.
func (t *Harness) round(ctx context.Context, o *oracle, rng *rand.Rand, round int, fault roundFault) error {
	c, err := startChild(ctx, t.Child(t.Dir))
	if err != nil {
		return err
	}
	defer c.kill()
	load, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	seed := rng.Uint64()
	withCrasher := !t.NoCrashers && (round%10 == 0 || round%3 == 0 && round <= 30)
	go func() {
		defer close(done)
		o.load(load, c.url, t.Clients, seed, withCrasher)
	}()
	life := t.MinLife + time.Duration(rng.Int64N(int64(t.MaxLife-t.MinLife)+1))
	ended := func(after time.Duration) bool {
		select {
		case <-time.After(after):
			return false
		case <-c.exited: // by a crasher
		case <-ctx.Done():
		}
		return true
	}
	if fault != nil {
		ended(life)
		if err := fault(ctx, c, rng); err != nil {
			return err
		}
	}
	if ended(life); ctx.Err() != nil {
		return ctx.Err()
	}
	c.kill()
	stop()
	<-done
	return nil
}

// drain restarts the receiver and redelivers events without a response, as producers do, until no
// task is left. Crashers may kill it a few more times.
func (t *Harness) drain(ctx context.Context, o *oracle) error {
	starts := 100 + maxAttempts*t.Rounds
	for start := range starts {
		if start%10 == 0 {
			t.printf("draining the receiver, start %d", start+1)
		}
		c, err := startChild(ctx, t.Child(t.Dir))
		if err != nil {
			return err
		}
		if err := o.retry(ctx, c.url); err != nil {
			return errors.Join(err, c.stop())
		}
		idle, err := c.waitIdle(ctx)
		if idle {
			return c.stop()
		}
		c.kill()
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("tasks are left after %d starts", starts)
}

// resendAll delivers every acknowledged event once more.
func (t *Harness) resendAll(ctx context.Context, o *oracle) error {
	c, err := startChild(ctx, t.Child(t.Dir))
	if err != nil {
		return err
	}
	o.duplicates(ctx, func() string { return c.url })
	// killed by a crasher that ran again, which the oracle has recorded
	if err := c.stop(); err != nil && !killed(err) {
		return err
	}
	return nil
}

func (t *Harness) printf(format string, args ...any) {
	if t.Progress != nil {
		_, _ = fmt.Fprintf(t.Progress, format+"\n", args...)
	}
}

// list calls f for every record of the store that a child left.
func (t *Harness) list(ctx context.Context, f func(dedup.Record)) error {
	store, err := badgerstore.Open(storeDir(t.Dir), badgerstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return listStore(ctx, store, f)
}

// roundFault is what happens to a receiver or to the database of its handlers before it is killed.
type roundFault func(context.Context, *child, *rand.Rand) error

// longestPause is longer than the database waits for a transaction of package once.
const longestPause = 7 * time.Second

// faults returns what happens in each round beside the kill, nil for nothing.
func (t *Harness) faults(db *database, rng *rand.Rand) []roundFault {
	all := make([]roundFault, t.Rounds)
	for i := range t.Stops {
		all[i] = func(ctx context.Context, c *child, rng *rand.Rand) error {
			pid := c.cmd.Process.Pid
			if err := pgserver.Suspend(pid); err != nil {
				return nil //nolint:nilerr // it has ended
			}
			wait(ctx, rand.N(longestPause))
			return pgserver.Resume(pid)
		}
	}
	for i := range t.ServerKills {
		all[t.Stops+i] = func(ctx context.Context, _ *child, rng *rand.Rand) error { return db.restart(ctx, rng) }
	}
	rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// openEffects starts a database for the effects of handlers, nil if they are lines of the log.
func (t *Harness) openEffects(ctx context.Context) (*database, error) {
	if t.Effects == EffectsLogged {
		return nil, nil
	}
	db, err := openDatabase(ctx, &Fleet{Harness: *t})
	if err != nil {
		return nil, err
	}
	return db, db.settings(t.Effects).write(t.Dir)
}

func storeDir(dir string) string { return filepath.Join(dir, "store") }

// checkEffects checks the settings of a receiver with a store of its own.
func (t *Harness) checkEffects() error {
	switch t.Effects = cmp.Or(t.Effects, EffectsLogged); {
	case t.Stops+t.ServerKills > t.Rounds:
		return errors.New("there must be at least as many kills of the receiver as other faults")
	case t.ServerKills > 0 && t.Effects == EffectsLogged:
		return errors.New("there is no database to kill")
	case !slices.Contains([]string{EffectsLogged, EffectsPlain, EffectsOnce}, t.Effects):
		return fmt.Errorf("a store of its own has no handlers of the kind %q", t.Effects)
	}
	return nil
}

func (t *Harness) check() error {
	if t.Rounds < 1 || t.Clients < 1 {
		return errors.New("rounds and clients must be at least 1")
	}
	if t.MaxLife < t.MinLife {
		return errors.New("the longest life must not be shorter than the shortest")
	}
	return os.MkdirAll(t.Dir, 0o700)
}
