// Command loadbench drives a receiver and a bare Echo handler side by side and prints the cost
// of accepting an event durably, as ratios to the bare handler.
//
// The bare handler checks the same HMAC and stores nothing. The receiver verifies,
// deduplicates, stores with an fsync, answers and runs a handler. Both are separate processes,
// to measure their CPU time without the clients'. Rounds alternate, because a single round on a
// shared machine means little.
//
//	go run ./cmd/loadbench -clients 64 -time 5s -rounds 3
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"text/tabwriter"
	"time"
)

// settings are the flags.
type settings struct {
	clients, rounds, body int
	time                  time.Duration
	dir, output           string
	child, profile        string
}

func main() {
	var s settings
	flag.IntVar(&s.clients, "clients", 64, "concurrent clients")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds of each side, alternating; the median counts")
	flag.IntVar(&s.body, "body", 1024, "size of a payload in bytes; it does not compress")
	flag.DurationVar(&s.time, "time", 5*time.Second, "duration of a round")
	flag.StringVar(&s.dir, "dir", "", "parent folder of the store (default: the system's temporary folder)")
	flag.StringVar(&s.output, "o", "text", "output: text or json")
	flag.StringVar(&s.child, "child", "", "internal: run one side (bare or receiver)")
	flag.StringVar(&s.profile, "profile", "", "internal: write a CPU profile of the receiver's last round to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "loadbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, out, progress io.Writer) error {
	if s.child != "" {
		return serve(ctx, s, out)
	}
	if s.clients < 1 || s.rounds < 1 || s.body < 64 || s.time <= 0 {
		return errors.New("-clients and -rounds must be at least 1, -body at least 64, and -time positive")
	}
	dir, err := os.MkdirTemp(s.dir, "loadbench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s.dir = dir
	rounds := map[string][]figures{}
	for i := range s.rounds {
		for _, side := range []string{"bare", "receiver"} {
			_, _ = fmt.Fprintf(progress, "round %d of %d: %s\n", i+1, s.rounds, side)
			f, err := measure(ctx, s, side)
			if err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
			rounds[side] = append(rounds[side], f)
		}
	}
	return report(out, s, median(rounds["bare"]), median(rounds["receiver"]))
}

// figures are the results of one round, all of them numbers.
type figures struct {
	Events    float64 `json:"events"`
	PerSecond float64 `json:"events_per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	CPU       float64 `json:"cpu_us_per_event"`
	Allocs    float64 `json:"allocs_per_event"`
	// EventsPerFlush is 0 where flushes cannot be counted. It includes flushes of other
	// programs. EventsPerCommit is the store's alone; each commit flushes at least twice.
	EventsPerFlush  float64 `json:"events_per_flush"`
	EventsPerCommit float64 `json:"events_per_commit"`
	// HandledPerSecond counts the handler calls of the round, Backlog the tasks without an
	// outcome at its end. A receiver keeps up when it handles as fast as it accepts.
	HandledPerSecond float64 `json:"handled_per_second"`
	Backlog          float64 `json:"backlog"`
}

// median returns the median of each figure.
func median(rounds []figures) (m figures) {
	for i := range reflect.TypeFor[figures]().NumField() {
		var values []float64
		for _, f := range rounds {
			values = append(values, reflect.ValueOf(f).Field(i).Float())
		}
		slices.Sort(values)
		reflect.ValueOf(&m).Elem().Field(i).SetFloat(values[len(values)/2])
	}
	return m
}

func report(out io.Writer, s settings, bare, receiver figures) error {
	if s.output == "json" {
		return json.NewEncoder(out).Encode(map[string]any{
			"clients": s.clients, "body": s.body, "bare": bare, "receiver": receiver,
			"ratio": map[string]float64{
				"events_per_second": receiver.PerSecond / bare.PerSecond, "p50": receiver.P50 / bare.P50,
				"p99": receiver.P99 / bare.P99, "cpu": receiver.CPU / bare.CPU,
			},
		})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	const head = "%d clients, %d byte bodies, median of %d rounds of %v\n"
	_, _ = fmt.Fprintf(out, head, s.clients, s.body, s.rounds, s.time)
	_, _ = fmt.Fprintln(w, "\tbare Echo + HMAC\treceiver\tratio\t")
	row := func(name, format string, a, b float64) {
		_, _ = fmt.Fprintf(w, "%s\t"+format+"\t"+format+"\t%.2f\t\n", name, a, b, b/a)
	}
	row("events/s", "%.0f", bare.PerSecond, receiver.PerSecond)
	row("p50 ms", "%.2f", bare.P50, receiver.P50)
	row("p99 ms", "%.2f", bare.P99, receiver.P99)
	row("CPU us/event", "%.1f", bare.CPU, receiver.CPU)
	row("allocations/event", "%.0f", bare.Allocs, receiver.Allocs)
	_, _ = fmt.Fprintf(w, "handled/s\t-\t%.0f\t\t\n", receiver.HandledPerSecond)
	_, _ = fmt.Fprintf(w, "backlog at the end\t-\t%.0f\t\t\n", receiver.Backlog)
	flushes := "not seen"
	if receiver.EventsPerFlush > 0 {
		flushes = fmt.Sprintf("%.1f", receiver.EventsPerFlush)
	}
	_, _ = fmt.Fprintf(w, "events/device flush\t-\t%s\t\t\n", flushes)
	_, _ = fmt.Fprintf(w, "events/commit\t-\t%.1f\t\t\n", receiver.EventsPerCommit)
	return w.Flush()
}
