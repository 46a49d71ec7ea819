package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// cutPair opens a store behind a cutter, and one that is connected directly.
func cutPair(t *testing.T, reaches bool) (p *cutter, cut, direct *Store, clock *deduptest.Clock) {
	t.Helper()
	dsn, schema := freshSchema(t)
	p, clock = newCutter(t, dsn, reaches), deduptest.NewClock()
	direct, cut = openAt(t, dsn, schema, clock), openAt(t, p.dsn, schema, clock)
	return p, cut, direct, clock
}

func wantUnavailable(t *testing.T, what string, err error) *dedup.ErrUnavailable {
	t.Helper()
	unavailable := new(dedup.ErrUnavailable)
	if !errors.As(err, &unavailable) || unavailable.RetryAfter <= 0 {
		t.Fatalf("%s: %v, want ErrUnavailable and when to come back", what, err)
	}
	return unavailable
}

// eachCut runs a test with a connection that is cut before and after the commit.
func eachCut(t *testing.T, test func(t *testing.T, reaches bool)) {
	t.Helper()
	for _, reaches := range []bool{true, false} {
		t.Run(fmt.Sprint("reaches=", reaches), func(t *testing.T) {
			t.Parallel()
			test(t, reaches)
		})
	}
}

// TestAClaimWhoseAnswerIsLostIsAcceptedOnce delivers again what got no answer, as producers do.
func TestAClaimWhoseAnswerIsLostIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	aliased, held := event("aliased", "ship"), event("held", "ship")
	aliased.Aliases = []dedup.Key{{Principal: "shop", Space: dedup.SpaceNonce, ID: "n"}}
	held.Hold, held.Lease = true, time.Minute
	occurring := occurs(event("occurring", "ship"), "first", 3)
	eachCut(t, func(t *testing.T, reaches bool) {
		p, s, direct, clock := cutPair(t, reaches)
		for _, c := range []dedup.Claim{event("plain", "ship"), aliased, held, occurring} {
			p.arm(string(c.Payload.Body))
			_, err := s.Claim(t.Context(), c)
			wantUnavailable(t, c.Key.ID, err)
			want := dedup.New
			if reaches {
				want = dedup.Known
			}
			d := claim(t, direct, c, want)
			if again := claim(t, s, c, dedup.Known); again.Record.Event != d.Record.Event {
				t.Errorf("%s: event %s, then %s", c.Key.ID, d.Record.Event, again.Record.Event)
			}
			if c.Hold { // its lease is lost, so it has to end
				clock.Advance(2 * time.Minute)
				if d := claim(t, direct, c, dedup.New); d.Record.Tasks[0].Attempt != 2 {
					t.Errorf("%+v", d.Record.Tasks)
				}
			}
			n := 0
			for r, err := range direct.List(t.Context(), dedup.Filter{ID: c.Key.ID}) {
				if n++; err != nil || r.Generation != 1 {
					t.Errorf("%s: generation %d, %v", c.Key.ID, r.Generation, err)
				}
			}
			if n != 1 {
				t.Errorf("%s: %d records", c.Key.ID, n)
			}
		}
		if n := p.cuts.Load(); n != 4 {
			t.Errorf("%d connections were cut", n)
		}
	})
}

func wantNothingDue(t *testing.T, s *Store) {
	t.Helper()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Take(short, dedup.Want{Tasks: 1, Lease: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the lease lasts: %v", err)
	}
}

func TestATakeWhoseAnswerIsLostIsTakenOverWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, reaches bool) {
		p, s, direct, clock := cutPair(t, reaches)
		claim(t, direct, event("a", "ship"), dedup.New)
		const mark = "marker" // in an argument: 8 bytes, the first two of which are zero
		var orphans int64     // microseconds
		for _, b := range []byte(mark) {
			orphans = orphans<<8 | int64(b)
		}
		p.arm(mark)
		want := dedup.Want{Tasks: 1, Lease: time.Minute, OrphanAfter: time.Duration(orphans * 1000)}
		_, err := s.Take(t.Context(), want)
		wantUnavailable(t, "take", err)
		attempt := 1
		if reaches {
			wantNothingDue(t, direct)
			clock.Advance(time.Minute)
			attempt = 2
		}
		if w := takeOne(t, direct); w.Task().Attempt != attempt {
			t.Errorf("%+v", w.Task())
		}
	})
}

func TestAResultWhoseAnswerIsLostCountsOnce(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, reaches bool) {
		p, s, direct, _ := cutPair(t, reaches)
		for i, r := range []dedup.Result{
			{Kind: dedup.ResultDone, Reason: "mark of a plain result"},
			{Kind: dedup.ResultDead, Reason: "mark of a dead letter"},
			{Kind: dedup.ResultRetry, After: time.Hour, Err: "mark of a retry"},
		} {
			claim(t, direct, event(fmt.Sprint("k", i), "ship"), dedup.New)
			l := takeOne(t, direct).Lease
			p.arm(r.Reason + r.Err)
			wantUnavailable(t, "finish", s.Finish(t.Context(), l, r))
			err := s.Finish(t.Context(), l, r)
			if reaches && !errors.Is(err, dedup.ErrLeaseLost) || !reaches && err != nil {
				t.Errorf("%s, once more: %v", r.Reason+r.Err, err)
			}
			state := []dedup.State{dedup.Done, dedup.Dead, dedup.Pending}[i]
			if rec := wantState(t, direct, l, state); rec.Tasks[0].Attempt != 1 {
				t.Errorf("%+v", rec.Tasks)
			}
		}
	})
}

// TestAChangeWhoseAnswerIsLostIsMadeOnce repeats what got no answer.
func TestAChangeWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	t.Parallel()
	eachCut(t, func(t *testing.T, reaches bool) {
		p, s, direct, clock := cutPair(t, reaches)
		for _, c := range []struct {
			handler string
			before  dedup.Result
			change  func(event string) (dedup.Record, error)
			already error // of the second call, if the first one changed the event
		}{
			{"reopened", dedup.Result{Kind: dedup.ResultDead},
				func(event string) (dedup.Record, error) { return s.Reopen(t.Context(), event) }, dedup.ErrNotDead},
			{"run now", dedup.Result{Kind: dedup.ResultRetry, After: time.Hour},
				func(event string) (dedup.Record, error) { return s.RunNow(t.Context(), event) }, dedup.ErrNotWaiting},
		} {
			claim(t, direct, event(c.handler, c.handler), dedup.New)
			l := takeOne(t, direct).Lease
			if err := direct.Finish(t.Context(), l, c.before); err != nil {
				t.Fatal(err)
			}
			p.arm(c.handler)
			_, err := c.change(l.Event)
			wantUnavailable(t, c.handler, err)
			if _, err := c.change(l.Event); reaches && !errors.Is(err, c.already) || !reaches && err != nil {
				t.Errorf("%s, once more: %v", c.handler, err)
			}
			w := takeOne(t, direct)
			if w.Record.Event != l.Event {
				t.Errorf("%s: the task of %s is due, want %s", c.handler, w.Record.Event, l.Event)
			}
			p.arm(string(tagOf(l.Event)))
			wantUnavailable(t, "extend", s.Extend(t.Context(), w.Lease, time.Hour))
			if reaches { // the lease lasts for an hour
				clock.Advance(2 * time.Minute)
				wantNothingDue(t, direct)
			}
			if err := s.Extend(t.Context(), w.Lease, time.Hour); err != nil {
				t.Errorf("extend, once more: %v", err)
			}
			if err := direct.Finish(t.Context(), w.Lease, done); err != nil {
				t.Error(err)
			}
		}
		gone := claim(t, direct, event("purged", "purged"), dedup.New).Record.Event
		if err := direct.Finish(t.Context(), takeOne(t, direct).Lease, done); err != nil {
			t.Fatal(err)
		}
		p.arm(string(binary.BigEndian.AppendUint64([]byte{0, 0, 0, 8}, uint64(seqOf(gone))))) // an argument
		wantUnavailable(t, "purge", s.Purge(t.Context(), gone))
		if err := s.Purge(t.Context(), gone); reaches && !errors.Is(err, dedup.ErrNotFound) || !reaches && err != nil {
			t.Errorf("purge, once more: %v", err)
		}
		claim(t, direct, event("purged", "purged"), dedup.New)
		if n := p.cuts.Load(); n != 5 {
			t.Errorf("%d connections were cut", n)
		}
	})
}

// TestStatementsAreNotCanceled ends the time of a statement: the server goes on with it, as with a
// commit that waits for a synchronous standby. Handlers' statements are canceled.
func TestStatementsAreNotCanceled(t *testing.T) {
	t.Parallel()
	s, dsn := newStore(t, "", Options{})
	exec := admin(t, s, dsn)
	exec("CREATE SEQUENCE {{schema}}.canceled; CREATE SEQUENCE {{schema}}.completed")
	late := func(c *pgx.Conn, sequence string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		sql := s.db.sql("DO $$ BEGIN PERFORM pg_sleep(1); PERFORM nextval('{{schema}}." + sequence + "'); END $$")
		if _, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err == nil {
			t.Error("the statement ended in time")
		}
	}
	for pool, sequence := range map[*pgxpool.Pool]string{s.txs: "canceled", s.db.pool: "completed"} {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		late(c.Conn(), sequence)
		c.Release()
	}
	called := func(sequence string) (called bool) {
		sql := s.db.sql("SELECT is_called FROM {{schema}}." + sequence)
		scan(t, s, sql, nil, &called)
		return called
	}
	eventually(t, func() bool { return called("completed") })
	if called("canceled") {
		t.Error("a handler's statement was completed")
	}
}

// TestAServerThatVanishesCostsSeconds lets packets disappear: no connection is closed. Calls fail
// before the time of their statements is over, unless there is a pooler between.
func TestAServerThatVanishesCostsSeconds(t *testing.T) {
	t.Parallel()
	dsn, schema := freshSchema(t)
	p := newCutter(t, dsn, true)
	name := fmt.Sprint("vanish-", schemas.Add(1))
	s := opened(t, p.dsn+" application_name="+name, Options{Schema: schema})
	between := s.db.pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe
	if between {
		long(t)
	}
	claim(t, s, event("before", "ship"), dedup.New)
	l := takeOne(t, s).Lease
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTimeout)
	defer cancel()
	exec := admin(t, s, dsn)
	exec("BEGIN; LOCK TABLE {{schema}}.event")
	inFlight := make(chan error, 1)
	go func() {
		_, err := s.Claim(ctx, event("in flight", "ship"))
		inFlight <- err
	}()
	awaitLock(t, s, name)
	p.swallow.Lock()
	exec("ROLLBACK")
	calls := map[string]func() error{
		"claim in flight": func() error { return <-inFlight },
		"claim":           func() error { _, err := s.Claim(ctx, event("during", "ship")); return err },
		"finish":          func() error { return s.Finish(ctx, l, done) },
		"take":            func() error { _, err := s.Take(ctx, dedup.Want{Tasks: 1, Lease: time.Minute}); return err },
		"run":             func() error { _, err := s.RunNow(ctx, l.Event); return err },
		"handler": func() error {
			return s.InTx(ctx, l, txTypes["pgx"], func(context.Context, any) (dedup.Result, error) { return done, nil })
		},
	}
	type result struct {
		call string
		err  error
	}
	results := make(chan result, len(calls))
	for name, call := range calls {
		go func() { results <- result{name, call()} }()
	}
	for range calls {
		r := <-results
		wantUnavailable(t, r.call, r.err)
		if !between && errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", r.call, r.err)
		}
	}
	p.swallow.Unlock()
	for tries := 0; ; tries++ { // connections of before are closed, others are made
		ds, err := s.Claim(t.Context(), event("after", "ship"))
		if err == nil {
			if ds[0].Verdict != dedup.New {
				t.Errorf("%+v", ds[0])
			}
			break
		}
		if wantUnavailable(t, "claim", err); tries == 20 {
			t.Fatal(err)
		}
	}
	if err := s.Finish(t.Context(), l, done); err != nil {
		t.Errorf("the result, once more: %v", err)
	}
}

// TestAServerThatAnswersIsNotCutOff fails the watch in each way.
func TestAServerThatAnswersIsNotCutOff(t *testing.T) {
	late := context.DeadlineExceeded
	readOnly := error(&dedup.ErrUnavailable{Reason: "read-only"})
	full := fmt.Errorf("connect: %w", &pgconn.PgError{Code: "53300"})
	here, there := &net.UnixAddr{Name: "here"}, &net.UnixAddr{Name: "there"}
	for _, c := range []struct {
		err     error
		from    net.Addr
		ago     time.Duration
		answers bool
	}{
		{late, here, 2 * time.Second, false}, {late, here, time.Second, true}, {late, there, 0, false},
		{readOnly, here, 2 * time.Second, false}, {readOnly, here, 0, false},
		{full, here, time.Hour, true},
	} {
		l := &line{Conn: address{of: c.from}}
		l.received.Store(time.Now().Add(-c.ago).UnixNano())
		w := watch{lines: lines{open: map[*line]bool{l: true}}}
		if got := w.answers("here", c.err); got != c.answers {
			t.Errorf("%v, %v sent something %v ago: answers %v", c.err, c.from, c.ago, got)
		}
	}
}

// address is a connection of which only the address of the other end is known.
type address struct {
	net.Conn
	of net.Addr
}

func (a address) RemoteAddr() net.Addr { return a.of }
