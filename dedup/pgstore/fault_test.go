package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// newStore opens a store with the settings of receivers.
func newStore(t testing.TB, settings string, o Options) (s *Store, dsn string) {
	t.Helper()
	dsn, schema := newSchema(t)
	o.Schema = schema
	return opened(t, dsn+settings, o), dsn
}

// admin is a connection of another program.
func admin(t testing.TB, s *Store, dsn string) func(sql string, args ...any) {
	t.Helper()
	c := connected(t, dsn)
	return func(sql string, args ...any) {
		t.Helper()
		mode := []any{pgx.QueryExecModeSimpleProtocol}
		if _, err := c.Exec(t.Context(), inSchema(sql, s.db.schema), append(mode, args...)...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// fail lets statements that write events or tasks fail with a code. It returns how often they did,
// and what ends it.
func fail(t *testing.T, s *Store, exec func(string, ...any), code string) (failures func() int64, end func()) {
	t.Helper()
	exec(`CREATE SEQUENCE IF NOT EXISTS {{schema}}.failures;
CREATE OR REPLACE FUNCTION {{schema}}.fail() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM nextval('{{schema}}.failures'); RAISE SQLSTATE '` + code + `' USING MESSAGE = 'no'; END $$;
CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON {{schema}}.event FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.fail();
CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON {{schema}}.task FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.fail();`)
	ended := false
	end = func() {
		if !ended {
			exec(`DROP FUNCTION {{schema}}.fail CASCADE; DROP SEQUENCE {{schema}}.failures`)
			ended = true
		}
	}
	failures = func() (n int64) {
		row := s.db.pool.QueryRow(t.Context(), s.db.sql("SELECT last_value FROM {{schema}}.failures WHERE is_called"))
		if err := row.Scan(&n); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Error(err)
		}
		return n
	}
	return failures, end
}

// TestFaultsOfTheServerAreTemporary lets the server fail as with a full disk (53100), a timeout
// (57014), too little memory, a damaged file and endless conflicts. Afterwards
// the same calls succeed.
func TestFaultsOfTheServerAreTemporary(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	name := fmt.Sprint("faults-", schemas.Add(1))
	s, dsn := newStore(t, " application_name="+name, Options{})
	exec := admin(t, s, dsn)
	const connections = "SELECT coalesce(array_agg(pid), '{}') FROM pg_stat_activity WHERE application_name = $1"
	pids := func() (all []int32) {
		scan(t, s, connections, []any{name}, &all)
		return all
	}
	for _, code := range []string{"53100", "57014", "53200", "58030", "XX001", codeSerialization, codeReadOnly} {
		before := claim(t, s, event("before "+code, "ship"), dedup.New).Record.Event
		l := takeOne(t, s).Lease
		conns := pids()
		failures, end := fail(t, s, exec, code)
		_, err := s.Claim(t.Context(), event("during "+code, "ship"))
		unavailable := wantUnavailable(t, code, err)
		if msg := err.Error(); !strings.Contains(msg, code) && code != codeReadOnly || unavailable.RetryAfter > later {
			t.Errorf("%s: %v after %v", code, err, unavailable.RetryAfter)
		}
		wantUnavailable(t, code, s.Finish(t.Context(), l, done))
		wantUnavailable(t, code, s.Finish(t.Context(), l, dedup.Result{Kind: dedup.ResultRetry}))
		left := slices.DeleteFunc(conns, func(pid int32) bool { return !slices.Contains(pids(), pid) })
		if code == codeReadOnly && len(left) > max(1, len(conns)-2) {
			t.Errorf("%d of %d connections to a server that became read-only are left", len(left), len(conns))
		}
		if n := failures(); n == 0 {
			t.Errorf("%s: no statement failed", code)
		}
		end()
		claim(t, s, event("during "+code, "ship"), dedup.New)
		claim(t, s, event("before "+code, "ship"), dedup.Known)
		if err := s.Finish(t.Context(), l, done); err != nil || l.Event != before {
			t.Errorf("%s: %v", code, err)
		}
		if err := s.Finish(t.Context(), takeOne(t, s).Lease, done); err != nil {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestOneCallDoesNotFailTheOthers has one claim in a batch that the database refuses, and then a
// database that refuses everything for a while, which it is asked once.
func TestOneCallDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	s, dsn := newStore(t, "", Options{})
	exec := admin(t, s, dsn)
	write := func(name string) (errs []error) {
		ops := make([]*claimOp, 20)
		for i := range ops {
			var err error
			if ops[i], err = newClaimOp([]dedup.Claim{event(fmt.Sprint(name, i), "ship")}); err != nil {
				t.Fatal(err)
			}
		}
		s.writeClaims(ops)
		for _, op := range ops {
			errs = append(errs, <-op.done)
		}
		return errs
	}
	exec(`ALTER TABLE {{schema}}.event ADD CONSTRAINT odd CHECK (key <> 'refused 7')`)
	errs := write("refused ")
	exec(`ALTER TABLE {{schema}}.event DROP CONSTRAINT odd`)
	for i, err := range errs {
		if (err != nil) != (i == 7) {
			t.Errorf("claim %d: %v", i, err)
		}
	}
	failures, end := fail(t, s, exec, "53100")
	defer end()
	for i, err := range write("full ") {
		wantUnavailable(t, fmt.Sprint("claim ", i), err)
	}
	if n := failures(); n != 1 {
		t.Errorf("a full disk was written to %d times for one batch", n)
	}
}

// TestALockThatIsNotReleasedIsAnError holds a lock as a careless administrator does.
func TestALockThatIsNotReleasedIsAnError(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	s, dsn := newStore(t, "", Options{})
	exec := admin(t, s, dsn)
	claim(t, s, event("a", "ship"), dedup.New)
	l := takeOne(t, s).Lease
	exec(`BEGIN; LOCK TABLE {{schema}}.task, {{schema}}.event`)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.Claim(t.Context(), event("b", "ship"))
		if err == nil || !strings.Contains(err.Error(), "lock") {
			t.Errorf("claim: %v", err)
		}
	})
	wg.Go(func() {
		if err := s.Finish(t.Context(), l, done); err == nil || !strings.Contains(err.Error(), "lock") {
			t.Errorf("finish: %v", err)
		}
	})
	wg.Wait()
	exec(`ROLLBACK`)
	claim(t, s, event("b", "ship"), dedup.New)
	if err := s.Finish(t.Context(), l, done); err != nil {
		t.Error(err)
	}
}

// TestADeadlockIsResolvedAndTheClaimRunsAgain lets another program wait for what a claim inserted,
// while the claim waits for what that program inserted.
func TestADeadlockIsResolvedAndTheClaimRunsAgain(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	name := fmt.Sprint("deadlock-", schemas.Add(1))
	// Of two that wait, the first to have waited for this time ends the deadlock.
	s, dsn := newStore(t, " application_name="+name+" options='-c deadlock_timeout=3s'", Options{})
	exec := admin(t, s, dsn)
	first, second := event("a", "ship"), event("b", "ship")
	if a, b := first.Key.Hash(), second.Key.Hash(); string(a[:]) > string(b[:]) {
		first, second = second, first
	}
	insert := func(c dedup.Claim) {
		h := c.Key.Hash()
		exec(`INSERT INTO {{schema}}.event (seq, hash, current, generation, accepted, win, tasks, hold, drop_body, newest,
  producer, endpoint, type, key, about, size) VALUES (-1 - ` + fmt.Sprint(h[0]) + `, '\x` + fmt.Sprintf("%x", h) + `', true, 1, now(), 1, 0,
  false, false, false, '', '', '', '', '', 0)`)
	}
	exec(`SET deadlock_timeout = '1min'; BEGIN`)
	insert(second)
	decided := make(chan error, 1)
	go func() {
		ds, err := s.Claim(t.Context(), first, second)
		if err == nil && (ds[0].Verdict != dedup.New || ds[1].Verdict != dedup.New) {
			err = fmt.Errorf("%+v", ds)
		}
		decided <- err
	}()
	awaitLock(t, s, name)
	insert(first)
	exec(`ROLLBACK`)
	if err := <-decided; err != nil {
		t.Error(err)
	}
	const broken = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
	eventually(t, func() bool { // such counts come late
		var n int
		scan(t, s, broken, nil, &n)
		return n > 0
	})
}

// awaitLock waits until a statement of an application waits for a lock.
func awaitLock(t *testing.T, s *Store, application string) {
	t.Helper()
	const waits = `SELECT EXISTS (SELECT 1 FROM pg_stat_activity
  WHERE application_name = $1 AND wait_event_type = 'Lock')`
	eventually(t, func() (waiting bool) {
		scan(t, s, waits, []any{application}, &waiting)
		return waiting
	})
}

// eventually waits until something is so.
func eventually(t testing.TB, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never happened")
		}
	}
}

// TestCallsOfOperatorsStarveNothing lets calls wait for a row until no connection is left for them.
func TestCallsOfOperatorsStarveNothing(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	s, dsn := newStore(t, fmt.Sprint(" pool_max_conns=", ownConns+2), Options{})
	exec := admin(t, s, dsn)
	blocked := claim(t, s, event("blocked"), dedup.New).Record.Event
	exec(`BEGIN; SELECT FROM {{schema}}.event FOR UPDATE`)
	purged := make(chan error, 2)
	for range cap(s.callers) {
		go func() { purged <- s.Purge(t.Context(), blocked) }()
	}
	eventually(t, func() bool { return len(s.callers) == cap(s.callers) })
	_, err := s.Get(t.Context(), blocked)
	wantUnavailable(t, "get", err)
	wantUnavailable(t, "purge", s.Purge(t.Context(), blocked))
	for _, err := range s.List(t.Context(), dedup.Filter{}) {
		wantUnavailable(t, "list", err)
	}
	lives(t, s)
	exec(`ROLLBACK`)
	if err := errors.Join(<-purged, <-purged); !errors.Is(err, dedup.ErrNotFound) { // of the second
		t.Error(err)
	}
}

// lives accepts, takes and finishes an event.
func lives(t *testing.T, s *Store) {
	t.Helper()
	id := fmt.Sprint("lives ", schemas.Add(1))
	claim(t, s, event(id, "ship"), dedup.New)
	w := takeOne(t, s)
	if err := s.Finish(t.Context(), w.Lease, done); err != nil || w.Record.Key.ID != id {
		t.Errorf("%s: %v", w.Record.Key.ID, err)
	}
}

// TestHandlersThatHangStarveNothing runs as many transactions as there are connections for them.
func TestHandlersThatHangStarveNothing(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, "", Options{HandlerConns: 1})
	for i := range 2 {
		claim(t, s, event(fmt.Sprint("k", i), "ship"), dedup.New)
	}
	hangs, other := takeOne(t, s).Lease, takeOne(t, s).Lease
	began, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- s.InTx(t.Context(), hangs, txTypes["pgx"], func(context.Context, any) (dedup.Result, error) {
			close(began)
			<-release
			return done, nil
		})
	}()
	<-began
	for _, as := range txTypes {
		err := s.InTx(t.Context(), other, as, func(context.Context, any) (dedup.Result, error) {
			t.Error("it has a connection")
			return done, nil
		})
		wantUnavailable(t, "transaction", err)
	}
	lives(t, s)
	if _, err := s.Get(t.Context(), other.Event); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	works := func(context.Context, any) (dedup.Result, error) { return done, nil }
	if err := s.InTx(t.Context(), other, txTypes["sql"], works); err != nil {
		t.Error(err)
	}
}

// TestAServerWithoutFreeConnectionsIsUnavailable opens a store as a role that may not connect.
func TestAServerWithoutFreeConnectionsIsUnavailable(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	s, dsn := newStore(t, "", Options{})
	role := fmt.Sprintf("crowded_%d_%d", os.Getpid(), schemas.Add(1))
	admin(t, s, dsn)("CREATE ROLE " + role + " LOGIN CONNECTION LIMIT 0")
	_, err := Open(t.Context(), dsn+" user="+role, Options{Schema: s.db.schema})
	wantUnavailable(t, "open", err)
}

// TestAlteredTablesAreAnError removes and damages what statements need.
func TestAlteredTablesAreAnError(t *testing.T) {
	t.Parallel()
	s, dsn := newStore(t, "", Options{})
	exec := admin(t, s, dsn)
	damaged := claim(t, s, event("damaged"), dedup.New).Record.Event
	claim(t, s, event("damaged task", "ship", "mail"), dedup.New)
	exec(`UPDATE {{schema}}.event SET about = 'x' WHERE key = 'damaged'`)
	exec(`UPDATE {{schema}}.task SET history = 'x' WHERE handler = 'mail'`)
	if _, err := s.Get(t.Context(), damaged); err == nil || !strings.Contains(err.Error(), damaged) {
		t.Errorf("get of a damaged row: %v", err)
	}
	lives(t, s) // those that are damaged do not block it
	if st, err := s.Stats(t.Context()); err != nil || st.Dead != 2 || st.Flush <= 0 {
		t.Errorf("%+v, %v", st, err)
	}
	exec(`ALTER TABLE {{schema}}.task RENAME postponed TO changed`)
	_, err := s.Claim(t.Context(), event("b", "ship"))
	if wantUnavailable(t, "claim", err); !strings.Contains(err.Error(), "postponed") {
		t.Error(err)
	}
	exec(`ALTER TABLE {{schema}}.task RENAME changed TO postponed`)
	lives(t, s)
}
