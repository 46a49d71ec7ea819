package main

import (
	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/dedup"
)

func (p *program) deadCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "dead", Short: "Look at dead letters, and decide about them", Args: cobra.NoArgs,
		Long: "Dead letters are events of which a task was given up, and deliveries that were kept aside without being\n" +
			"run. They stay until a person reopens or purges them.",
	}
	list := &cobra.Command{Use: "list", Short: "List dead letters, the newest first", Args: cobra.NoArgs}
	c.AddCommand(p.listCommand(list, dedup.Dead.String()), p.deadShowCommand(), p.choreCommand(reopening), p.choreCommand(purging))
	return c
}

func (p *program) deadShowCommand() *cobra.Command {
	return p.showCommand("Show one dead letter with its payload and its errors", dedup.Dead.String())
}
