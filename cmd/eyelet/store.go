package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsclient"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/table"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

func storeCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "store", Short: "Check, repair, back up, restore, migrate and copy the store", Args: cobra.NoArgs,
		Long: "Maintains the store. For a store in files the running server is asked through its operations port;\n" +
			"when none runs, the store is opened for reading. A database is asked itself.",
	}
	c.AddCommand(storeCheckCommand(p), storeBackupCommand(p), storeRestoreCommand(p), storeMigrateCommand(p),
		storeCopyCommand(p))
	return c
}

// storeSource is the configuration or the directory of a store.
type storeSource struct {
	config, dir *string
}

func storeFlags(c *cobra.Command) storeSource {
	return storeSource{config: configFlag(c), dir: c.Flags().String("dir", "",
		"directory of the store, instead of the configuration's")}
}

// find returns a client of the running server, or the directory of a store that is not served.
func (s storeSource) find(p *program, c *cobra.Command) (client *opsclient.Client, dir string, err error) {
	if *s.dir != "" {
		return nil, *s.dir, nil
	}
	set, err := p.loadOutline(c, *s.config)
	if err != nil {
		return nil, "", err
	}
	kind, dir, err := storeKind(set)
	if err != nil {
		return nil, "", err
	}
	switch kind {
	case "memory":
		return nil, "", &usage.Error{At: set.Place("store"), What: "a store in memory is gone with its server",
			Hint: "write store: badger:DIR"}
	case "postgres":
		return nil, "", notInFiles(c.Name(), set)
	}
	client, _ = connect(c.Context(), set) // opening the store reports why a server refuses us
	return client, dir, nil
}

// quietOptions open a store that is not served.
func quietOptions() badgerstore.Options {
	return badgerstore.Options{Logger: slog.New(slog.DiscardHandler)}
}

// loggedOptions are quietOptions that log to w what is of a level or above.
func loggedOptions(w io.Writer, level slog.Level) badgerstore.Options {
	o := quietOptions()
	o.Logger = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	return o
}

func storeCheckCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "Read every value and compare its checksum", Args: cobra.NoArgs,
		Long: "Reads everything in the store and compares all checksums: of the files and of every value. Checks\n" +
			"that everything is there that the last commit counted. Exits 1 when something is wrong. After a\n" +
			"crash the redo log of a store that is not served is applied first, as at any start.\n\n" +
			"Of a store in PostgreSQL it checks what the tables promise, while receivers run or not, also on a\n" +
			"standby.\n\n" +
			"With --repair damaged values are dropped: their keys stay known, and lost work becomes a dead\n" +
			"letter with the reason \"damaged\". `events reopen` runs it again if its payload is still there;\n" +
			"`events forget` forgets the key, so that the producer can deliver the event again.",
	}
	from, format := storeFlags(c), outputFlag(c)
	repair := c.Flags().Bool("repair", false, "drop damaged values, and make dead letters of lost work")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if set, err := from.postgres(p, c); err != nil {
			return err
		} else if set != nil && !*repair {
			return checkPostgres(c.Context(), p.Out, set, *format)
		}
		client, dir, err := from.find(p, c)
		if err != nil {
			return err
		}
		r, err := checkStore(c.Context(), client, dir, *repair)
		if err != nil {
			return err
		}
		if *format == "json" {
			_ = json.NewEncoder(p.Out).Encode(r) // the exit code has the result
		} else if err := errors.Join(printReport(p.Out, r.Report), printRepairs(p.Out, r.Repaired)); err != nil {
			return err
		}
		if !r.Sound() {
			return failf("the store is damaged")
		}
		return nil
	}
	return c
}

// checkStore lets the server check its store, or checks the one in dir. A repair returns the
// report after it, so that the store is not read again.
func checkStore(ctx context.Context, client *opsclient.Client, dir string, repair bool) (r opsapi.CheckReport,
	err error) {
	switch {
	case client != nil && repair:
		return client.Repair(ctx)
	case client != nil:
		return client.Check(ctx)
	case repair:
		r.Repaired, r.Report, err = badgerstore.RepairDir(ctx, dir, quietOptions())
	default:
		r.Report, err = badgerstore.Check(ctx, dir, quietOptions())
	}
	if err != nil {
		return r, config.StoreError(usage.Place{}, err)
	}
	return r, nil
}

func printRepairs(w io.Writer, all []badgerstore.Repair) error {
	t := table.Table{Above: "\n", Heads: []string{"REPAIRED", "EVENT", "DONE"}}
	for _, r := range all {
		t.Row(r.Key, cmp.Or(r.Event, "-"), r.Done)
	}
	return t.Write(w)
}

func printReport(w io.Writer, r badgerstore.Report) error {
	tables := "good"
	if r.Tables != "" {
		tables = "DAMAGED: " + usage.OneLine(r.Tables)
	}
	census := "complete"
	if r.Missing != "" {
		census = "LOST: " + r.Missing
	}
	var facts table.Table
	facts.Row("format", r.Format)
	facts.Row("records", fmt.Sprintf("%d, %d of them older generations", r.Records, r.Older))
	facts.Row("tasks", fmt.Sprintf("%d pending, %d running, %d done, %d dead", r.Pending, r.Running, r.Done, r.Dead))
	facts.Row("others", fmt.Sprintf("%s, %s of large bodies", count(int(r.Aliases), "alias"),
		count(int(r.Bodies), "large body")))
	facts.Row("files", tables)
	facts.Row("census", census)
	facts.Row("damaged", count(len(r.Damaged), "value"))
	damaged := table.Table{Above: "\n", Heads: []string{"STATE", "EVENT", "KEY", "REASON"}}
	for _, d := range r.Damaged {
		damaged.Row(d.State, cmp.Or(d.Event, "-"), d.Key, usage.OneLine(d.Reason))
	}
	return errors.Join(facts.Write(w), damaged.Write(w))
}

func storeBackupCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "backup FILE", Short: "Write a backup, while the server runs or not", Args: cobra.ExactArgs(1),
		Long: "Writes everything that was accepted before the command began to FILE, or to standard output for\n" +
			"\"-\". A backup holds payloads: keep it as safe as the store.",
	}
	from, format := storeFlags(c), outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if args[0] == "-" && *format == "json" {
			return usage.Errorf("name a FILE", "the backup and the result cannot both be standard output")
		}
		client, dir, err := from.find(p, c)
		if err != nil {
			return err
		}
		write := func(w io.Writer) error {
			if client != nil {
				return client.Backup(c.Context(), w)
			}
			o := loggedOptions(p.Err, slog.LevelWarn)
			if err := badgerstore.BackupDir(c.Context(), dir, o, w); err != nil {
				return config.StoreError(usage.Place{}, err)
			}
			return nil
		}
		if args[0] == "-" {
			return write(p.Out)
		}
		if err := writeBackup(args[0], write); err != nil {
			return err
		}
		return p.result(*format, map[string]any{"file": args[0]}, "%s: backed up\n", args[0])
	}
	return c
}

// writeBackup writes the file of a backup. A disk error is a usage error.
func writeBackup(path string, write func(io.Writer) error) error {
	var disk *fs.PathError
	err := atomicfile.Write(path, write)
	if errors.As(err, &disk) {
		return usage.Errorf("", "%s: %s", path, usage.Cause(err))
	}
	return err
}

func storeRestoreCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "restore BACKUP", Short: "Restore a store from a backup", Args: cobra.ExactArgs(1),
		Long: "Restores a backup, or standard input for \"-\", into --dir, which must be empty or not exist, and\n" +
			"checks the store. Events that were accepted after the backup are gone: a repeated delivery of one\n" +
			"is new.",
	}
	dir, format := c.Flags().String("dir", "", "directory to restore into"), outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *dir == "" {
			return usage.Errorf("name an empty directory; pg_restore restores a store in PostgreSQL",
				"--dir is missing")
		}
		in := p.In
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return usage.Errorf("", "%s: %s", args[0], usage.Cause(err))
			}
			defer f.Close() //nolint:errcheck // it is only read
			in = f
		}
		if err := badgerstore.Restore(c.Context(), *dir, loggedOptions(p.Err, slog.LevelWarn), in); err != nil {
			return config.StoreError(usage.Place{}, err)
		}
		r, err := badgerstore.Check(c.Context(), *dir, quietOptions())
		if err != nil {
			return config.StoreError(usage.Place{}, err)
		}
		err = p.result(*format, map[string]any{"dir": *dir, "records": r.Records, "sound": r.Sound()},
			"%s: restored %s\n", *dir, count(int(r.Records), "record"))
		if !r.Sound() {
			return errors.Join(failf("the backup was made of a damaged store"), printReport(p.Err, r))
		}
		return err
	}
	return c
}
