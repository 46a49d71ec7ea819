package pgstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// TestAStatementThatTakesTooLongLosesNothing lets the writes of a store stand still, until the
// server ends them at the statement_timeout of a role, as behind a pooler. Without a pooler the
// store sets it.
func TestAStatementThatTakesTooLongLosesNothing(t *testing.T) {
	t.Parallel()
	pgtest.Direct(t)
	dsn, schema := freshSchema(t)
	open := func(settings string) *Store {
		s := opened(t, dsn+settings, Options{Schema: schema})
		return s
	}
	direct := open("")
	const settings = "SELECT current_setting('statement_timeout') || ', jit ' || current_setting('jit')"
	var most string
	if err := direct.db.pool.QueryRow(t.Context(), settings).Scan(&most); err != nil || most != "20s, jit off" {
		t.Errorf("the timeout of a store is %s, %v", most, err)
	}
	for _, id := range []string{"done", "retried", "extended", "pending"} {
		claim(t, direct, event(id, "ship"), dedup.New)
	}
	finished, retried, extended := takeOne(t, direct).Lease, takeOne(t, direct).Lease, takeOne(t, direct).Lease
	exec := admin(t, direct, dsn)
	const hang = `CREATE OR REPLACE FUNCTION {{schema}}.hang() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF current_setting('application_name') = '%s' THEN PERFORM pg_sleep(60); END IF; RETURN NULL; END $$;`
	exec(fmt.Sprintf(hang, "slow") + `
CREATE TRIGGER hang BEFORE INSERT OR UPDATE ON {{schema}}.event FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.hang();
CREATE TRIGGER hang BEFORE INSERT OR UPDATE ON {{schema}}.task FOR EACH STATEMENT EXECUTE FUNCTION {{schema}}.hang()`)
	s := open(" application_name=slow default_query_exec_mode=cache_describe options='-c statement_timeout=500ms'")
	retry := dedup.Result{Kind: dedup.ResultRetry}
	var wg sync.WaitGroup
	for call, run := range map[string]func() error{
		"claim":  func() error { _, err := s.Claim(t.Context(), event("claimed", "ship")); return err },
		"take":   func() error { _, err := s.Take(t.Context(), dedup.Want{Tasks: 1, Lease: time.Minute}); return err },
		"finish": func() error { return s.Finish(t.Context(), finished, done) },
		"retry":  func() error { return s.Finish(t.Context(), retried, retry) },
		"extend": func() error { return s.Extend(t.Context(), extended, time.Minute) },
	} {
		wg.Go(func() {
			err := run()
			if unavailable := (&dedup.ErrUnavailable{}); !errors.As(err, &unavailable) || unavailable.RetryAfter <= 0 ||
				!strings.Contains(err.Error(), "57014") {
				t.Errorf("%s: %v", call, err)
			}
		})
	}
	wg.Wait()
	exec(fmt.Sprintf(hang, "none"))
	claim(t, s, event("claimed", "ship"), dedup.New)
	err := errors.Join(s.Finish(t.Context(), finished, done), s.Finish(t.Context(), retried, retry),
		s.Extend(t.Context(), extended, time.Minute), s.Finish(t.Context(), extended, done))
	if err != nil {
		t.Error(err)
	}
	attempts := map[string]int{}
	for range 3 {
		w := takeOne(t, direct)
		attempts[w.Record.Key.ID] = w.Task().Attempt
		if err := s.Finish(t.Context(), w.Lease, done); err != nil {
			t.Error(err)
		}
	}
	if len(attempts) != 3 || attempts["pending"] != 1 || attempts["claimed"] != 1 || attempts["retried"] != 2 {
		t.Errorf("attempts: %v", attempts)
	}
}
