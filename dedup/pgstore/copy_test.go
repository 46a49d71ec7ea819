package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// badgerOptions are the options of the stores that are copied.
func badgerOptions(clock dedup.Clock) badgerstore.Options {
	return badgerstore.Options{
		Logger: slog.New(slog.DiscardHandler), Clock: clock, AcceptClock: true,
		RecoverWait: func(int) time.Duration { return 0 },
	}
}

func openBadger(t testing.TB, dir string, clock dedup.Clock) *badgerstore.Store {
	t.Helper()
	s, err := badgerstore.Open(dir, badgerOptions(clock))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// copyTarget returns a schema for a copy. No other test gets it, because its sequences are used. It
// is left to the server: statements of a copy that was interrupted may still run.
func copyTarget(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn, schema = pgtest.DSN(t), fmt.Sprintf("Copy %d-%d", os.Getpid(), schemas.Add(1))
	if err := Migrate(t.Context(), dsn, schema); err != nil {
		t.Fatal(err)
	}
	return dsn, schema
}

// long skips a test without EYELET_LONG.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("EYELET_LONG") == "" {
		t.Skip("it takes long: set EYELET_LONG=1")
	}
}

// execute runs a statement on a connection of its own.
func execute(t testing.TB, dsn, schema, sql string, args ...any) {
	t.Helper()
	ctx := context.Background()
	c := connected(t, dsn)
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, inSchema(sql, schema), args...); err != nil {
		t.Fatal(err)
	}
}

// exported calls use with the content of a store that is closed.
func exported(t testing.TB, dir string, clock dedup.Clock, use func(*dedup.Source) error) error {
	t.Helper()
	return badgerstore.Export(t.Context(), dir, badgerOptions(clock), use)
}

func TestACopyGoesThroughPgBouncer(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Pooler(t)
	dir, clock := t.TempDir(), deduptest.NewClock()
	f := newFiller(t, openBadger(t, dir, clock), clock)
	f.fill(300)
	f.close()
	_, schema := copyTarget(t)
	err := exported(t, dir, clock, func(from *dedup.Source) error {
		_, err := Copy(t.Context(), dsn, schema, from, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	accepts(t, dsn, schema)
}

// TestACopyBeginsAgainAfterEveryInterruption interrupts copies between their transactions, in them,
// and at their commits.
func TestACopyBeginsAgainAfterEveryInterruption(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), deduptest.NewClock()
	f := newFiller(t, openBadger(t, dir, clock), clock)
	f.fill(600)
	f.close()
	f.must(exported(t, dir, clock, func(from *dedup.Source) error {
		interruptions(t, from)
		return nil
	}))
}

func interruptions(t *testing.T, from *dedup.Source) {
	t.Helper()
	dsn, schema := copyTarget(t)
	want, err := Copy(t.Context(), dsn, schema, from, nil)
	if err != nil || want.Events < copyItems {
		t.Fatalf("%+v: %v", want, err)
	}
	again := func(what string) {
		t.Helper()
		_, err := Open(t.Context(), dsn, Options{Schema: schema})
		if err == nil || !strings.Contains(err.Error(), "is not finished") {
			t.Fatalf("%s: Open of an unfinished copy: %v", what, err)
		}
		if got, err := Copy(t.Context(), dsn, schema, from, nil); err != nil || got != want {
			t.Fatalf("%s: the second call: %+v, want %+v: %v", what, got, want, err)
		}
		accepts(t, dsn, schema)
	}
	for _, n := range []int{0, copyItems + 1} { // in the first and the second transaction
		for _, cut := range []bool{false, true} {
			dsn, schema = copyTarget(t)
			ctx, cancel := context.WithCancel(t.Context())
			_, err := Copy(ctx, dsn+" application_name='"+schema+"'", schema, stopping(from, n, func() {
				if !cut {
					cancel()
					return
				}
				execute(t, dsn, schema, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = '`+schema+`'`)
			}), nil)
			if cancel(); err == nil {
				t.Fatalf("interrupted at item %d (cut %t): no error", n, cut)
			}
			again(fmt.Sprintf("item %d (cut %t)", n, cut))
		}
	}
	const begins, writes, finishes = "copy DEFAULT", "FOR SHARE", "DELETE FROM %s.copy WHERE"
	for _, mark := range []string{begins, writes, finishes} { // at their commits
		for _, reaches := range []bool{false, true} {
			dsn, schema = copyTarget(t)
			proxy := newCutter(t, dsn, reaches)
			proxy.arm(strings.ReplaceAll(mark, "%s", pgx.Identifier{schema}.Sanitize()))
			what := fmt.Sprintf("%s (reaches %t)", mark, reaches)
			if _, err := Copy(t.Context(), proxy.dsn, schema, from, nil); err == nil || proxy.cuts.Load() != 1 {
				t.Fatalf("cut at %s: %v", what, err)
			}
			switch {
			case mark == begins && !reaches:
				accepts(t, dsn, schema)
			case mark == finishes && reaches:
				accepts(t, dsn, schema)
				if _, err := Copy(t.Context(), dsn, schema, from, nil); !errors.Is(err, dedup.ErrInvalid) {
					t.Fatalf("copy into the tables of a copy that is finished: %v", err)
				}
			default:
				again(what)
			}
		}
	}
}

// accepts opens a store and requires that it accepts an event.
func accepts(t *testing.T, dsn, schema string) {
	t.Helper()
	s := opened(t, dsn, Options{Schema: schema})
	defer s.Close()
	d, err := s.Claim(t.Context(), event("another"))
	if err == nil {
		err = s.Purge(t.Context(), d[0].Record.Event)
	}
	if err != nil {
		t.Error(err)
	}
}

// oneEvent is a store in files with one event.
func oneEvent(t *testing.T, id string, clock *deduptest.Clock) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f := newFiller(t, openBadger(t, dir, clock), clock)
	f.claim(f.plainOf(id, "done"))
	f.close()
	return dir
}

func TestACopyRefusesTablesThatAreInUse(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	dirs := []string{oneEvent(t, "of the first", clock), oneEvent(t, "of the second", clock)}
	into := func(dir, dsn, schema string) (out Copied, err error) {
		return out, exported(t, dir, clock, func(from *dedup.Source) (err error) {
			out, err = Copy(t.Context(), dsn, schema, from, nil)
			return err
		})
	}
	refused := func(dir, dsn, schema, why string) {
		t.Helper()
		_, err := into(dir, dsn, schema)
		if !errors.Is(err, dedup.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}

	dsn, schema := copyTarget(t)
	open := opened(t, dsn, Options{Schema: schema})
	own := claim(t, open, event("own"), dedup.New)
	refused(dirs[0], dsn, schema, "it has events")
	if err := open.Purge(t.Context(), own.Record.Event); err != nil {
		t.Fatal(err)
	}

	// While the copy is unfinished, a store that was open before does not accept anything, and a
	// copy of another store takes its place.
	err := exported(t, dirs[0], clock, func(from *dedup.Source) error {
		_, err := Copy(t.Context(), dsn, schema, from, func(int64) {
			_, err := open.Claim(t.Context(), event("own"))
			wantUnavailable(t, "Claim while a copy is unfinished", err)
			if _, err := open.Take(t.Context(), dedup.Want{Tasks: 1, Bytes: 1, Lease: time.Minute}); err == nil {
				t.Error("a task was taken from an unfinished copy")
			}
			if out, err := into(dirs[1], dsn, schema); err != nil || out.Events != 1 {
				t.Errorf("%+v, %v", out, err)
			}
		})
		return err
	})
	if !errors.Is(err, dedup.ErrInvalid) || !strings.Contains(err.Error(), "another copy") {
		t.Errorf("a copy whose place another one took: %v", err)
	}
	if d := claim(t, open, event("own"), dedup.New); d.Record.Seq <= 1 {
		t.Errorf("Claim after the copy: %+v", d)
	}
	refused(dirs[1], dsn, schema, "of a copy that is finished")
}

// Rows that a transaction writes while a copy begins are kept, and the copy is not begun.
func TestACopyGivesWayToWhatIsBeingAccepted(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	clock := deduptest.NewClock()
	dir := oneEvent(t, "late", clock)
	dsn, schema := copyTarget(t)
	open := openAt(t, dsn, schema, clock)
	exec := admin(t, open, dsn)
	exec(`BEGIN; SELECT nextval('{{schema}}.seq')`)
	ended := make(chan error, 1)
	go func() {
		ended <- exported(t, dir, clock, func(from *dedup.Source) error {
			_, err := Copy(t.Context(), dsn+" application_name='"+schema+"'", schema, from, nil)
			return err
		})
	}()
	awaitLock(t, open, schema)
	exec(`INSERT INTO {{schema}}.trace VALUES ('', 1, 1); COMMIT`)
	if err := <-ended; !errors.Is(err, dedup.ErrInvalid) {
		t.Error(err)
	}
	accepts(t, dsn, schema)
}

// TestACopyThatDiffersStaysClosed changes each table behind the back of a copy.
func TestACopyThatDiffersStaysClosed(t *testing.T) {
	t.Parallel()
	dir, clock := t.TempDir(), deduptest.NewClock()
	f := newFiller(t, openBadger(t, dir, clock), clock)
	f.fill(200)
	f.close()
	err := exported(t, dir, clock, func(from *dedup.Source) error {
		for _, change := range []string{
			"DELETE FROM {{schema}}.event WHERE seq = (SELECT min(seq) FROM {{schema}}.event)",
			"DELETE FROM {{schema}}.task WHERE idx = 3",
			"DELETE FROM {{schema}}.alias WHERE seq = (SELECT min(seq) FROM {{schema}}.alias)",
			"INSERT INTO {{schema}}.trace VALUES ('', 1, 1)",
		} {
			dsn, schema := copyTarget(t)
			changed := false
			_, err := Copy(t.Context(), dsn, schema, from, func(events int64) {
				if events == from.Events && !changed { // everything is copied but the last traces
					changed = true
					execute(t, dsn, schema, change)
				}
			})
			if !errors.Is(err, dedup.ErrInvalid) || !strings.Contains(err.Error(), "was copied") {
				t.Errorf("%s: %v", change, err)
			}
			if _, err := Open(t.Context(), dsn, Options{Schema: schema}); err == nil {
				t.Errorf("%s: the tables can be opened", change)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stopping returns a source that calls stop before an item, once.
func stopping(from *dedup.Source, n int, stop func()) *dedup.Source {
	out := *from
	out.Items = func(ctx context.Context) iter.Seq2[dedup.Item, error] {
		return func(yield func(dedup.Item, error) bool) {
			for item, err := range from.Items(ctx) {
				if n--; n == -1 {
					stop()
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}
	return &out
}
