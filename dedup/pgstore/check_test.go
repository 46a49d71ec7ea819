package pgstore

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// breaks are statements that break one invariant each. The first event has two tasks, one of them
// in a lane; the second is quarantined; the third is done; the fourth has an alias.
var breaks = map[string]string{
	"a task has no event": `UPDATE {{schema}}.task SET
seq = seq + 1000000 WHERE handler = 'alone'`,
	"an event has not the tasks that it counts": `DELETE FROM {{schema}}.task WHERE handler = 'alone'`,
	"a task differs from its event": `UPDATE {{schema}}.task SET
size = size + 1 WHERE handler = 'alone'`,
	"two tasks of a lane run": `DROP INDEX {{schema}}.task_lane_running;
UPDATE {{schema}}.task SET
state = 2, token = 1, until = now(), started = now() WHERE lane IS NOT NULL`,
	"a task is not in its lane": `UPDATE {{schema}}.task SET
lane = NULL WHERE lane IS NOT NULL`,
	"a task has no state that is known": `UPDATE {{schema}}.task SET state = 5 WHERE handler = 'alone'`,
	"a waiting task is never due": `UPDATE {{schema}}.task SET
due = NULL WHERE handler = 'alone'`,
	"a running task has no lease":         `UPDATE {{schema}}.task SET state = 2 WHERE handler = 'alone'`,
	"a task with an outcome has no end":   `UPDATE {{schema}}.task SET ended = NULL WHERE state = 3`,
	"a finished event is never forgotten": `UPDATE {{schema}}.task SET expires = NULL WHERE state = 3`,
	"two events of a key have the same generation": `UPDATE {{schema}}.event SET
hash = (SELECT hash FROM {{schema}}.event ORDER BY seq LIMIT 1), current = false`,
	"two events decide for a key": `DROP INDEX {{schema}}.event_key;
UPDATE {{schema}}.event SET
hash = (SELECT hash FROM {{schema}}.event ORDER BY seq LIMIT 1), generation = seq`,
	"an alias has no event": `UPDATE {{schema}}.alias SET seq = seq + 1000000`,
	"a body has not the size of its event": `UPDATE {{schema}}.event SET
body = body || '\x00' WHERE body IS NOT NULL`,
	"an open event has lost its body":               `UPDATE {{schema}}.event SET body = NULL`,
	"the handler of an open task was not noted":     `DELETE FROM {{schema}}.handler`,
	"an event has a number that will be used again": `SELECT setval('{{schema}}.seq', 1)`,
	"a lease has a token that will be used again":   `UPDATE {{schema}}.task SET token = 1000000`,
	"the days that are remembered are not one row":  `DELETE FROM {{schema}}.remembered`,
}

// TestCheckFindsWhatIsBroken breaks each invariant by SQL, in a schema of its own.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	if len(breaks) != len(invariants) {
		t.Errorf("%d of %d invariants are broken", len(breaks), len(invariants))
	}
	for _, i := range invariants {
		t.Run(i.what, func(t *testing.T) {
			t.Parallel()
			dsn, schema := checked(t)
			c := connected(t, dsn)
			sql := inSchema(breaks[i.what], schema)
			if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
			r, err := Check(t.Context(), dsn, schema)
			if err != nil || r.Sound() {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, b := range r.Broken {
				if b.What == i.what && b.Count > 0 && len(b.Events) > 0 {
					return
				}
			}
			t.Errorf("not found: %+v", r.Broken)
		})
	}
}

// checked returns the schema of a store with events in many states, which is sound.
func checked(t *testing.T) (dsn, schema string) {
	t.Helper()
	dsn, schema = freshSchema(t)
	s := opened(t, dsn, Options{Schema: schema})
	everything(t, s)
	laned := event("laned", "ship")
	laned.Tasks[0].Lane = "lane"
	other := event("laned too", "ship")
	other.Tasks[0].Lane = "lane"
	aliased := event("aliased", "alone")
	aliased.Aliases = []dedup.Key{{Principal: "shop", Endpoint: "orders", ID: "alias"}}
	of := claim(t, s, laned, dedup.New)
	claim(t, s, other, dedup.New)
	claim(t, s, aliased, dedup.New)
	aside := event("aside", "alone")
	aside.Key.Space = dedup.SpaceQuarantine
	aside.Quarantine = &dedup.Quarantine{Reason: "conflict", Of: of.Record.Event}
	claim(t, s, aside, dedup.New)
	claim(t, s, event("done", "finish"), dedup.New)
	want := dedup.Want{Tasks: 1, Bytes: 1 << 20, Lease: time.Minute, Handlers: []string{"finish"}}
	work, err := s.Take(t.Context(), want)
	if err != nil || len(work) != 1 {
		t.Fatalf("%+v, %v", work, err)
	}
	if err := s.Finish(t.Context(), work[0].Lease, dedup.Result{Kind: dedup.ResultDone}); err != nil {
		t.Fatal(err)
	}
	r, err := Check(t.Context(), dsn, schema)
	if err != nil || !r.Sound() || r.Events < 5 || r.Schema != schema || r.Version != Version ||
		r.Done == 0 || r.Pending == 0 || r.Aliases == 0 {
		t.Fatalf("a sound store: %+v, %v", r, err)
	}
	return dsn, schema
}

func TestCheckRunsBehindPgBouncer(t *testing.T) {
	t.Parallel()
	_, schema := newSchema(t)
	for range 3 { // the same connection of the server serves all
		if r, err := Check(t.Context(), pgtest.Pooler(t), schema); err != nil || len(r.Broken) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestCheckRefusesOtherTables(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	dsn, _ := newSchema(t)
	if _, err := Check(t.Context(), dsn, "no such schema"); err == nil || !strings.Contains(err.Error(), "version 0") {
		t.Error(err)
	}
	if _, err := Check(t.Context(), dsn+" options='-c synchronous_commit=off'", ""); err == nil ||
		!strings.Contains(err.Error(), "synchronous_commit is off") {
		t.Error(err)
	}
	if _, err := Check(t.Context(), "postgres://u:hunter2@h:port/db", ""); err == nil ||
		strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

// TestNumbersAreSkippedAfterARestore runs the statement of docs/postgres.md.
func TestNumbersAreSkippedAfterARestore(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	page, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	sql := regexp.MustCompile(`SELECT setval\(.*;`).FindString(string(page))
	dsn, schema := checked(t)
	c := connected(t, dsn)
	if _, err := c.Exec(t.Context(), strings.ReplaceAll(sql, "eyelet.", inSchema("{{schema}}.", schema)),
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	s := opened(t, dsn, Options{Schema: schema})
	held := event("after", "held")
	held.Hold, held.Lease = true, time.Minute
	d := claim(t, s, held, dedup.New)
	if d.Record.Seq < 1_000_000_000 || d.Lease.Token < 1_000_000_000 {
		t.Errorf("number %d, token %d", d.Record.Seq, d.Lease.Token)
	}
}
