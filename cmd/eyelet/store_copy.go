package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func storeCopyCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "copy", Short: "Copy a store in files into PostgreSQL", Args: cobra.NoArgs,
		Long: "Copies everything in a store in files into the empty tables of a store in PostgreSQL: every\n" +
			"delivery is then answered as before, and events keep their ids, attempts and windows. The server of\n" +
			"the old store must be stopped; its files stay as they are. The user must own the tables, so run\n" +
			"`eyelet store migrate` first.\n\n" +
			"When the command was interrupted, run it again: it begins again. Until it has finished, no server\n" +
			"opens the new store.",
	}
	file, format := configFlag(c), outputFlag(c)
	from := c.Flags().String("from", "", "the old store: badger:DIR")
	to := c.Flags().String("to", "", "the new store: postgres://..., instead of the configuration's")
	shown := c.Flags().Bool("progress", false, "print how far it is, once a second; on a terminal it always is")
	c.RunE = func(c *cobra.Command, _ []string) error {
		dir, ok := strings.CutPrefix(*from, "badger:")
		if !ok || dir == "" {
			return usage.Errorf("write --from badger:DIR", "--from is not a store in files")
		}
		set, err := copyTarget(p, c, *file, *to)
		if err != nil {
			return err
		}
		out, err := copyStore(c.Context(), p, dir, set, *shown)
		switch {
		case err != nil:
			return err
		case *format == "json":
			return json.NewEncoder(p.Out).Encode(out)
		}
		p.printf("%s: %s, %s, %s and %s were copied from %s\n", set.StoreName(), count(int(out.Events), "event"),
			count(int(out.Tasks), "task"), count(int(out.Aliases), "alias"),
			count(int(out.Remembered), "remembered key"), *from)
		return nil
	}
	return c
}

// copyTarget returns the settings of the new store.
func copyTarget(p *program, c *cobra.Command, file, to string) (*config.Settings, error) {
	src := p.source(c, file)
	src.Flags, src.Outline = &pflag.FlagSet{}, true
	if to != "" {
		src.Environ = append(slices.Clone(src.Environ), "EYELET_STORE="+to)
	}
	set, err := src.Load()
	if err != nil {
		return nil, err
	}
	kind, _, err := storeKind(set)
	if err == nil && kind != "postgres" {
		err = &usage.Error{At: set.Place("store"), What: "the new store is not one in PostgreSQL",
			Hint: "write store: postgres://user@host/database, or name it with --to"}
	}
	return set, err
}

// copyStore copies the store in dir.
func copyStore(
	ctx context.Context, p *program, dir string, set *config.Settings, shown bool,
) (out pgstore.Copied, err error) {
	var failed error
	err = badgerstore.Export(ctx, dir, quietOptions(), func(from *dedup.Source) error {
		bar := newProgress(p, shown, "copied", int(from.Events))
		out, failed = pgstore.Copy(ctx, set.Store, set.Schema, from, func(events int64) { bar.at(int(events)) })
		bar.end(int(out.Events))
		return failed
	})
	switch {
	case failed == nil && err != nil:
		return out, config.StoreError(usage.Place{File: "--from"}, err)
	case failed == nil:
		return out, nil
	case ctx.Err() != nil:
		return out, failf("interrupted: run the command again, it begins again")
	case out == (pgstore.Copied{}):
		return out, set.PostgresError(failed)
	}
	return out, failf("%v", failed)
}
