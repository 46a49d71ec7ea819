package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func storeMigrateCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "migrate", Short: "Make the tables of a store in PostgreSQL", Args: cobra.NoArgs,
		Long: "Makes the tables of a store in PostgreSQL in one transaction. serve never does.\n" +
			"It needs the right to create a schema, or tables in one that exists: set\n" +
			"EYELET_STORE to connect as another user than serve. It may run while servers do, and twice.\n\n" +
			"With --print it prints the statements instead and connects to nothing.",
	}
	file, format := configFlag(c), outputFlag(c)
	printed := c.Flags().Bool("print", false, "print the statements instead of running them")
	from := c.Flags().Int("from", 0, "with --print: the version of the tables that exist")
	c.RunE = func(c *cobra.Command, _ []string) error {
		set, err := p.loadOutline(c, *file)
		if err != nil {
			return err
		}
		kind, _, err := storeKind(set)
		switch {
		case err != nil:
			return err
		case kind != "postgres":
			return &usage.Error{At: set.Place("store"), What: "only a store in PostgreSQL has tables",
				Hint: "a store in files needs none: `eyelet serve` creates it"}
		case *from != 0 && *from != pgstore.Version:
			return usage.Errorf("", "--from is neither 0 nor %d: other tables cannot be changed", pgstore.Version)
		case *printed:
			p.printf("%s", pgstore.MigrationSQL(set.Schema, *from))
			return nil
		}
		if err := set.MigrateStore(c.Context()); err != nil {
			return err
		}
		return p.result(*format, map[string]any{"store": set.StoreName(), "version": pgstore.Version},
			"%s: the tables have version %d\n", set.StoreName(), pgstore.Version)
	}
	return c
}

// storeKind returns the kind of the configured store, and its directory if it is in files.
func storeKind(set *config.Settings) (kind, dir string, err error) {
	if kind, dir, err = set.StoreKind(); err != nil {
		return "", "", &usage.Error{At: set.Place("store"), What: err.Error()}
	}
	return kind, dir, nil
}

// postgres returns the settings if they name a store in PostgreSQL, and --dir no other one.
func (s storeSource) postgres(p *program, c *cobra.Command) (*config.Settings, error) {
	if *s.dir != "" {
		return nil, nil
	}
	set, err := p.loadOutline(c, *s.config)
	if err != nil {
		return nil, err
	}
	if kind, _, err := storeKind(set); err != nil || kind != "postgres" {
		return nil, err
	}
	return set, nil
}

// notInFiles returns the error of a command that a store in PostgreSQL has not, with what to do
// instead.
func notInFiles(command string, set *config.Settings) error {
	name := cmp.Or(set.Schema, pgstore.DefaultSchema)
	e := &usage.Error{At: set.Place("store"), What: "PostgreSQL makes the backups of this store",
		Hint: fmt.Sprintf("pg_dump --username=USER --format=custom --schema=%s --file=FILE %s",
			httpfile.Quoted(`"`+strings.ReplaceAll(name, `"`, `""`)+`"`), httpfile.Quoted(set.StoreName()))}
	if command == "check" {
		e.What = "the tables of a store in PostgreSQL are not repaired"
		e.Hint = "restore a backup with pg_restore, and see docs/postgres.md for what comes after"
	}
	return e
}

// checkPostgres prints what is wrong in the tables.
func checkPostgres(ctx context.Context, w io.Writer, set *config.Settings, format string) error {
	r, err := set.CheckStore(ctx)
	if err != nil {
		return err
	}
	if format == "json" {
		_ = json.NewEncoder(w).Encode(r) // the exit code has the result
	} else if err := printTables(w, &r); err != nil {
		return err
	}
	if !r.Sound() {
		return failf("the store is damaged")
	}
	return nil
}

func printTables(w io.Writer, r *pgstore.Report) error {
	var facts table.Table
	facts.Row("schema", fmt.Sprintf("%s, version %d", sanitize(r.Schema), r.Version))
	facts.Row("records", fmt.Sprintf("%d, %d of them older generations", r.Events, r.Older))
	facts.Row("tasks", fmt.Sprintf("%d pending, %d running, %d done, %d dead", r.Pending, r.Running, r.Done, r.Dead))
	facts.Row("others", count(int(r.Aliases), "alias")+", "+count(int(r.Traces), "remembered key"))
	facts.Row("broken", count(len(r.Broken), "promise"))
	broken := table.Table{Above: "\n", Heads: []string{"BROKEN", "TIMES", "EVENTS"}}
	for _, b := range r.Broken {
		broken.Row(b.What, b.Count, strings.Join(b.Events, " "))
	}
	return errors.Join(facts.Write(w), broken.Write(w))
}

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
		p.printf("%s: %s, %s, %s, %s and %s were copied from %s\n", set.StoreName(), count(int(out.Events), "event"),
			count(int(out.Tasks), "task"), count(int(out.Aliases), "alias"),
			count(int(out.Remembered), "remembered key"), count(int(out.Notes), "note"), *from)
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
