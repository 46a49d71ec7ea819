package pgstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestTakesPassFewEntriesUnderAnOldSnapshot handles tasks while a snapshot keeps their entries in
// the indexes, and counts the entries that later takes pass. Those of a look from the beginning
// pass all of them.
func TestTakesPassFewEntriesUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	dsn, schema := freshSchema(t)
	const ended, takes = 5000, 50
	open := func(ahead time.Duration) *Store {
		s := opened(t, fmt.Sprintf("%s application_name='%s'", dsn, schema),
			Options{Schema: schema, clock: func() time.Time { return time.Now().Add(ahead) }})
		return s
	}
	c := connected(t, dsn)
	old, err := c.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil {
		_, err = old.Exec(t.Context(), "SELECT 1 FROM pg_class") // takes the snapshot
	}
	if err != nil {
		t.Fatal(err)
	}
	s := open(0)
	for n := range ended / 1000 {
		var claims []dedup.Claim
		for i := range 1000 {
			claims = append(claims, event(fmt.Sprint(n, " ", i), "ship"))
		}
		if _, err := s.Claim(t.Context(), claims...); err != nil {
			t.Fatal(err)
		}
		works, err := s.Take(t.Context(), dedup.Want{Tasks: 1000, Bytes: 1 << 20, Lease: 10 * time.Millisecond})
		if err != nil || len(works) != 1000 {
			t.Fatalf("%d tasks, %v", len(works), err)
		}
		var results []dedup.LeaseResult
		for _, w := range works {
			results = append(results, dedup.LeaseResult{Lease: w.Lease, Result: done})
		}
		for _, err := range s.FinishMany(t.Context(), results...) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	passed := func() (n int64) {
		reads(t, dsn, schema) // waits for the end of connections
		if err := c.QueryRow(t.Context(), `SELECT pg_stat_clear_snapshot()`).Scan(nil); err != nil {
			t.Fatal(err)
		}
		err := c.QueryRow(t.Context(), `SELECT sum(idx_tup_read)::int8 FROM pg_stat_user_indexes
WHERE schemaname = $1 AND indexrelname IN ('task_due')`, schema).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := passed()
	s = open(lag)
	began := time.Now()
	for i := range takes {
		shipOne(t, s, fmt.Sprint(i))
	}
	looks := 2 + int64(time.Since(began)/lookAgain) // from the beginning
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := passed() - before; n > looks*3*ended {
		t.Errorf("%d entries were passed in %d takes, %d from the beginning", n, takes, looks)
	}
	if err := old.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestATaskOfTheDistantPastIsTaken has a task that is due, and a lease that ended, before the place
// where looks begin, as those of a transaction that took long.
func TestATaskOfTheDistantPastIsTaken(t *testing.T) {
	t.Parallel()
	s, dsn := newStore(t, "", Options{})
	exec := admin(t, s, dsn)
	claim(t, s, event("late", "ship"), dedup.New)
	retry := dedup.Result{Kind: dedup.ResultRetry, After: time.Hour}
	if err := s.Finish(t.Context(), takeOne(t, s).Lease, retry); err != nil {
		t.Fatal(err)
	}
	shipOne(t, s, "a")
	exec("UPDATE {{schema}}.task SET due = now() - interval '1 day' WHERE due > now()")
	shipOne(t, s, "late")
	claim(t, s, event("lost", "ship"), dedup.New)
	if id := takeOne(t, s).Record.Key.ID; id != "lost" {
		t.Fatal(id)
	}
	shipOne(t, s, "b")
	exec("UPDATE {{schema}}.task SET until = now() - interval '1 day' WHERE state = 2")
	shipOne(t, s, "lost")
}

// TestLooksBeginWhereNothingIsLeft goes through what a look can find.
func TestLooksBeginWhereNothingIsLeft(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	type found struct {
		handler string
		due     time.Time
		left    bool
	}
	for name, row := range map[string]struct {
		found []found
		a, b  time.Duration // where the next looks begin
	}{
		"nothing":              {nil, lag, lag},
		"less than it may":     {[]found{{"a", ago(time.Hour), false}}, lag, lag},
		"as much as it may":    {[]found{{"a", ago(5), false}, {"a", ago(4), false}}, lag, lag},
		"older than that":      {[]found{{"b", ago(10 * lag), false}, {"b", ago(9 * lag), false}}, lag, 9 * lag},
		"more than is wanted":  {[]found{{"a", ago(9 * lag), true}, {"a", ago(8 * lag), true}}, 9 * lag, lag},
		"of a missing handler": {[]found{{"c", ago(time.Hour), true}}, lag, lag},
	} {
		var h horizon
		l := h.look([]string{"a", "b"}, 2)
		for _, f := range row.found {
			l.found(f.handler, f.due, f.left)
		}
		h.looked(l, now)
		next := h.look([]string{"a", "b"}, 2)
		if next.whole || !next.since[0].Equal(ago(row.a)) || !next.since[1].Equal(ago(row.b)) {
			t.Errorf("%s: %v, %v, want %v and %v ago", name, now, next.since, row.a, row.b)
		}
		if next := h.look([]string{"a"}, 2); !next.whole || next.since[0] != nil {
			t.Errorf("%s: the look for other handlers begins at %v", name, next.since[0])
		}
		if h.at = h.at.Add(-lookAgain); !h.look([]string{"a", "b"}, 2).whole {
			t.Errorf("%s: there is no look from the beginning", name)
		}
	}
}

// shipOne takes and finishes the event, which it makes unless it is there, as a receiver does that
// names its handler.
func shipOne(t *testing.T, s *Store, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := s.Claim(ctx, event(id, "ship")); err != nil {
		t.Fatal(err)
	}
	works, err := s.Take(ctx, dedup.Want{Tasks: 1, Lease: time.Minute, Handlers: []string{"ship"}})
	if err != nil || works[0].Record.Key.ID != id {
		t.Fatalf("%s: %v, %v", id, works, err)
	}
	if err := s.Finish(ctx, works[0].Lease, done); err != nil {
		t.Fatal(err)
	}
}
