package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/forward"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func targetsCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "targets [NAME on|off]", Short: "List the targets of forward handlers, or switch one on or off",
		Long: "A target has the name of its handler. One that answers 410, or refuses too many events in a row for\n" +
			"good, is switched off: its events wait until `eyelet targets NAME on`. The running server is asked\n" +
			"through its operations port; when none runs, the file in the store's folder is changed.",
	}
	file, format := configFlag(c), listFlag(c)
	reason := c.Flags().String("reason", "a person switched it off", "why it is off")
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 || slices.Equal(args, []string{"list"}) { // list is the old form
			return nil
		}
		if _, to := targetSwitch(args); to == "" {
			return errors.New("neither on nor off")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		name, to := targetSwitch(args)
		return withTargets(c, p, *file, to != "", func(client *opsclient.Client) error {
			if to != "" {
				return switchTarget(c.Context(), p, client, name, to, *reason, *format)
			}
			return printTargets(c.Context(), p, client, *format)
		})
	}
	return c
}

// targetSwitch returns the name of a target and on or off, or "" where the arguments switch none.
// The old form has the name last.
func targetSwitch(args []string) (name, to string) {
	if len(args) != 2 {
		return "", ""
	}
	for i, word := range []string{args[1], args[0]} {
		if word == "on" || word == "off" {
			return args[i], word
		}
	}
	return "", ""
}

func switchTarget(ctx context.Context, p *program, client *opsclient.Client, name, to, reason, format string) error {
	err := client.SwitchTarget(ctx, name, to, reason)
	if refusal, ok := errors.AsType[*opsclient.Refusal](err); ok && refusal.Status == http.StatusNotFound {
		return usage.Errorf("`eyelet targets` names them", "no target is called %q", name)
	} else if err != nil {
		return err
	}
	err = p.result(format, map[string]any{"target": name, "on": to == "on"}, "target %s is switched %s\n", name, to)
	if to == "on" {
		p.eprintf("its events continue within %s; at once with: eyelet events retry --handler '%s'\n",
			duration.Rough(forward.LongestOffWait), name)
	}
	return err
}

func printTargets(ctx context.Context, p *program, client *opsclient.Client, format string) error {
	all, err := client.Targets(ctx)
	if err != nil {
		return err
	}
	if format == "json" {
		for _, t := range all {
			if err := p.encode(t); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(p.Err, "no targets: no handler has the setting forward")
		return err
	}
	list := p.table(format, "TARGET", "STATE", "REFUSED IN A ROW", "NOTES")
	for _, t := range all {
		state := "on"
		if !t.On {
			state = "off since " + list.Time(t.Since)
		}
		list.Row(sanitize(t.Name), table.State(state), t.Terminals, sanitize(strings.Join(targetNotes(t), "; ")))
	}
	return list.Write(p.Out)
}

func targetNotes(t opsapi.Target) (notes []string) {
	if t.Reason != "" {
		notes = append(notes, usage.OneLine(t.Reason))
	}
	if t.Moved != "" {
		notes = append(notes, "moved to "+t.Moved)
	}
	if !t.Sunset.IsZero() {
		notes = append(notes, "ends "+t.Sunset.Format(time.RFC3339))
	}
	if !t.Legal.IsZero() {
		notes = append(notes, "answered 451 at "+t.Legal.Format(time.RFC3339))
	}
	return notes
}

// withTargets calls do with a client of the running server, or without one of the file of targets.
func withTargets(c *cobra.Command, p *program, file string, changes bool, do func(*opsclient.Client) error) error {
	return p.withServer(c, file, do, func(s *config.Settings) error {
		return withTargetsAlone(c, p, s, file, changes, do)
	})
}

// withTargetsAlone locks the store and works on its file of targets. Only a change creates a store.
func withTargetsAlone(c *cobra.Command, p *program, s *config.Settings, file string, changes bool,
	do func(*opsclient.Client) error) error {
	missing := requireStore(s)
	kind, dir, err := s.StoreKind()
	if missing != nil && (err != nil || kind == "memory") {
		return missing
	}
	src := p.source(c, file)
	src.Flags = &pflag.FlagSet{}                      // --reason is not a setting
	s, plan, err := buildPlan(c.Context(), src, true) // without a server the handlers name the targets
	if err != nil {
		return err
	}
	defer plan.Close() //nolint:errcheck // nothing was opened
	client := opsclient.New(server.TargetsAPI(plan.Targets))
	if missing != nil && !changes {
		return do(client) // nothing is known about them yet
	}
	// the lock of the store also protects the file
	store, err := s.OpenStore(c.Context(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := server.OpenTargets(plan.Targets, store, dir, nil); err != nil {
		return errors.Join(err, store.Close())
	}
	return errors.Join(do(client), store.Close())
}
