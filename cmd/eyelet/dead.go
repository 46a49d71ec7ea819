package main

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

var purging = bulkAction{
	use: "purge", short: "Forget dead letters for good",
	long: "Forgets dead letters with their payload, their response and their key: a repeated delivery is new.\n" +
		"Events that are selected by flags are purged with --yes only.",
	verb: "purge", done: "purged", state: "dead", method: http.MethodDelete, destroys: true,
}

func deadCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "dead", Short: "Look at dead letters, and reopen or purge them", Args: cobra.NoArgs,
		Long: "Dead letters are events with a task that failed for good, and quarantined deliveries, which were\n" +
			"not run. They stay until a person reopens or purges them.",
	}
	list := &cobra.Command{Use: "list", Short: "List dead letters, the newest first", Args: cobra.NoArgs}
	c.AddCommand(listCommand(p, list, dedup.Dead.String()),
		showCommand(p, "Show one dead letter with its payload and its errors", dedup.Dead.String()),
		bulkCommand(p, reopening), bulkCommand(p, purging))
	return c
}

func eventsForgetCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "forget EVENT...", Short: "Erase events with their payloads and their copies", Args: cobra.ArbitraryArgs,
		Long: "Forgets events that are done or dead, and the deliveries that were quarantined because of them, with\n" +
			"their payloads, their responses and their keys: a repeated delivery is a new event. An event that is\n" +
			"still open is refused. docs/operations.md lists where else data of an event may be, such as logs and\n" +
			"backups, and when the disk space is used again.\n\n" + refHelp,
	}
	file, format := configFlag(c), outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		named, err := readEvents(p.In, args)
		if err != nil {
			return err
		}
		if len(named) == 0 {
			return usage.Errorf("write eyelet events forget EVENT...", "no events are named")
		}
		return p.withEvents(c, *file, func(client *opsclient.Client) error {
			found, err := (&filters{}).selection(c, p, client, named)
			if err != nil {
				return err
			}
			r := &bulkRun{program: p, done: "forgotten", format: *format, inOrder: true}
			r.apply = func(ctx context.Context, e selected) (string, error) {
				return "", client.Change(ctx, e.event, http.MethodPost, "/forget", nil)
			}
			return r.run(c.Context(), found)
		})
	}
	return c
}
