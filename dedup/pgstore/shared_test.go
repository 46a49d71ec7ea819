package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/internal/history"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// two opens two stores of one schema on the same clock.
func two(t *testing.T) (stores [2]*Store, clock *deduptest.Clock) {
	t.Helper()
	dsn, schema := newSchema(t)
	clock = deduptest.NewClock()
	for i := range stores {
		stores[i] = openAt(t, dsn, schema, clock)
	}
	return stores, clock
}

func event(id string, handlers ...string) dedup.Claim {
	c := dedup.Claim{
		Key:         dedup.Key{Principal: "shop", Endpoint: "orders", ID: id},
		Fingerprint: dedup.Fingerprint{1}, Window: time.Hour,
		Payload: dedup.Payload{Producer: "shop", Endpoint: "orders", Type: "order.paid", Body: []byte("body of " + id)},
	}
	for _, h := range handlers {
		c.Tasks = append(c.Tasks, dedup.NewTask{Handler: h})
	}
	return c
}

// occurs marks the claim as an occurrence of content that may come n times.
func occurs(c dedup.Claim, name string, n int) dedup.Claim {
	c.Occurrence = &dedup.Occurrence{Name: name, Max: n}
	c.Remember = &dedup.Remember{Most: n}
	return c
}

func claim(t *testing.T, s *Store, c dedup.Claim, want dedup.Verdict) dedup.Decision {
	t.Helper()
	ds, err := s.Claim(t.Context(), c)
	if err != nil || ds[0].Verdict != want {
		t.Fatalf("claim of %q: %+v, %v; want %v", c.Key.ID, ds, err, want)
	}
	return ds[0]
}

func takeOne(t *testing.T, s *Store) dedup.Work {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	works, err := s.Take(ctx, dedup.Want{Tasks: 1, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return works[0]
}

var done = dedup.Result{Kind: dedup.ResultDone}

func TestConcurrentHistoriesOfTwoStoresAreLinearizable(t *testing.T) {
	t.Parallel()
	rounds := 1
	if os.Getenv("EYELET_LONG") != "" {
		rounds = 3
	}
	for round := range rounds {
		stores, _ := two(t)
		seed, start := rand.Uint64(), time.Now()
		r := &history.Recorder{
			Store: stores[0], Second: stores[1], Keys: 6,
			Now: func() int64 { return int64(time.Since(start)) },
		}
		ops, err := r.History(t.Context(), 6, 40, seed)
		if err != nil {
			t.Error(err)
		}
		if len(ops) < 60 {
			t.Errorf("round %d: only %d calls", round, len(ops))
		}
		if err := history.CheckLinearizable(ops); err != nil {
			t.Fatalf("round %d, seed %d: %v", round, seed, err)
		}
	}
}

// TestTasksThatEndTogetherAreForgotten ends the tasks of events at the same moment in two stores.
// Neither sees that the other is done, and the event must be forgotten all the same.
func TestTasksThatEndTogetherAreForgotten(t *testing.T) {
	t.Parallel()
	stores, clock := two(t)
	for i := range 20 {
		c := event(fmt.Sprint("k", i), "a", "b")
		c.DropBody = i%2 == 0
		claim(t, stores[0], c, dedup.New)
		var wg sync.WaitGroup
		for _, w := range []dedup.Work{takeOne(t, stores[0]), takeOne(t, stores[1])} {
			wg.Go(func() {
				if err := stores[w.Lease.Task].Finish(t.Context(), w.Lease, done); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	clock.Advance(time.Hour)
	for _, table := range []string{"event", "task", "alias"} {
		eventually(t, func() bool {
			var n int
			scan(t, stores[0], "SELECT count(*) FROM {{schema}}."+table, nil, &n)
			return n == 0
		})
	}
}

// everything uses the operations of a store.
func everything(t *testing.T, s *Store) {
	t.Helper()
	original := claim(t, s, event("a", "ship"), dedup.New).Record.Event
	claim(t, s, event("a", "ship"), dedup.Known)
	claim(t, s, occurs(event("b", "ship"), "x", 2), dedup.New)
	second := claim(t, s, occurs(event("b", "ship"), "y", 2), dedup.New).Record.Event
	copied := event("c")
	copied.Quarantine = &dedup.Quarantine{Reason: "replayed", Of: original}
	copied.Key.Space = dedup.SpaceQuarantine
	shared := claim(t, s, copied, dedup.New).Record.Event
	for _, series := range []string{"d", "e"} {
		c := event(series, "ship")
		c.Series = dedup.Key{Space: dedup.SpaceSeries, ID: "s"}
		c.Tasks[0].Lane = "l"
		claim(t, s, c, dedup.New)
	}
	want := dedup.Want{Tasks: 9, Bytes: 1 << 20, Lease: time.Minute, Handlers: []string{"ship"}}
	var works []dedup.Work
	for len(works) < 4 { // the lane may be one of many, of which each look sees some
		more, err := s.Take(t.Context(), want)
		if err != nil {
			t.Fatalf("%d tasks, %v", len(works), err)
		}
		works = append(works, more...)
	}
	for i, w := range works {
		r := []dedup.Result{done, {Kind: dedup.ResultDead}, {Kind: dedup.ResultRetry, After: time.Hour}, done}[i%4]
		switch w.Record.Event {
		case original:
			r = done
		case second:
			r = dedup.Result{Kind: dedup.ResultRetry, After: time.Hour}
		}
		if err := s.Finish(t.Context(), w.Lease, r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.RunNow(t.Context(), second); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Purge(t.Context(), original), s.Health(t.Context()), s.prune(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := s.Reopen(t.Context(), shared, dedup.NewTask{Handler: "late"}); err != nil {
		t.Error(err)
	}
	for _, f := range []dedup.Filter{
		{}, {ID: "a", Producer: "shop", Handler: "ship", Body: true},
		{States: []dedup.State{dedup.Dead}, Quarantined: true},
		{States: []dedup.State{dedup.Pending}, Endpoint: "orders"}, {Event: shared},
	} {
		for _, err := range s.List(t.Context(), f) {
			if err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// claimDuring claims while another process changes the tables in a transaction: first what the
// claim will wait for, then the rest. Statements of the claim before it waits see the state before
// both, later ones the state after them.
func claimDuring(t *testing.T, s *Store, c dedup.Claim, first string, rest ...string) dedup.Decision {
	t.Helper()
	connect := func() *pgx.Conn {
		db, err := pgx.Connect(t.Context(), pgtest.DSN(t))
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db, observer := connect(), connect() // a transaction sees the activity as it was at its first look
	defer db.Close(context.Background())
	defer observer.Close(context.Background())
	run := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), inSchema(sql, s.db.schema), pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	run("BEGIN; " + first)
	decided := make(chan dedup.Decision, 1)
	go func() {
		ds, err := s.Claim(context.Background(), c)
		if err != nil {
			t.Error(err)
			ds = make([]dedup.Decision, 1)
		}
		decided <- ds[0]
	}()
	const waiting = `SELECT count(*) > 0 FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0`
	eventually(t, func() (waits bool) {
		select {
		case d := <-decided:
			t.Fatalf("decided without a wait: %+v", d)
		default:
		}
		if err := observer.QueryRow(t.Context(), waiting, pgx.QueryExecModeExec, s.db.schema).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	for _, sql := range rest {
		run(sql)
	}
	run("COMMIT")
	return <-decided
}

// TestARecordThatAppearsDuringAClaimIsKnown lets an event be accepted while another process decides
// about it, after that found no record and before it read the trace. The trace must not look like
// that of a record which is gone.
func TestARecordThatAppearsDuringAClaimIsKnown(t *testing.T) {
	t.Parallel()
	stores, clock := two(t)
	_, other := newSchema(t)
	source := openAt(t, pgtest.DSN(t), other, clock)
	c := event("one", "a")
	c.Remember = &dedup.Remember{Most: 2}
	accepted := claim(t, source, c, dedup.New)
	insert := func(table string) string {
		return "INSERT INTO {{schema}}." + table + " SELECT * FROM " + pgx.Identifier{other, table}.Sanitize()
	}
	_, err := stores[0].db.pool.Exec(t.Context(), stores[0].db.sql(insert("trace")), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	d := claimDuring(t, stores[0], c, "UPDATE {{schema}}.trace SET count = 2", insert("event"), insert("task"))
	if d.Verdict != dedup.Known || d.Record.Event != accepted.Record.Event {
		t.Errorf("%v of event %q, want the known one %q", d.Verdict, d.Record.Event, accepted.Record.Event)
	}
}

// TestARecordThatVanishesDuringAClaimIsNew purges an event while another process looks for it,
// after that read the trace.
func TestARecordThatVanishesDuringAClaimIsNew(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	c := occurs(event("one"), "delivery", 1)
	claim(t, stores[0], c, dedup.New)
	claim(t, stores[0], c, dedup.Known) // its statements are prepared: they wait when they run
	var deletes []string
	for _, table := range []string{"task", "alias", "event", "trace"} {
		deletes = append(deletes, "DELETE FROM {{schema}}."+table)
	}
	if d := claimDuring(t, stores[0], c, "LOCK {{schema}}.event", deletes...); d.Verdict != dedup.New {
		t.Errorf("%v, want new", d.Verdict)
	}
}

// TestATokenIsNotSmallerThanAnEarlierOne decides a claim whose record was locked, as that of a late
// occurrence, after its numbers were taken: another process had taken larger ones meanwhile.
func TestATokenIsNotSmallerThanAnEarlierOne(t *testing.T) {
	c, now := event("one", "a"), time.Now()
	c.Hold, c.Lease = true, time.Hour
	rec := dedup.Accept(dedup.Record{}, c, "e", 1, 4, now)
	l := dedup.Lease{Event: "e", Token: 4}
	if err := rec.Finish(nil, l, dedup.Result{Kind: dedup.ResultRetry}, now); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[int64]error{3: errConflict, 4: errConflict, 5: nil} {
		s := source{view: &view{now: now}, seqs: []int64{2}, tokens: []int64{token}}
		w := &row{rec: rec.Clone()}
		if _, err := s.Accept(&c, w); !errors.Is(err, want) || err == nil && w.rec.Tasks[0].Token != 5 {
			t.Errorf("token %d after 4: %v, want %v", token, err, want)
		}
	}
}

// TestALeaseThatWaitedForALockHasTheLargestToken lets another process run the task while a claim
// waits to run it.
func TestALeaseThatWaitedForALockHasTheLargestToken(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	c := event("one", "a")
	c.Hold, c.Lease = true, time.Hour
	for range 2 { // twice: the statements of the second kind of claim are prepared
		l := claim(t, stores[0], c, dedup.New).Lease
		if err := stores[0].Finish(t.Context(), l, dedup.Result{Kind: dedup.ResultRetry}); err != nil {
			t.Fatal(err)
		}
	}
	d := claimDuring(t, stores[0], c, "SELECT FROM {{schema}}.event FOR UPDATE",
		"UPDATE {{schema}}.task SET token = nextval('{{schema}}.token')")
	var newest uint64
	scan(t, stores[1], "SELECT last_value FROM {{schema}}.token", nil, &newest)
	if d.Verdict != dedup.New || d.Lease.Token != newest {
		t.Errorf("%v with token %d, want %d, after the other process took one", d.Verdict, d.Lease.Token, newest)
	}
}

// TestATakenAliasLeavesTheOtherClaimsOfABatchAlone has one claim with a name that is taken. The
// others are stored by the same statement.
func TestATakenAliasLeavesTheOtherClaimsOfABatchAlone(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	s := stores[0]
	named := func(id string) dedup.Claim {
		c := event(id, "ship")
		c.Aliases = []dedup.Key{{Principal: "shop", Endpoint: "orders", Space: dedup.SpaceNonce, ID: "taken"}}
		return c
	}
	claim(t, stores[1], named("first"), dedup.New)
	op, err := newClaimOp([]dedup.Claim{event("before", "ship"), named("second"), event("after", "ship")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.insert(t.Context(), op.items); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, true} {
		if it := op.items[i]; it.decided != want {
			t.Errorf("%s: decided %v", it.claim.Key.ID, it.decided)
		}
	}
	claim(t, s, named("second"), dedup.Aliased)
}
