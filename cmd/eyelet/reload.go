package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/server"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func reloadCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "reload", Short: "Let the running server read its configuration again", Args: cobra.NoArgs,
		Long: "Asks the running server to read its configuration again, waits, and prints every mistake. All of it\n" +
			"is applied, or nothing: after a mistake the server continues as before, and the exit code is 2.\n\n" +
			"A handler that was removed finishes the tasks that it has. With -o json the result is one object.",
	}
	file, format := configFlag(c), outputFlag(c)
	orphan := c.Flags().Bool("orphan", false, "make tasks of removed handlers dead letters instead")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, mistakes := p.loadOutline(c, *file) // the server reports them, with the others
		if s == nil {
			return mistakes
		}
		client, err := connectRunning(c.Context(), s)
		if err != nil {
			return cmp.Or(mistakes, err)
		}
		result, err := client.Reload(c.Context(), *orphan)
		if err != nil {
			return err
		}
		return printReload(p, result, *format)
	}
	return c
}

func printReload(p *program, result opsapi.Reload, format string) error {
	if format == "json" {
		if err := json.NewEncoder(p.Out).Encode(result); err != nil {
			return err
		}
		if !result.Reloaded {
			return &failure{code: exitUsage}
		}
		return nil
	}
	var found usage.Errors
	for _, e := range result.Errors {
		found.Add(usage.Place{File: e.File, Line: e.Line}, e.Hint, "%s", e.Message)
	}
	if len(found) > 0 {
		p.eprintf("eyelet: the configuration was not reloaded, and the last one stays in use\n")
		return found.Err()
	}
	for _, warning := range result.Warnings {
		p.eprintf("eyelet: warning: %s\n", usage.OneLine(warning))
	}
	for _, name := range result.Retired {
		p.eprintf("eyelet: the removed handler %q finishes the tasks that it has\n", name)
	}
	p.printf("reloaded: %s, %s\n", count(result.Producers, "producer"), count(result.Handlers, "handler"))
	return nil
}

// reloader reads the configuration of a server again.
type reloader struct {
	*program
	src config.Source
	log *server.Log

	mu    sync.Mutex
	watch bool       // of the last configuration without mistakes
	files conf.Files // of the last attempt
	seen  conf.Files // by the last look
}

// note remembers the files of settings, and those of the attempt before if these have mistakes.
func (r *reloader) note(s *config.Settings, sound bool) {
	files := s.Files()
	r.mu.Lock()
	defer r.mu.Unlock()
	if sound {
		r.watch, r.files = s.Reload == "watch", files
		return
	}
	maps.Copy(r.files, files)
}

// lookEvery is the time between two looks at the files of a configuration.
const lookEvery = time.Second

// watchFiles calls reload when a file has changed, until ctx ends.
func (r *reloader) watchFiles(ctx context.Context, reload func()) {
	looks := r.Looks
	if looks == nil {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		looks = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
		}
		if r.look() {
			reload()
		}
	}
}

// look reports whether this look and the last one agree that a file has changed. What was tried is
// not tried again.
func (r *reloader) look() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.seen
	if r.seen = nil; !r.watch {
		return false
	}
	now := r.files.Look()
	r.seen = now
	if now.Equal(r.files) || !now.Equal(last) {
		return false
	}
	maps.Copy(r.files, now)
	return true
}

// from returns what reads the configuration again, for the place of these settings and their plan.
func (r *reloader) from(
	used *config.Settings, plan *config.Plan,
) func(context.Context) (server.Options, error) {
	r.note(used, true)
	return func(ctx context.Context) (server.Options, error) {
		s, err := r.src.Load()
		if s == nil {
			return server.Options{}, err
		}
		defer r.note(s, false)
		next, o, err := r.optionsAfter(ctx, s, plan, r.log) // it reports the errors of Load, too
		found, ok := usage.Find(err)
		if err != nil && !ok {
			return server.Options{}, err
		}
		if found = append(found, config.CheckReload(s, used)...); len(found) > 0 {
			if next != nil {
				err = next.Close()
			}
			return server.Options{}, errors.Join(found.Err(), err)
		}
		o.Warnings = config.Exposed(s)
		o.Reread = r.from(s, next)
		return o, nil
	}
}
