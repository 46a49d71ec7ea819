package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/torture"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

// The limits of the random life of a receiver under torture.
const (
	shortestLife = 20 * time.Millisecond
	longestLife  = 400 * time.Millisecond
	// longestGap is the longest time between two faults of several receivers.
	longestGap = 1200 * time.Millisecond
)

// tortureFlags are the settings of both campaigns.
type tortureFlags struct {
	torture.Fleet
	store  string
	format *string
}

func tortureCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "torture", Short: "Kill receivers under load and check that nothing is lost", Args: cobra.NoArgs,
		Long: "Runs a receiver with a store of its own under signed load with duplicates, kills it at random\n" +
			"moments (kill -9), restarts it, and checks the promise: every acknowledged event is stored with its\n" +
			"exact payload and reached its handlers (those of a lane in accepted order), none was accepted\n" +
			"twice, and every duplicate got the first response, also where a handler made it. Use it on the disk\n" +
			"of your store: it shows what a dying process loses; the loss in a power failure also depends on the\n" +
			"disk. Exits 1 when the promise was broken; the store then stays in --dir.\n\n" +
			"With --store postgres it does the same to several receivers on one database, a server of its own in\n" +
			"--dir. Receivers are also paused for longer than their leases, and the server is killed, stopped,\n" +
			"frozen, or replaced by a synchronous standby. It also checks that a paused receiver finishes nothing,\n" +
			"that other receivers take over, and that the tasks of a lane run one at a time. With --store\n" +
			"postgres://... it uses a schema in that database, which it does not touch otherwise.",
	}
	var f tortureFlags
	flags := c.Flags()
	flags.StringVar(&f.Dir, "dir", "", "directory on the disk to test; a folder in it is created and removed")
	flags.IntVar(&f.Rounds, "rounds", 100, "number of kills")
	flags.IntVar(&f.Rounds, "kills", 100, "the same as --rounds")
	flags.IntVar(&f.Clients, "clients", 16, "concurrent deliveries")
	flags.Uint64Var(&f.Seed, "seed", 0, "of the random choices; 0 takes a random one")
	flags.StringVar(&f.store, "store", "badger", "badger, postgres, or a connection string (postgres://...)")
	flags.IntVar(&f.Receivers, "receivers", 3, "receivers on one database, with --store postgres")
	flags.IntVar(&f.Stops, "stops", 0, "pauses of a receiver (SIGSTOP)")
	flags.IntVar(&f.ServerKills, "server-kills", 0, "kills of the database, with --store postgres or --handlers once")
	flags.IntVar(&f.ServerStops, "server-stops", 0, "orderly stops of the database (pg_ctl stop -m fast)")
	flags.IntVar(&f.ServerFreezes, "server-freezes", 0, "times that the database keeps its connections and is silent")
	flags.IntVar(&f.FailOvers, "fail-overs", 0, "times that a synchronous standby replaces the database")
	flags.DurationVar(&f.Outage, "outage", 3*time.Second, "length of each stop and freeze of the database")
	flags.StringVar(&f.Effects, "handlers", torture.EffectsLogged,
		"effects of handlers: log; rows of a database: plain, once; with --store postgres also tx, sql")
	f.format = outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.Context(), p) }
	return c
}

// tortureLease is the lease of several receivers.
const tortureLease = time.Second

func (f *tortureFlags) run(ctx context.Context, p *program) error {
	if f.Dir == "" {
		return usage.Errorf("name a directory on the disk to test", "--dir is missing")
	}
	if f.Rounds < 0 || f.Clients < 1 || f.store == "badger" && f.Rounds == 0 {
		return usage.Errorf("", "--rounds and --clients must be at least 1")
	}
	if f.Seed == 0 {
		f.Seed = rand.Uint64()
	}
	run := f.Harness.Run
	switch f.store {
	case "badger":
		if f.ServerStops+f.ServerFreezes+f.FailOvers > 0 {
			return usage.Errorf("add --store postgres", "that database can only be killed")
		}
	case "postgres":
		f.MaxLife, run = longestGap, f.Run
	default:
		f.DSN, f.MaxLife, run = f.store, longestGap, f.Run
	}
	f.Lease = tortureLease
	return runTorture(ctx, p, &f.Harness, run, *f.format)
}

func runTorture(
	ctx context.Context, p *program, t *torture.Harness, run func(context.Context) (torture.Tally, error),
	format string,
) error {
	self := p.Executable
	if self == "" {
		var err error
		if self, err = os.Executable(); err != nil {
			return err
		}
	}
	base, err := filepath.Abs(t.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(base, 0o711); err != nil {
		return usage.Errorf("choose another --dir", "%s: %s", base, usage.Cause(err))
	}
	if t.Dir, err = os.MkdirTemp(base, "eyelet-torture-"); err != nil {
		return usage.Errorf("choose another --dir", "%s: %s", base, usage.Cause(err))
	}
	t.MinLife, t.MaxLife, t.Progress = shortestLife, cmp.Or(t.MaxLife, longestLife), p.Err
	t.Child = func(dir string) []string { return []string{self, "torture-child", dir} }
	_, _ = fmt.Fprintf(p.Err, "seed %d, store in %s\n", t.Seed, t.Dir)
	sum, err := run(ctx)
	if err != nil {
		return failf("the torture stopped: %v; its files stay in %s", err, t.Dir)
	}
	if format == "json" {
		_ = json.NewEncoder(p.Out).Encode(sum) // the exit code has the result
	} else if err := printTally(p.Out, sum); err != nil {
		return err
	}
	if sum.Broken() {
		return failf("the promise was broken; the store stays in %s", t.Dir)
	}
	return os.RemoveAll(t.Dir)
}

func printTally(w io.Writer, sum torture.Tally) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	rows := []struct {
		name  string
		count int
	}{
		{"kills", sum.Rounds}, {"events acknowledged", sum.Acknowledged}, {"duplicates answered", sum.Duplicates},
		{"deliveries without an answer", sum.Unknown}, {"answered 503", sum.Transient},
		{"answered by a handler", sum.Answered}, {"runs of handlers", sum.Runs}, {"of these in lanes", sum.Laned},
		{"kills by a handler", sum.Crashes}, {"tasks run more than once", sum.Repeated},
		{"effects doubled", sum.Twice},
		{"lost", sum.Lost}, {"accepted twice", sum.Doubled}, {"wrong answers", sum.Wrong},
		{"without a run of a handler", sum.Unhandled}, {"lanes out of order", sum.Disordered}, {"damaged", sum.Damaged},
	}
	for _, row := range rows {
		_, _ = fmt.Fprintln(t, row.name+"\t"+strconv.Itoa(row.count)+"\t")
	}
	if f := sum.Fleet; f != nil {
		for _, name := range slices.Sorted(maps.Keys(f.Faults)) {
			if name != "kills" {
				_, _ = fmt.Fprintln(t, strings.ReplaceAll(name, "_", " ")+"\t"+strconv.Itoa(f.Faults[name])+"\t")
			}
		}
		_, _ = fmt.Fprintf(t, "results of paused receivers refused\t%d\t\nand accepted\t%d\t\n", f.Refused, f.Stale)
		for name, times := range map[string]torture.Times{"taken over": f.Takeovers, "database back": f.Recoveries} {
			_, _ = fmt.Fprintf(t, "%s\t%d\t\n  median, ms\t%.0f\t\n  p99, ms\t%.0f\t\n  longest, ms\t%.0f\t\n", name,
				times.Count, times.Median, times.P99, times.Max)
		}
		_, _ = fmt.Fprintf(t, "taken over late\t%d\t\nrecovered late\t%d\t\n", f.Late, f.Stuck)
	}
	return t.Flush()
}

// tortureChildCommand runs the receiver that is killed.
func tortureChildCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "torture-child DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return torture.Child(c.Context(), args[0], p.Out, nil) },
	}
}
