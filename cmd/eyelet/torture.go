package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
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
)

func tortureCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "torture", Short: "Kill a receiver under load and check that nothing is lost", Args: cobra.NoArgs,
		Long: "Runs a receiver with a store of its own under signed load with duplicates, kills it at random\n" +
			"moments (kill -9), restarts it, and checks the promise: every acknowledged event is stored with its\n" +
			"exact payload and reached its handlers (those of a lane in accepted order), none was accepted\n" +
			"twice, and every duplicate got the first response, also where a handler made it. Use it on the disk\n" +
			"of your store: it shows what a dying process loses; the loss in a power failure also depends on the\n" +
			"disk. Exits 1 when the promise was broken; the store then stays in --dir.",
	}
	dir := c.Flags().String("dir", "", "directory on the disk to test; a folder in it is created and removed")
	rounds := c.Flags().Int("rounds", 100, "number of kills")
	clients := c.Flags().Int("clients", 16, "concurrent deliveries")
	seed := c.Flags().Uint64("seed", 0, "of the random choices; 0 takes a random one")
	format := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *dir == "" {
			return usage.Errorf("name a directory on the disk to test", "--dir is missing")
		}
		if *rounds < 1 || *clients < 1 {
			return usage.Errorf("", "--rounds and --clients must be at least 1")
		}
		if *seed == 0 {
			*seed = rand.Uint64()
		}
		return runTorture(c.Context(), p, &torture.Harness{Dir: *dir, Rounds: *rounds, Clients: *clients, Seed: *seed},
			*format)
	}
	return c
}

func runTorture(ctx context.Context, p *program, t *torture.Harness, format string) error {
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
	if err := os.MkdirAll(base, 0o700); err != nil {
		return usage.Errorf("choose another --dir", "%s: %s", base, usage.Cause(err))
	}
	if t.Dir, err = os.MkdirTemp(base, "eyelet-torture-"); err != nil {
		return usage.Errorf("choose another --dir", "%s: %s", base, usage.Cause(err))
	}
	t.MinLife, t.MaxLife, t.Progress = shortestLife, longestLife, p.Err
	t.Child = func(dir string) []string { return []string{self, "torture-child", dir} }
	_, _ = fmt.Fprintf(p.Err, "seed %d, store in %s\n", t.Seed, t.Dir)
	sum, err := t.Run(ctx)
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
	for _, row := range []struct {
		name  string
		count int
	}{
		{"kills", sum.Rounds}, {"events acknowledged", sum.Acknowledged}, {"duplicates answered", sum.Duplicates},
		{"deliveries without an answer", sum.Unknown}, {"answered by a handler", sum.Answered},
		{"runs of handlers", sum.Runs}, {"of these in lanes", sum.Laned}, {"kills by a handler", sum.Crashes},
		{"lost", sum.Lost}, {"accepted twice", sum.Doubled}, {"wrong answers", sum.Wrong},
		{"without a run of a handler", sum.Unhandled}, {"lanes out of order", sum.Disordered}, {"damaged", sum.Damaged},
	} {
		_, _ = fmt.Fprintln(t, row.name+"\t"+strconv.Itoa(row.count)+"\t")
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
