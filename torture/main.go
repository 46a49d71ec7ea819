// Command torture runs a receiver with a store of its own under signed load with duplicates, kills
// it at random moments (kill -9), restarts it, and checks the promise of Eyelet. With a database it
// does the same to several receivers that share it, and to the database. A release has it as
// eyelet-torture.
//
//	go run -C torture . --rounds 1000 --dir DIR
//	go run -C torture . --store postgres --kills 1000 --stops 200 --server-kills 50 --dir DIR
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/workdir"
	"github.com/eyelet-dev/eyelet/torture/internal/campaign"
)

const about = `Runs a receiver with a store of its own under signed load with duplicates, kills it at random
moments (kill -9), restarts it, and checks the promise: every acknowledged event is stored with its
exact payload and reached its handlers (those of a lane in accepted order), none was accepted
twice, and every duplicate got the first response, also where a handler made it. Use it on the disk
of your store: it shows what a dying process loses; the loss in a power failure also depends on the
disk. Exits 1 when the promise was broken; the store then stays in --dir.

With --store postgres it does the same to several receivers on one database, a server of its own in
--dir. Receivers are also paused for longer than their leases, and the server is killed, stopped,
frozen, or replaced by a synchronous standby. It also checks that a paused receiver finishes nothing,
that other receivers take over, and that the tasks of a lane run one at a time. With --store
postgres://... it uses a schema in that database, which it does not touch otherwise.

Flags:
`

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the promise was broken, or the run did not end
	exitUsage  = 2 // the arguments or the machine must be changed first
)

// childWord is the argument before the directory of a receiver that is killed.
const childWord = "child"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := program{out: os.Stdout, err: os.Stderr}
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// program is the command without its process, so that tests can run it.
type program struct {
	out, err io.Writer
	// child is the command line of this program, to start it again. Defaults to os.Executable.
	child []string
	// between returns what tests insert between a child's receiver and its store; nil for nothing.
	between func(dir string) func(dedup.Store) dedup.Store
}

// usageError is a mistake in the arguments, with advice.
type usageError struct{ what, hint string }

func (e usageError) Error() string { return e.what }

// run runs the command and returns its exit code.
func (p program) run(ctx context.Context, args []string) int {
	var err error
	if len(args) == 2 && args[0] == childWord {
		err = p.receive(ctx, args[1])
	} else {
		err = p.torture(ctx, args)
	}
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintln(p.err, "torture: "+err.Error())
	if wrong, ok := errors.AsType[usageError](err); ok {
		_, _ = fmt.Fprintln(p.err, "  hint: "+cmp.Or(wrong.hint, "see --help"))
		return exitUsage
	}
	return exitFailed
}

// receive is the receiver that is killed.
func (p program) receive(ctx context.Context, dir string) error {
	var between func(dedup.Store) dedup.Store
	if p.between != nil {
		between = p.between(dir)
	}
	return campaign.Child(ctx, dir, p.out, between)
}

// settings are the flags of both campaigns.
type settings struct {
	campaign.Fleet
	store, output string
}

func (s *settings) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.Dir, "dir", "", "`directory` on the disk to test; a folder in it is created and removed")
	flags.IntVar(&s.Rounds, "rounds", 100, "`number` of kills")
	flags.IntVar(&s.Rounds, "kills", 100, "the same `number` as --rounds")
	flags.IntVar(&s.Clients, "clients", 16, "`number` of concurrent deliveries")
	flags.Uint64Var(&s.Seed, "seed", 0, "`seed` of the random choices; 0 takes a random one")
	flags.StringVar(&s.store, "store", "badger", "`store`: badger, postgres, or a connection string (postgres://...)")
	flags.IntVar(&s.Receivers, "receivers", 3, "`number` of receivers on one database, with --store postgres")
	flags.IntVar(&s.Stops, "stops", 0, "`number` of pauses of a receiver (SIGSTOP)")
	flags.IntVar(&s.ServerKills, "server-kills", 0,
		"`number` of kills of the database, with --store postgres or --handlers once")
	flags.IntVar(&s.ServerStops, "server-stops", 0, "`number` of orderly stops of the database (pg_ctl stop -m fast)")
	flags.IntVar(&s.ServerFreezes, "server-freezes", 0,
		"`number` of times that the database keeps its connections and is silent")
	flags.IntVar(&s.FailOvers, "fail-overs", 0, "`number` of times that a synchronous standby replaces the database")
	flags.DurationVar(&s.Outage, "outage", 3*time.Second, "`length` of each stop and freeze of the database")
	flags.StringVar(&s.Effects, "handlers", campaign.EffectsLogged,
		"`effects` of handlers: log; rows of a database: plain, once; with --store postgres also tx, sql")
	flags.StringVar(&s.output, "o", "text", "`output`: text or json")
	flags.StringVar(&s.output, "output", "text", "the same as -o")
	return flags
}

// The limits of the random life of a receiver under torture.
const (
	shortestLife = 20 * time.Millisecond
	longestLife  = 400 * time.Millisecond
	// longestGap is the longest time between two faults of several receivers.
	longestGap = 1200 * time.Millisecond
	// lease is that of several receivers.
	lease = time.Second
)

func (p program) torture(ctx context.Context, args []string) error {
	var s settings
	flags := s.flags()
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(p.out, about)
		flags.SetOutput(p.out)
		flags.PrintDefaults()
		return nil
	case err != nil:
		return usageError{what: err.Error()}
	case flags.NArg() > 0:
		return usageError{what: fmt.Sprintf("%q is not a flag", flags.Arg(0))}
	}
	if err := s.check(); err != nil {
		return err
	}
	if s.Seed == 0 {
		s.Seed = rand.Uint64()
	}
	run := s.Harness.Run
	s.MinLife, s.MaxLife, s.Lease = shortestLife, longestLife, lease
	if s.store != "badger" {
		s.MaxLife, run = longestGap, s.Run
	}
	if s.store != "badger" && s.store != "postgres" {
		s.DSN = s.store
	}
	return p.campaign(ctx, &s.Harness, run, s.output)
}

func (s *settings) check() error {
	switch {
	case s.Dir == "":
		return usageError{"--dir is missing", "name a directory on the disk to test"}
	case s.Rounds < 0 || s.Clients < 1 || s.store == "badger" && s.Rounds == 0:
		return usageError{what: "--rounds and --clients must be at least 1"}
	case s.output != "text" && s.output != "json":
		return usageError{fmt.Sprintf("unknown output %q", s.output), "write -o text or -o json"}
	case s.store == "badger" && s.ServerStops+s.ServerFreezes+s.FailOvers > 0:
		return usageError{"that database can only be killed", "add --store postgres"}
	}
	return nil
}

// campaign runs a campaign in a new folder, and prints its counts.
func (p program) campaign(
	ctx context.Context, t *campaign.Harness, run func(context.Context) (campaign.Tally, error), output string,
) error {
	child := p.child
	if len(child) == 0 {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		child = []string{self}
	}
	base, err := workdir.Abs(t.Dir)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(base, 0o711); err == nil {
		t.Dir, err = os.MkdirTemp(base, "eyelet-torture-")
	}
	if err != nil {
		return usageError{fmt.Sprintf("%s: %v", base, err), "choose another --dir"}
	}
	t.Progress = p.err
	t.Child = func(dir string) []string { return append(child[:len(child):len(child)], childWord, dir) }
	_, _ = fmt.Fprintf(p.err, "seed %d, store in %s\n", t.Seed, t.Dir)
	sum, err := run(ctx)
	if err != nil {
		return fmt.Errorf("the run ended early: %w; its files stay in %s", err, t.Dir)
	}
	if output == "json" {
		_ = json.NewEncoder(p.out).Encode(sum) // the exit code has the result
	} else if err := printTally(p.out, sum); err != nil {
		return err
	}
	if sum.Broken() {
		return fmt.Errorf("the promise was broken; the store stays in %s", t.Dir)
	}
	return os.RemoveAll(t.Dir)
}
