package pgstore

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// damagedStore has events with one task each: "done", "shipped" and "damaged done" are done, and
// "damaged" and "open" wait. The damaged ones cannot be read. The store sweeps, and looks for what
// others did, as often as poll says.
func damagedStore(
	t *testing.T, poll time.Duration,
) (s *Store, ids map[string]string, clock *deduptest.Clock, log *bytes.Buffer) {
	t.Helper()
	dsn, schema := newSchema(t)
	clock, log = deduptest.NewClock(), &bytes.Buffer{}
	s = opened(t, dsn, Options{
		Schema: schema, clock: clock.Now, poll: poll, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	ids = map[string]string{}
	for _, id := range []string{"done", "damaged done", "shipped", "damaged", "open"} {
		ids[id] = claim(t, s, event(id, "ship"), dedup.New).Record.Event
		if id != "damaged" && id != "open" {
			if err := s.Finish(t.Context(), takeOne(t, s).Lease, done); err != nil {
				t.Fatal(err)
			}
		}
	}
	execute(t, dsn, schema, `UPDATE {{schema}}.event SET about = 'x' WHERE key LIKE 'damaged%'`)
	clear(s.kept.events)
	return s, ids, clock, log
}

// keys returns the identifiers of the events in a store.
func keys(t *testing.T, s *Store) []string {
	t.Helper()
	var all []string
	sql := s.db.sql("SELECT array_agg(key ORDER BY seq) FROM {{schema}}.event")
	scan(t, s, sql, nil, &all)
	return all
}

// TestDamagedEventsAreSweptAround looks at a damaged event once a day.
func TestDamagedEventsAreSweptAround(t *testing.T) {
	t.Parallel()
	s, _, clock, log := damagedStore(t, time.Hour)
	clock.Advance(2 * time.Hour)
	if n, err := s.sweep(t.Context()); n != 3 || err != nil {
		t.Errorf("%d events are swept, %v", n, err)
	}
	if got := keys(t, s); !slices.Equal(got, []string{"damaged done", "damaged", "open"}) {
		t.Errorf("the events after the windows: %q", got)
	}
	if n, err := s.sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("%d events are swept again, %v", n, err)
	}
	clock.Advance(24 * time.Hour)
	if n, err := s.sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("%d events are swept a day later, %v", n, err)
	}
	if n := strings.Count(log.String(), "stored event is damaged"); n != 1 {
		t.Errorf("the event is logged %d times: %s", n, log)
	}
}

func TestDamagedEventsAreNotListed(t *testing.T) {
	t.Parallel()
	s, _, _, log := damagedStore(t, time.Hour)
	for _, limit := range []int{0, 1, 2} { // pages of 100, 1 and 2
		var got []string
		for r, err := range s.List(t.Context(), dedup.Filter{Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Key.ID)
		}
		want := []string{"open", "shipped", "done"}
		if limit > 0 {
			want = want[:limit]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d at most: %q", limit, got)
		}
	}
	if n := strings.Count(log.String(), "stored event is damaged"); n != 2 {
		t.Errorf("%d events are logged: %s", n, log)
	}
}

func TestADamagedEventIsPurged(t *testing.T) {
	t.Parallel()
	s, ids, _, _ := damagedStore(t, time.Millisecond)
	other := ids["damaged done"][:len(ids["damaged done"])-1] + "0"
	for event, want := range map[string]error{
		ids["damaged"]: dedup.ErrOpen, other: dedup.ErrNotFound, ids["damaged done"]: nil,
	} {
		if err := s.Purge(t.Context(), event); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", event, err, want)
		}
	}
	claim(t, s, event("damaged done", "ship"), dedup.New)
	if id := takeOne(t, s).Record.Key.ID; id != "open" { // the damaged one becomes a dead letter
		t.Error(id)
	}
	if err := s.Purge(t.Context(), ids["damaged"]); err != nil {
		t.Errorf("a damaged dead letter: %v", err)
	}
	if got := keys(t, s); slices.Contains(got, "damaged") {
		t.Errorf("%q", got)
	}
}

// TestADamagedEventFailsOnlyItsOwnDeliveries decides deliveries in one batch, of which one is
// stored before the damaged event is read.
func TestADamagedEventFailsOnlyItsOwnDeliveries(t *testing.T) {
	t.Parallel()
	s, _, _, _ := damagedStore(t, time.Millisecond)
	held := event("held", "quote")
	held.Hold, held.Lease = true, time.Minute
	var ops []*claimOp
	for _, c := range []dedup.Claim{event("damaged", "ship"), event("open", "ship"), event("new", "ship"), held} {
		op, err := newClaimOp([]dedup.Claim{c})
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	s.writeClaims(ops)
	for i, want := range []dedup.Verdict{0, dedup.Known, dedup.New, dedup.New} {
		err := <-ops[i].done
		if i == 0 {
			if wantUnavailable(t, "the damaged one", err); !errors.Is(err, errDamaged) {
				t.Error(err)
			}
			continue
		}
		if d := ops[i].items[0].decision; err != nil || d.Verdict != want {
			t.Errorf("%s: %v, %v", ops[i].items[0].claim.Key.ID, d.Verdict, err)
		}
	}
}

// TestADamagedEventFailsOnlyItsOwnResults records two results that need the records.
func TestADamagedEventFailsOnlyItsOwnResults(t *testing.T) {
	t.Parallel()
	s, _, _, _ := damagedStore(t, time.Millisecond)
	claim(t, s, event("second", "ship"), dedup.New)
	first, second := takeOne(t, s), takeOne(t, s)
	sql := s.db.sql("UPDATE {{schema}}.event SET extra = 'x' WHERE key = $1")
	if _, err := s.db.pool.Exec(t.Context(), sql, first.Record.Key.ID); err != nil {
		t.Fatal(err)
	}
	again := dedup.Result{Kind: dedup.ResultRetry, After: time.Second}
	errs := s.FinishMany(t.Context(),
		dedup.LeaseResult{Lease: first.Lease, Result: again}, dedup.LeaseResult{Lease: second.Lease, Result: again})
	if wantUnavailable(t, "the damaged one", errs[0]); errs[1] != nil {
		t.Error(errs[1])
	}
}

// TestCheckReadsWhatATakeReads damages each column that is packed.
func TestCheckReadsWhatATakeReads(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"UPDATE {{schema}}.event SET about = 'x' WHERE key = 'open'",
		"UPDATE {{schema}}.event SET extra = 'x' WHERE key = 'open'",
		"UPDATE {{schema}}.event SET response = 'x' WHERE key = 'open'",
		"UPDATE {{schema}}.task SET history = 'x' WHERE state = 1",
	} {
		dsn, schema := newSchema(t)
		s := opened(t, dsn, Options{Schema: schema})
		id := claim(t, s, event("open", "ship"), dedup.New).Record.Event
		execute(t, dsn, schema, sql)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := Check(t.Context(), dsn, schema)
		if err != nil || len(r.Broken) != 1 {
			t.Fatalf("%s: %+v, %v", sql, r.Broken, err)
		}
		if b := r.Broken[0]; b.What != unreadable || b.Count != 1 || !slices.Equal(b.Events, []string{id}) {
			t.Errorf("%s: %+v", sql, b)
		}
	}
}
