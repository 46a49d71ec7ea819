package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/dedup"
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
