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
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err = c.Exec(ctx, inSchema(sql, schema), args...); err != nil {
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

// TestACopyContinuesAfterEveryInterruption interrupts a copy at every boundary of its transactions
// and inside of them.
func TestACopyContinuesAfterEveryInterruption(t *testing.T) {
	t.Parallel()
	long(t)
	dir, clock := t.TempDir(), deduptest.NewClock()
	f := newFiller(t, openBadger(t, dir, clock), clock)
	f.fill(1000)
	f.close()
	err := exported(t, dir, clock, func(from *dedup.Source) error {
		interruptions(t, from)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func interruptions(t *testing.T, from *dedup.Source) {
	t.Helper()
	whole := 0
	dsn, schema := copyTarget(t)
	want, err := Copy(t.Context(), dsn, schema, from, func(int64, bool) { whole++ })
	if err != nil || whole < 8 || want.Before != 0 {
		t.Fatalf("%d transactions, %+v: %v", whole, want, err)
	}
	var items int
	for range from.Items(t.Context(), from.Now, "") {
		items++
	}
	again := func(dsn, schema string) {
		t.Helper()
		_, err := Open(t.Context(), dsn, Options{Schema: schema})
		if err == nil || !strings.Contains(err.Error(), "is not finished") {
			t.Fatalf("Open of an unfinished copy: %v", err)
		}
		got, err := Copy(t.Context(), dsn, schema, from, nil)
		if got.Before = 0; err != nil || got != want {
			t.Fatalf("the second call: %+v, want %+v: %v", got, want, err)
		}
	}
	for n := range whole { // after each transaction, and between comparing
		dsn, schema := copyTarget(t)
		ctx, cancel := context.WithCancel(t.Context())
		left := n
		_, err := Copy(ctx, dsn, schema, from, func(int64, bool) {
			if left--; left < 0 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) && n < whole-1 || err == nil {
			t.Fatalf("interrupted after transaction %d: %v", n, err)
		}
		again(dsn, schema)
	}
	for n := 0; n < items; n += items/7 + 1 { // while the source is read, by cancelling and by cutting
		for _, cut := range []bool{false, true} {
			dsn, schema := copyTarget(t)
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
			again(dsn, schema)
		}
	}
	for _, mark := range []string{copyBegins, "9223372036854775807", "SET place", copyFinishes} { // at their commits
		for _, reaches := range []bool{false, true} {
			dsn, schema := copyTarget(t)
			proxy := newCutter(t, dsn, reaches)
			proxy.arm(mark)
			if _, err := Copy(t.Context(), proxy.dsn, schema, from, nil); err == nil || proxy.cuts.Load() != 1 {
				t.Fatalf("cut at %s (reaches %t): %v", mark, reaches, err)
			}
			if mark == copyBegins && !reaches || mark == copyFinishes && reaches {
				accepts(t, dsn, schema)
				got, err := Copy(t.Context(), dsn, schema, from, nil)
				if err != nil || got.Events != want.Events {
					t.Fatalf("cut at %s (reaches %t), and called again: %+v, %v", mark, reaches, got, err)
				}
				continue
			}
			again(dsn, schema)
		}
	}
}

// Parts of the first and the last transaction of a copy.
const copyBegins, copyFinishes = "copy (source", "SET finished"

// accepts opens a store and requires that it accepts an event.
func accepts(t *testing.T, dsn, schema string) {
	t.Helper()
	s, err := Open(t.Context(), dsn, Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.Claim(t.Context(), event("another"))
	if err == nil {
		err = s.Purge(t.Context(), d[0].Record.Event)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestACopyRefusesTablesThatAreInUse(t *testing.T) {
	t.Parallel()
	clock := deduptest.NewClock()
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		f := newFiller(t, openBadger(t, dir, clock), clock)
		f.claim(f.plainOf(fmt.Sprint("one of ", i), "done"))
		f.close()
	}
	into := func(dir, dsn, schema string) (out Copied, err error) {
		return out, exported(t, dir, clock, func(from *dedup.Source) (err error) {
			out, err = Copy(t.Context(), dsn, schema, from, nil)
			return err
		})
	}
	refused := func(err error, why string) {
		t.Helper()
		if !errors.Is(err, dedup.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}

	dsn, schema := copyTarget(t)
	open, err := Open(t.Context(), dsn, Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	own, err := open.Claim(t.Context(), event("own"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = into(dirs[0], dsn, schema)
	refused(err, "events of its own")
	if err := open.Purge(t.Context(), own[0].Record.Event); err != nil {
		t.Fatal(err)
	}

	// While the copy is unfinished, a store that was open before does not accept anything.
	err = exported(t, dirs[0], clock, func(from *dedup.Source) error {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Copy(ctx, dsn, schema, stopping(from, 0, cancel), nil)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err = open.Claim(t.Context(), event("own"))
	if unavailable := (&dedup.ErrUnavailable{}); !errors.As(err, &unavailable) {
		t.Errorf("Claim while a copy is unfinished: %v", err)
	}
	_, err = into(dirs[1], dsn, schema)
	refused(err, "another source")
	changed := t.TempDir()
	if err := os.CopyFS(changed, os.DirFS(dirs[0])); err != nil {
		t.Fatal(err)
	}
	if err := openBadger(t, changed, clock).Close(); err != nil { // a start is a change
		t.Fatal(err)
	}
	_, err = into(changed, dsn, schema)
	refused(err, "before it was changed")

	out, err := into(dirs[0], dsn, schema)
	if err != nil || out.Events != 1 || out.Before != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	got, err := open.Claim(t.Context(), event("own"), event("other"))
	if err != nil || got[0].Verdict != dedup.New || got[0].Record.Seq <= 1 {
		t.Errorf("Claim after the copy: %+v, %v", got, err)
	}
	if out, err = into(dirs[0], dsn, schema); err != nil || out.Events != 1 || out.Before != 1 {
		t.Errorf("copied again: %+v, %v", out, err)
	}
	_, err = into(dirs[1], dsn, schema)
	refused(err, "another source")
}

// An event that is accepted between the first two transactions of a copy is kept, and the copy is
// not begun.
func TestACopyGivesWayToAnEventThatComesFirst(t *testing.T) {
	t.Parallel()
	dsn, schema := copyTarget(t)
	open, err := Open(t.Context(), dsn, Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	c := &copier{schema: schema, from: &dedup.Source{State: "s", Now: time.Now()}}
	if err := c.connect(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close(t.Context())
	if err := c.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := open.Claim(t.Context(), event("own")); err != nil {
		t.Fatal(err)
	}
	if err := c.block(t.Context()); !errors.Is(err, dedup.ErrInvalid) {
		t.Errorf("block: %v", err)
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
			"UPDATE {{schema}}.event SET body = body || '\\x00' WHERE size > 0 AND keeper IS NULL AND seq % 9 = 0",
			"UPDATE {{schema}}.event SET win = win + 1 WHERE NOT current",
			"UPDATE {{schema}}.event SET response = NULL WHERE response IS NOT NULL",
			"DELETE FROM {{schema}}.event WHERE seq = (SELECT min(seq) FROM {{schema}}.event)",
			"UPDATE {{schema}}.task SET attempt = attempt + 1 WHERE state = 4",
			"UPDATE {{schema}}.task SET due = due + interval '1 microsecond' WHERE state = 1",
			"DELETE FROM {{schema}}.task WHERE idx = 3",
			"DELETE FROM {{schema}}.alias WHERE seq = (SELECT min(seq) FROM {{schema}}.alias)",
			"UPDATE {{schema}}.alias SET seq = seq + 1",
			"INSERT INTO {{schema}}.alias VALUES ('', 1)",
			"UPDATE {{schema}}.trace SET count = count + 1",
			"INSERT INTO {{schema}}.trace VALUES ('', 1, 1)",
		} {
			dsn, schema := copyTarget(t)
			changed := false
			_, err := Copy(t.Context(), dsn, schema, from, func(events int64, _ bool) {
				if events == from.Events && !changed { // everything is copied but the last traces
					changed = true
					execute(t, dsn, schema, change)
				}
			})
			if err == nil || !strings.Contains(err.Error(), "source") {
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
	out.Items = func(ctx context.Context, at time.Time, after string) iter.Seq2[dedup.Item, error] {
		return func(yield func(dedup.Item, error) bool) {
			for item, err := range from.Items(ctx, at, after) {
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
