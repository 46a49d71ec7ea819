package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// print writes the results as text.
func (r *results) print(out io.Writer) error {
	_, _ = fmt.Fprintf(out, "%s, %s\n", r.Date, r.Command)
	for _, line := range slices.Concat(r.Machine, r.Notes) {
		_, _ = fmt.Fprintln(out, line)
	}
	for _, m := range r.Workloads {
		if len(m.Rounds) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(out, "\n%s: median of %d rounds\n", m.Title, len(m.Rounds))
		printTable(out, m.Table())
	}
	_, _ = fmt.Fprintln(out)
	printTable(out, r.GoalRows())
	return nil
}

func printTable(out io.Writer, rows [][]string) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		for _, cell := range row {
			_, _ = fmt.Fprintf(w, "%s\t", cell)
		}
		_, _ = fmt.Fprintln(w)
	}
	_ = w.Flush()
}

// Table returns the medians of each receiver, below a row of titles.
func (m measured) Table() [][]string {
	rows := [][]string{{
		"receiver", "deliveries/s", "p50 ms", "p99 ms", "CPU µs", "Redis", "allocations", "events/flush",
		"flushes/commit", "switches", "calls", "drain s",
	}}
	for _, d := range descriptions {
		if f := medianOf(m.Rounds, d.name); f.CPU > 0 || f.PerSecond > 0 {
			rows = append(rows, []string{
				d.name, number(f.PerSecond), number(f.P50), number(f.P99), number(f.CPU), number(f.RedisCPU),
				number(f.Allocs), number(f.EventsPerFlush), number(f.FlushesPerCommit), number(f.Switches),
				number(f.Calls), number(f.Drain),
			})
		}
	}
	return rows
}

// GoalRows returns each goal that was measured, with the figure of this run.
func (r *results) GoalRows() [][]string {
	rows := [][]string{{"figure", "median", "lowest to highest", "goal", "stretch goal"}}
	for _, g := range slices.Concat(goals, r.comparison()) {
		s, sign := g.of(r), "≤ "
		if math.IsNaN(s.Median) {
			continue
		}
		if g.atLeast {
			sign = "≥ "
		}
		rows = append(rows, []string{
			g.title, number(s.Median), number(s.Min) + " to " + number(s.Max),
			sign + number(g.goal), sign + number(g.stretch),
		})
	}
	return rows
}

// number writes three significant digits, and "-" for what was not measured.
func number(v float64) string {
	switch {
	case v == 0 || math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
