package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/receiver"
)

func handlersCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "handlers [list | pause NAME | resume NAME]", Short: "List the handlers, or pause or resume one",
		Long: "The tasks of a paused handler wait in the store, also after a restart, and those that run finish.\n" +
			"Receivers of one database pause it together. resume also ends the pause of a breaker.\n\n" +
			"The running server is asked through its operations port; when none runs, the store is opened.",
	}
	file, format := configFlag(c), listFlag(c)
	reason := c.Flags().String("reason", "", "with pause: why")
	c.Args = func(_ *cobra.Command, args []string) error {
		lists := len(args) == 0 || len(args) == 1 && args[0] == "list"
		changes := len(args) == 2 && (args[0] == "pause" || args[0] == "resume")
		if !lists && !changes || *reason != "" && (lists || args[0] != "pause") {
			return errors.New("neither list, pause nor resume")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		do := func(client *opsclient.Client) error {
			if len(args) < 2 {
				return listHandlers(c.Context(), p, client, *format)
			}
			err := client.SetHandler(c.Context(), args[0], inspect.HandlerRequest{Handler: args[1], Reason: *reason})
			if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok {
				return usage.Errorf("`eyelet handlers` names them", "%v", refusal)
			} else if err != nil {
				return err
			}
			paused := args[0] == "pause"
			words := map[bool]string{true: "is paused", false: "runs"}[paused]
			result := map[string]any{"handler": args[1], "paused": paused}
			return p.result(*format, result, "handler %s %s\n", args[1], words)
		}
		return p.withServer(c, *file, do, func(s *config.Settings) error {
			return withHandlersAlone(c, p, s, *file, do)
		})
	}
	return c
}

func listHandlers(ctx context.Context, p *program, client *opsclient.Client, format string) error {
	all, err := client.Handlers(ctx)
	if err != nil {
		return err
	}
	t := p.table(format, "HANDLER", "STATE", "BY", "REASON")
	for _, h := range all {
		if format == "json" {
			if err := p.encode(h); err != nil {
				return err
			}
			continue
		}
		state := "runs"
		if h.Paused {
			state = "paused since " + t.Time(h.Since)
		}
		t.Row(sanitize(h.Handler), table.State(state), h.By, sanitize(usage.OneLine(h.Reason)))
	}
	return t.Write(p.Out)
}

// withHandlersAlone calls do with a client of the handlers of the configuration and the store.
func withHandlersAlone(c *cobra.Command, p *program, s *config.Settings, file string,
	do func(*opsclient.Client) error) error {
	if err := requireStore(s); err != nil {
		return err
	}
	src := p.source(c, file)
	src.Flags = &pflag.FlagSet{} // --reason is not a setting
	s, plan, err := buildPlan(c.Context(), src, true)
	if err != nil {
		return err
	}
	defer plan.Close() //nolint:errcheck // nothing was opened
	store, err := s.OpenStore(c.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	cfg := plan.Config
	cfg.Store, cfg.Logger = store, slog.New(slog.DiscardHandler)
	rx, err := receiver.Idle(cfg)
	if err == nil {
		err = do(opsclient.New(inspect.HandlersAPI(rx)))
	}
	return errors.Join(err, store.Close())
}
