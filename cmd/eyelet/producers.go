package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/producer/preset"
)

func producersCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "producers", Short: "List the presets", Args: cobra.NoArgs,
		Long: "Lists the producers that `preset: NAME` knows: how they authenticate, where the identifier of an\n" +
			"event is, how long it is remembered, how soon they expect a response, what they accept as one, and\n" +
			"how long they retry, and common event types. -o json adds the settings and the documentation.",
	}
	format := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *format == "json" {
			return printPresets(p.Out)
		}
		t := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
		_, _ = fmt.Fprintln(t, "PRESET\tAUTHENTICATION\tIDENTIFIER\tWINDOW\tDEADLINE\tWANTS\tIDENTITY\tTYPES")
		for _, known := range preset.All() {
			_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", known.Name, known.Auth, known.ID,
				hours(known.Window()), cmp.Or(known.Deadline, "-"), known.Wants, known.Class(),
				strings.Join(known.Types(), " "))
		}
		return t.Flush()
	}
	return c
}

func printPresets(w io.Writer) error {
	lines := json.NewEncoder(w)
	for _, known := range preset.All() {
		err := lines.Encode(map[string]any{
			"preset": known.Name, "auth": known.Auth, "id": known.ID, "window": known.Window().String(),
			"deadline": known.Deadline,
			"wants":    known.Wants, "identity": known.Class().String(), "settings": append([]string{}, known.Uses...),
			"types": append([]string{}, known.Types()...), "docs": known.Docs,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hours formats a duration in whole hours.
func hours(d time.Duration) string { return fmt.Sprintf("%d h", int(d.Hours())) }
