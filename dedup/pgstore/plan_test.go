package pgstore

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// fillSQL makes finished events, of which one in 200 has a dead task, a pending one, or one that
// waits in a lane.
const fillSQL = `WITH e AS (INSERT INTO {{schema}}.event (seq, hash, current, generation, accepted, win, tasks, hold, drop_body,
    newest, producer, endpoint, type, key, vendor, about, size, body)
  SELECT nextval('{{schema}}.seq'), sha256(('filled ' || i)::bytea), true, 1, now(), 3600000000, 1, false, false, false,
    'shop', 'orders', 'order.paid', CASE WHEN i % 2 = 0 THEN 'filled ' || i ELSE md5(i::text) END,
    CASE WHEN i % 2 = 1 THEN 'filled ' || i END, $2, 200, decode(repeat(md5(i::text), 12), 'hex')
  FROM generate_series(1, $1::int) AS i RETURNING seq, hash),
a AS (INSERT INTO {{schema}}.alias SELECT sha256(hash), seq FROM e)
INSERT INTO {{schema}}.task (seq, idx, state, hold, drops, attempt, postponed, size, token, win, due, ended, expires, handler,
    lanename, lane, reason, err, unfenced)
  SELECT seq, 0, CASE seq % 200 WHEN 0 THEN 1 WHEN 1 THEN 4 WHEN 2 THEN 1 ELSE 3 END, false, false, 1, 0, 200, 0, 3600000000,
    now() + interval '1 hour', now(), CASE WHEN seq % 200 > 2 THEN now() + interval '1 hour' END,
    CASE seq % 1000 WHEN 5 THEN 'rare' ELSE 'ship' END, CASE seq % 200 WHEN 2 THEN 'l' ELSE '' END,
    CASE seq % 200 WHEN 2 THEN substr('\x00'::bytea || hash, 1, 17) END, '', '', false FROM e`

// filled is the number of events in a database that plans are made for.
func filled() int {
	if os.Getenv("EYELET_LARGE") != "" {
		return 1_000_000
	}
	return 20_000
}

const analyzeSQL = "ANALYZE {{schema}}.event, {{schema}}.task, {{schema}}.alias"

// fill makes many events.
func fill(t *testing.T, dsn, schema string) {
	t.Helper()
	r := dedup.Record{Payload: dedup.Payload{Header: map[string][]string{"Content-Type": {"application/json"}}}}
	execute(t, dsn, schema, fillSQL, filled(), packAbout(&r))
}

// TestPlansOfSmallTablesServeLargeOnes makes the plans of a store while the tables have few rows,
// as in the first minutes of a new store, and counts what they read when there are many.
func TestPlansOfSmallTablesServeLargeOnes(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	dsn, schema := freshSchema(t)
	for _, table := range []string{"event", "task", "alias"} { // later statistics would replace the plans
		execute(t, dsn, schema, "ALTER TABLE {{schema}}."+table+" SET (autovacuum_enabled = off)")
	}
	open := func() *Store {
		s := opened(t, fmt.Sprintf("%s application_name='%s' pool_max_conns=1", dsn, schema),
			Options{Schema: schema})
		return s
	}
	s := open()
	changes(t, s, "first")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, schema, analyzeSQL)
	before := reads(t, dsn, schema)
	s = open()
	changes(t, s, "few")
	fill(t, dsn, schema)
	changes(t, s, "many")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	after := reads(t, dsn, schema)
	for _, table := range []string{"event", "task", "alias"} {
		a, b := after[table], before[table]
		if a.scanned > b.scanned || a.fetched-b.fetched > int64(min(filled()/10, 20*maxLanes)) {
			t.Errorf("rows of %s: %+v, then %+v", table, b, a)
		}
	}
}

// changes makes events and changes them, in each of the ways that receivers do all the time.
func changes(t *testing.T, s *Store, name string) {
	t.Helper()
	for range 3 {
		lives(t, s)
	}
	first := claim(t, s, event(name, "ship"), dedup.New).Record.Event
	claim(t, s, event(name, "ship"), dedup.Known)
	w := takeOne(t, s)
	if err := s.Extend(t.Context(), w.Lease, time.Minute); err != nil {
		t.Error(err)
	}
	if err := s.Finish(t.Context(), w.Lease, dedup.Result{Kind: dedup.ResultDead}); err != nil {
		t.Error(err)
	}
	if _, err := s.Reopen(t.Context(), first); err != nil {
		t.Error(err)
	}
	w = takeOne(t, s)
	if err := s.Finish(t.Context(), w.Lease, dedup.Result{Kind: dedup.ResultRetry, After: time.Hour}); err != nil {
		t.Error(err)
	}
	claim(t, s, occurs(event(name+" b", "ship"), "x", 2), dedup.New)
	claim(t, s, occurs(event(name+" b", "ship"), "y", 2), dedup.New)
	for range 2 {
		if err := s.Finish(t.Context(), takeOne(t, s).Lease, done); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Get(t.Context(), first); err != nil {
		t.Error(err)
	}
	if err := s.prune(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCallsReadFewRows reads what stores did to a database with many events: with the settings of
// their connections, and with those behind a pooler, where plans are made for each call.
func TestCallsReadFewRows(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	for name, settings := range map[string]string{"direct": "", "pooled": " default_query_exec_mode=cache_describe"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if settings != "" {
				long(t)
			}
			dsn, schema := freshSchema(t)
			fill(t, dsn, schema)
			execute(t, dsn, schema, analyzeSQL)
			for _, row := range []struct {
				name string
				most int64 // rows that are read of a table
				call func(*testing.T, *Store)
			}{
				{"filters that few events pass", 2000, filters},
				{"some of the dead letters", 40, deadLetters},
				{"100 lanes or more that are not due", 10 * maxLanes, lives},
				{"all events", 20 * int64(filled()), walk},
				{"everything", 20 * int64(filled()), everything},
			} {
				before := reads(t, dsn, schema)
				named := fmt.Sprintf("%s%s application_name='%s'", dsn, settings, schema)
				s := opened(t, named, Options{Schema: schema})
				row.call(t, s)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				after := reads(t, dsn, schema)
				for _, table := range []string{"event", "task", "alias"} {
					a, b := after[table], before[table]
					if a.scanned > b.scanned || a.fetched-b.fetched > row.most {
						t.Errorf("%s: rows of %s: %+v, then %+v", row.name, table, b, a)
					}
				}
			}
		})
	}
}

// tuples are how many rows of a table were read.
type tuples struct{ scanned, fetched int64 }

// reads returns how many rows of tables were read, once the connections of a store are closed.
func reads(t *testing.T, dsn, schema string) map[string]tuples {
	t.Helper()
	c := connected(t, dsn)
	out := map[string]tuples{}
	eventually(t, func() bool { // a connection reports when it ends
		rows, err := c.Query(t.Context(), `SELECT relname, seq_tup_read, coalesce(idx_tup_fetch, 0)
  FROM pg_stat_user_tables WHERE schemaname = $1 AND NOT EXISTS (
  SELECT 1 FROM pg_stat_activity WHERE application_name = $1)`, schema)
		if err != nil {
			t.Fatal(err)
		}
		var table string
		var n tuples
		_, err = pgx.ForEachRow(rows, []any{&table, &n.scanned, &n.fetched}, func() error {
			out[table] = n
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return len(out) > 0
	})
	return out
}

func filters(t *testing.T, s *Store) {
	t.Helper()
	tagged := ""
	for r, err := range s.List(t.Context(), dedup.Filter{Limit: 1}) {
		if tagged = r.Event[:8]; err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		filter dedup.Filter
		want   int
	}{
		{dedup.Filter{ID: "filled 78"}, 1},
		{dedup.Filter{ID: "filled 77"}, 1}, // of the vendor
		{dedup.Filter{ID: "none"}, 0},
		{dedup.Filter{Ref: "filled 77"}, 1},
		{dedup.Filter{Ref: tagged}, 1},
		{dedup.Filter{Quarantined: true}, 0},
		{dedup.Filter{Limit: 50}, 50},
		{dedup.Filter{States: []dedup.State{dedup.Dead}, Limit: 10}, 10},
	} {
		n := 0
		for _, err := range s.List(t.Context(), row.filter) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != row.want {
			t.Errorf("%+v lists %d events, want %d", row.filter, n, row.want)
		}
	}
}

// deadLetters lists the newest of them.
func deadLetters(t *testing.T, s *Store) {
	t.Helper()
	n := 0
	f := dedup.Filter{States: []dedup.State{dedup.Dead}, Producer: "shop", Limit: 10}
	for _, err := range s.List(t.Context(), f) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != f.Limit {
		t.Errorf("%d events", n)
	}
}

// walk lists all events, of which it holds one page.
func walk(t *testing.T, s *Store) {
	t.Helper()
	n, last := 0, uint64(1<<63)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for r, err := range s.List(t.Context(), dedup.Filter{}) {
		if n++; err != nil || r.Seq >= last {
			t.Fatalf("event %d after %d, %v", r.Seq, last, err)
		}
		if last = r.Seq; n == filled()*9/10 {
			runtime.GC()
			runtime.ReadMemStats(&after)
		}
	}
	if n < filled() {
		t.Errorf("%d of %d events are listed", n, filled())
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 256<<20 {
		t.Errorf("%d bytes are held", grown)
	}
}
