package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
)

func configCommand(p *program) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: cobra.NoArgs}
	check := &cobra.Command{
		Use: "check", Short: "Check the configuration without serving", Args: cobra.NoArgs,
		Long: "Reads the configuration as serve does and reports every error in it, with its line. The store is\n" +
			"not opened, and nothing is changed.",
	}
	file := configFlag(check)
	check.RunE = func(c *cobra.Command, _ []string) error {
		s, err := p.source(c, *file).Load()
		if err != nil {
			return err
		}
		plan, err := checkConfig(c.Context(), s)
		if err != nil {
			return err
		}
		for _, warning := range config.ExposedSecrets(s) {
			p.eprintf("%s\n", "eyelet: warning: "+usage.OneLine(warning))
		}
		for i := range plan.Producers {
			for _, warning := range plan.Producers[i].Warnings() {
				p.eprintf("%s\n", "eyelet: warning: "+usage.OneLine(warning))
			}
		}
		if len(plan.Handlers) == 0 {
			p.eprintf("%s\n", "eyelet: warning: there are no handlers: events are accepted and kept, but not handled")
		}
		p.printf("%s: good: %s, %s\n", s.File, count(len(plan.Producers), "producer"),
			count(len(plan.Handlers), "handler"))
		return plan.Close()
	}
	c.AddCommand(check, configShowCommand(p))
	return c
}

// checkConfig builds what serve would serve, and loads the certificates.
func checkConfig(ctx context.Context, c *config.Settings) (*config.Plan, error) {
	plan, err := c.Build(ctx, config.BuildOptions{Stdout: io.Discard})
	o, _ := portOptions(c) // its error is in err
	o.Log = server.NewLog(io.Discard, "text", slog.LevelInfo)
	unfit := o.CheckCertificates()
	if len(unfit) == 0 {
		return plan, err
	}
	if err == nil {
		return nil, errors.Join(unfit.Err(), plan.Close())
	}
	found, _ := usage.Find(err)
	return nil, slices.Concat(found, unfit).Err()
}
