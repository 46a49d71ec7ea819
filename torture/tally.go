package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/eyelet-dev/eyelet/torture/internal/campaign"
)

// printTally prints the counts of a campaign as a table.
func printTally(w io.Writer, sum campaign.Tally) error {
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
		for name, times := range map[string]campaign.Times{"taken over": f.Takeovers, "database back": f.Recoveries} {
			_, _ = fmt.Fprintf(t, "%s\t%d\t\n  median, ms\t%.0f\t\n  p99, ms\t%.0f\t\n  longest, ms\t%.0f\t\n", name,
				times.Count, times.Median, times.P99, times.Max)
		}
		_, _ = fmt.Fprintf(t, "taken over late\t%d\t\nrecovered late\t%d\t\n", f.Late, f.Stuck)
	}
	return t.Flush()
}
