package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

func producersCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "producers [PRESET]", Short: "List the presets, or the event types of one", Args: cobra.MaximumNArgs(1),
		Long: "Lists the producers that `preset: NAME` knows: how they authenticate, where the identifier of an\n" +
			"event is, how long it is remembered, how soon they expect a response, what they accept as one, and\n" +
			"how long they retry, and three event types. -o json adds the settings and the documentation.\n\n" +
			"With the name of a PRESET, lists its common event types, which `eyelet send PRESET TYPE` can send,\n" +
			"where a delivery has its type, and the page that documents the types.",
		Example:   "  eyelet producers\n  eyelet producers shopify",
		ValidArgs: presetNames(),
	}
	format := listFlag(c)
	file := c.Flags().String("presets", "", "file of your own presets, which are listed too")
	c.RunE = func(_ *cobra.Command, args []string) error {
		own, err := readPresets(*file)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			return printTypes(p, args[0], *format, own)
		}
		all := append(preset.All(), own...)
		if *format == "json" {
			return printPresets(p.Out, all)
		}
		t := p.table(*format, "PRESET", "AUTHENTICATION", "IDENTIFIER", "WINDOW", "DEADLINE", "WANTS", "IDENTITY",
			"TYPES")
		for _, known := range all {
			types := known.Types()
			t.Row(known.Name, known.Auth, known.ID, duration.Format(known.Window()),
				table.Minor(cmp.Or(known.Deadline, "-")), table.Minor(known.Wants), table.Minor(known.Class().String()),
				strings.Join(types[:min(3, len(types))], ", "))
		}
		return t.Write(p.Out)
	}
	return c
}

// readPresets reads a file of the user's own presets, if one is named.
func readPresets(file string) ([]preset.Preset, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, usage.Errorf("", "presets %s: %s", file, usage.Cause(err))
	}
	return preset.Read(file, data)
}

// printTypes prints the event types of one preset.
func printTypes(p *program, name, format string, own []preset.Preset) error {
	found, err := findPresets([]string{name}, own...)
	if err != nil {
		return err
	}
	known := found[0]
	if format == "json" {
		return json.NewEncoder(p.Out).Encode(map[string]any{"preset": known.Name, "types": known.Types(),
			"type_from": known.TypeFrom(), "types_docs": known.TypesDocs()})
	}
	_, err = fmt.Fprintf(p.Out, "%s reads the type from %s\ncommon types, documented at %s:\n  %s\n", known.Name,
		known.TypeFrom(), known.TypesDocs(), strings.Join(known.Types(), "\n  "))
	return err
}

func presetNames(own ...preset.Preset) []string {
	var names []string
	for _, known := range append(preset.All(), own...) {
		names = append(names, known.Name)
	}
	return names
}

// completePresets completes any number of presets.
func completePresets(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return presetNames(), cobra.ShellCompDirectiveNoFileComp
}

func printPresets(w io.Writer, all []preset.Preset) error {
	lines := json.NewEncoder(w)
	for _, known := range all {
		err := lines.Encode(map[string]any{
			"preset": known.Name, "auth": known.Auth, "id": known.ID, "window": duration.Format(known.Window()),
			"deadline": known.Deadline,
			"wants":    known.Wants, "identity": known.Class().String(), "settings": append([]string{}, known.Uses...),
			"types": append([]string{}, known.Types()...), "type_from": known.TypeFrom(),
			"types_docs": known.TypesDocs(), "docs": known.Docs,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
