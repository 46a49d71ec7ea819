package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/inspect"
)

func fencesCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "fences [show [PRODUCER] | reset FENCE...]", Short: "Show or reset how far lanes were handled",
		Long: "A handler with the setting newest has a fence in each of its lanes: the version of the newest event\n" +
			"that was handled. Older events of the lane do not run. show lists the fences, or those of a producer;\n" +
			"a lane is named by a digest, and the event shows which one it is. reset removes fences, for a producer\n" +
			"whose counter begins again or that sent a wrong version: then any event of the lane runs. Events that\n" +
			"were stale stay so, and `eyelet events rerun` runs them.\n\n" +
			"The running server is asked through its operations port; when none runs, the store is opened.",
	}
	file, format := configFlag(c), listFlag(c)
	all := c.Flags().String("all", "", "with reset: all fences of this producer")
	c.Args = func(_ *cobra.Command, args []string) error {
		reset := len(args) > 0 && args[0] == "reset"
		shows := len(args) == 0 || len(args) <= 2 && args[0] == "show"
		if reset && (len(args) == 1) == (*all == "") || !reset && (!shows || *all != "") {
			return errors.New("neither show nor reset")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return p.withEvents(c, *file, func(client *opsclient.Client) error {
			if len(args) == 0 || args[0] == "show" {
				return showFences(c, p, client, strings.Join(args[min(len(args), 1):], ""), *format)
			}
			removed, err := client.ResetFences(c.Context(), *all, args[1:])
			if err != nil {
				return failf("%v", err)
			}
			return p.result(*format, map[string]any{"reset": len(removed)}, "reset %s\n", count(len(removed), "fence"))
		})
	}
	return c
}

// showFences prints the fences of a producer, or all if it is empty.
func showFences(c *cobra.Command, p *program, client *opsclient.Client, producer, format string) error {
	n, t := 0, p.table(format, "FENCE", "ENDPOINT", "HANDLER", "LANE", "VERSION", "EVENT", "MOVED")
	err := client.EachFence(c.Context(), producer, func(f inspect.Fence) error {
		if n++; format == "json" {
			return p.encode(f)
		}
		t.Row(f.ID, sanitize(f.Endpoint), sanitize(f.Handler), sanitize(f.Lane), sanitize(f.Version), table.ID(f.Event),
			f.Moved)
		return nil
	})
	if err == nil && n == 0 && format != "json" {
		p.eprintf("no fences\n")
	}
	return errors.Join(err, t.Write(p.Out))
}
