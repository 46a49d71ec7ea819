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
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

func (p *program) storeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "store", Short: "Check, repair, back up and restore the store", Args: cobra.NoArgs,
		Long: "Looks after the store on disk. The running server is asked through its operations port; when none\n" +
			"runs, the store is opened, for reading.",
	}
	c.AddCommand(p.storeCheckCommand(), p.storeBackupCommand(), p.storeRestoreCommand())
	return c
}

// storeSource is where a store is to be found: through a configuration, or in a directory.
type storeSource struct {
	config, dir *string
}

func (p *program) storeFlags(c *cobra.Command) storeSource {
	return storeSource{config: p.configFlag(c), dir: c.Flags().String("dir", "", "directory of the store, in place of the configuration's")}
}

// find returns how to ask the server that runs, or the directory of a store that nobody serves.
func (s storeSource) find(p *program, c *cobra.Command) (ask asking, dir string, err error) {
	if *s.dir != "" {
		return nil, *s.dir, nil
	}
	src := p.source(c, *s.config)
	src.Flags = &pflag.FlagSet{}
	src.Outline = true
	set, err := src.Load()
	if err != nil {
		return nil, "", err
	}
	kind, dir, err := set.StoreKind()
	if err != nil {
		return nil, "", usage.Errorf("", "%v", err)
	}
	if kind == "memory" {
		return nil, "", &usage.Error{At: set.Place("store"), What: "a store in memory is gone with its server", Hint: "write store: badger:DIR"}
	}
	return runningServer(set, c.Context()), dir, nil
}

// offline is what a store is opened with that nobody serves.
func offline() badgerstore.Options {
	return badgerstore.Options{Logger: slog.New(slog.DiscardHandler)}
}

// warned is offline with what a person must know of told on standard error.
func (p *program) warned() badgerstore.Options {
	o := offline()
	o.Logger = slog.New(slog.NewTextHandler(p.Err, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return o
}

// checked is the report of a check, and what was repaired before it. It is what the server answers, too.
type checked struct {
	badgerstore.Report
	Repaired []badgerstore.Repair `json:"repaired,omitempty"`
}

func (p *program) storeCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "Read every value and compare its checksum", Args: cobra.NoArgs,
		Long: "Reads everything in the store and compares all checksums: of the tables, of every value, and whether\n" +
			"the last commit is the last that was acknowledged. Exits 1 when something is wrong. After a crash\n" +
			"the logs of a store that nobody serves are put in order first, as any start does.\n\n" +
			"With --repair damaged values are given up: their keys stay known, and work that is lost with them\n" +
			"becomes a dead letter with the reason \"damaged\". `dead reopen` runs one again whose payload is still\n" +
			"there; `dead purge` forgets the key, so that the producer can deliver the event again.",
	}
	from, format := p.storeFlags(c), outputFlag(c)
	repair := c.Flags().Bool("repair", false, "give damaged values up, and make dead letters of lost work")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkOutput(*format); err != nil {
			return err
		}
		ask, dir, err := from.find(p, c)
		if err != nil {
			return err
		}
		r, err := checkStore(c.Context(), ask, dir, *repair)
		if err != nil {
			return err
		}
		if *format == "json" {
			line, err := json.Marshal(r)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(p.Out, "%s\n", line)
		} else if err := errors.Join(p.printReport(r.Report), p.printRepairs(r.Repaired)); err != nil {
			return err
		}
		if !r.Sound() {
			return failed("the store is damaged")
		}
		return nil
	}
	return c
}

// checkStore lets the server check its store, or checks the one in dir. A repair comes with the report of what it left,
// so that nothing is read once more for it.
func checkStore(ctx context.Context, ask asking, dir string, repair bool) (r checked, err error) {
	switch {
	case ask != nil && repair:
		return r, askFor(ctx, ask, http.MethodPost, "/store/repair", &r)
	case ask != nil:
		return r, askFor(ctx, ask, http.MethodGet, "/store/check", &r.Report)
	case repair:
		r.Repaired, r.Report, err = badgerstore.RepairDir(ctx, dir, offline())
	default:
		r.Report, err = badgerstore.Check(ctx, dir, offline())
	}
	if err != nil {
		return r, config.StoreError(usage.Place{}, err)
	}
	return r, nil
}

// askFor asks the server for something in JSON.
func askFor(ctx context.Context, ask asking, method, path string, to any) error {
	res, err := ask(ctx, method, path)
	if err != nil {
		return failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	if err := answered(res); err != nil {
		return err
	}
	if err := json.NewDecoder(res.Body).Decode(to); err != nil {
		return failed("the answer of the server cannot be read: %v", err)
	}
	return nil
}

func (p *program) printRepairs(all []badgerstore.Repair) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "\nREPAIRED\tEVENT\tDONE\n")
	for _, r := range all {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", r.Key, cmp.Or(r.Event, "-"), r.Done)
	}
	return t.Flush()
}

func (p *program) printReport(r badgerstore.Report) error {
	tables, water := "good", fmt.Sprintf("%d, last commit %d", r.Water, r.Commit)
	if r.Tables != "" {
		tables = "DAMAGED: " + usage.OneLine(r.Tables)
	}
	switch {
	case r.WaterUnknown != "":
		water = "UNKNOWN: its file is " + r.WaterUnknown
	case r.Lost:
		water = fmt.Sprintf("LOST: commit %d was acknowledged, the last one here is %d", r.Water, r.Commit)
	}
	census := "complete"
	if r.Missing != "" {
		census = "LOST: " + r.Missing
	}
	t := tabwriter.NewWriter(p.Out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "format\t%d\n", r.Format)
	_, _ = fmt.Fprintf(t, "records\t%d, %d of them older generations\n", r.Records, r.Older)
	_, _ = fmt.Fprintf(t, "tasks\t%d pending, %d running, %d done, %d dead\n", r.Pending, r.Running, r.Done, r.Dead)
	_, _ = fmt.Fprintf(t, "others\t%s, %s of large bodies\n", many(int(r.Aliases), "further name"), many(int(r.Pieces), "piece"))
	_, _ = fmt.Fprintf(t, "tables\t%s\n", tables)
	_, _ = fmt.Fprintf(t, "high water\t%s\n", water)
	_, _ = fmt.Fprintf(t, "census\t%s\n", census)
	_, _ = fmt.Fprintf(t, "damaged\t%s\n", many(len(r.Damaged), "value"))
	if len(r.Damaged) > 0 {
		_, _ = fmt.Fprintf(t, "\nSTATE\tEVENT\tKEY\tREASON\n")
	}
	for _, d := range r.Damaged {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", d.State, cmp.Or(d.Event, "-"), d.Key, usage.OneLine(d.Reason))
	}
	return t.Flush()
}

func (p *program) storeBackupCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "backup FILE", Short: "Write a backup, while the server runs or not", Args: cobra.ExactArgs(1),
		Long: "Writes everything that was accepted before the command began to FILE, or to standard output for \"-\".\n" +
			"With --since it writes what came after an earlier backup of the same store, which is named by its file\n" +
			"or by the position that was printed; restore takes the whole one and the increments in their order.\n" +
			"After a restore, begin with a whole backup. A backup holds payloads: keep it as safe as the store.",
	}
	from := p.storeFlags(c)
	since := c.Flags().String("since", "", "an earlier backup: its file, or the position that was printed")
	c.RunE = func(c *cobra.Command, args []string) error {
		after, err := backupSince(*since)
		if err != nil {
			return err
		}
		ask, dir, err := from.find(p, c)
		if err != nil {
			return err
		}
		var at badgerstore.Position
		write := func(w io.Writer) (err error) {
			if ask != nil {
				at, err = backupFrom(c.Context(), ask, w, after)
				return err
			}
			if at, err = badgerstore.BackupDir(c.Context(), dir, p.warned(), w, after); err != nil {
				return config.StoreError(usage.Place{}, err)
			}
			return nil
		}
		if args[0] == "-" {
			err = write(p.Out)
		} else {
			err = writeBackup(args[0], write)
		}
		if err == nil {
			_, _ = fmt.Fprintf(p.Err, "position %s; the next increment is --since %s\n", at, at)
		}
		return err
	}
	return c
}

// backupSince reads the position after which an increment begins.
func backupSince(text string) (badgerstore.Position, error) {
	if text == "" {
		return badgerstore.Position{}, nil
	}
	if at, err := badgerstore.ParsePosition(text); err == nil {
		return at, nil
	}
	f, err := os.Open(text)
	if err != nil {
		return badgerstore.Position{}, usage.Errorf("name the file of an earlier backup, or its position", "--since %s: %s", text, usage.Cause(err))
	}
	defer f.Close() //nolint:errcheck // it is only read
	at, err := badgerstore.BackupPosition(f)
	if err != nil {
		return badgerstore.Position{}, usage.Errorf("", "--since %s: %v", text, err)
	}
	return at, nil
}

// backupFrom copies a backup from the server that runs.
func backupFrom(ctx context.Context, ask asking, w io.Writer, since badgerstore.Position) (at badgerstore.Position, err error) {
	res, err := ask(ctx, http.MethodGet, "/store/backup?since="+url.QueryEscape(since.String()))
	if err != nil {
		return at, failed("the server did not answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	if err := answered(res); err != nil {
		return at, err
	}
	if _, err := io.Copy(w, res.Body); err != nil {
		return at, failed("the backup is not complete: %v", err)
	}
	if at, err = badgerstore.ParsePosition(res.Trailer.Get(backupTrailer)); err != nil {
		return at, failed("the backup is not complete: the server ended it early")
	}
	return at, nil
}

// writeBackup writes the file of a backup. That it cannot be made is the user's to change.
func writeBackup(path string, write func(io.Writer) error) error {
	var disk *fs.PathError
	err := writeWhole(path, write)
	if errors.As(err, &disk) {
		return usage.Errorf("", "%s: %s", path, usage.Cause(err))
	}
	return err
}

func (p *program) storeRestoreCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "restore BACKUP [INCREMENT...]", Short: "Make a store of backups", Args: cobra.MinimumNArgs(1),
		Long: "Makes a store in --dir, which must be empty or not exist, of a whole backup and the increments after it,\n" +
			"and checks it. Backups of another store, and increments that do not continue the one before them, are\n" +
			"refused. Events that were accepted after the last of them are gone: a repeated delivery of one is new.\n" +
			"What is restored is a store of its own, whose backups begin with a whole one.",
	}
	dir := c.Flags().String("dir", "", "directory to restore into")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *dir == "" {
			return usage.Errorf("name an empty directory", "--dir is missing")
		}
		var in []io.Reader
		for _, name := range args {
			if name == "-" {
				in = append(in, p.In)
				continue
			}
			f, err := os.Open(name)
			if err != nil {
				return usage.Errorf("", "%s: %s", name, usage.Cause(err))
			}
			defer f.Close() //nolint:errcheck // it is only read
			in = append(in, f)
		}
		if _, err := badgerstore.Restore(c.Context(), *dir, p.warned(), in...); err != nil {
			return config.StoreError(usage.Place{}, err)
		}
		r, err := badgerstore.Check(c.Context(), *dir, offline())
		if err != nil {
			return config.StoreError(usage.Place{}, err)
		}
		_, _ = fmt.Fprintf(p.Out, "%s: restored %s\n", *dir, many(int(r.Records), "record"))
		if !r.Sound() {
			return errors.Join(failed("the backup was made of a damaged store"), p.printReport(r))
		}
		return nil
	}
	return c
}

// maintained is a store that can be checked, repaired and backed up while it is served.
type maintained interface {
	Check(ctx context.Context) (badgerstore.Report, error)
	Repair(ctx context.Context) ([]badgerstore.Repair, badgerstore.Report, error)
	Backup(ctx context.Context, w io.Writer, since badgerstore.Position) (badgerstore.Position, error)
}

var _ maintained = (*badgerstore.Store)(nil)

// backupTrailer holds the position of a backup. It comes last, so that a backup without it is not whole.
const backupTrailer = "Eyelet-Backup-Position"

// maintenance serves checks, repairs and backups of the store to those who have the token.
func (s *server) maintenance() http.Handler {
	mux := http.NewServeMux()
	store, ok := s.store.(maintained)
	if !ok {
		return http.NotFoundHandler()
	}
	mux.HandleFunc("GET /store/check", reporting(func(ctx context.Context) (any, error) { return store.Check(ctx) }))
	mux.HandleFunc("POST /store/repair", reporting(func(ctx context.Context) (any, error) {
		repaired, report, err := store.Repair(ctx)
		if report.Tables != "" {
			err = nil // the report says so, as without a server
		}
		return checked{report, repaired}, err
	}))
	mux.HandleFunc("GET /store/backup", func(w http.ResponseWriter, r *http.Request) {
		since, err := badgerstore.ParsePosition(r.URL.Query().Get("since"))
		if err != nil && r.URL.Query().Has("since") {
			problem(w, http.StatusBadRequest, errors.New("since is no position of a backup"))
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		w.Header().Set("Trailer", backupTrailer)
		w.Header().Set("Content-Type", "application/octet-stream")
		counted := &counting{to: w}
		at, err := store.Backup(r.Context(), counted, since)
		switch {
		case err != nil && counted.n == 0:
			w.Header().Del("Trailer")
			problem(w, http.StatusConflict, err)
		case err != nil:
			s.log.Warn("a backup was not completed", "error", err)
		default:
			w.Header().Set(backupTrailer, at.String())
		}
	})
	return mux
}

// reporting answers with what a look at the whole store returns, which takes as long as the store is large.
func reporting(look func(context.Context) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		report, err := look(r.Context())
		if err != nil {
			problem(w, http.StatusServiceUnavailable, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report) // the client is gone
	}
}

// problem answers an error as the events API does.
func problem(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": usage.OneLine(err.Error())}) // the client is gone
}

// counting tells whether anything was written.
type counting struct {
	to io.Writer
	n  int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}
