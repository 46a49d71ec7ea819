package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
)

var txTypes = map[string]reflect.Type{"pgx": reflect.TypeFor[pgx.Tx](), "sql": reflect.TypeFor[*sql.Tx]()}

// effects is a table of the user in which each run of a handler inserts a row.
type effects struct {
	t     *testing.T
	s     *Store
	table string
}

func newEffects(t *testing.T, s *Store) *effects {
	t.Helper()
	e := &effects{t: t, s: s, table: fmt.Sprintf("effect_%d", schemas.Add(1))}
	e.exec("CREATE TABLE " + e.table + " (event text, try int)")
	t.Cleanup(func() { e.exec("DROP TABLE " + e.table) })
	return e
}

func (e *effects) exec(statement string) {
	e.t.Helper()
	if _, err := e.s.db.pool.Exec(context.Background(), statement); err != nil {
		e.t.Fatal(err)
	}
}

// insert is the effect of a handler.
func (e *effects) insert(ctx context.Context, tx any, event string, try int) error {
	statement := "INSERT INTO " + e.table + " VALUES ($1, $2)"
	if std, ok := tx.(*sql.Tx); ok {
		_, err := std.ExecContext(ctx, statement, event, try)
		return err
	}
	_, err := tx.(pgx.Tx).Exec(ctx, statement, event, try)
	return err
}

// want fails unless the effects are as many, of as many events.
func (e *effects) want(rows, events int) {
	e.t.Helper()
	var gotRows, gotEvents int
	row := e.s.db.pool.QueryRow(e.t.Context(), "SELECT count(*), count(DISTINCT event) FROM "+e.table)
	if err := row.Scan(&gotRows, &gotEvents); err != nil || gotRows != rows || gotEvents != events {
		e.t.Errorf("%d effects of %d events, %v; want %d of %d", gotRows, gotEvents, err, rows, events)
	}
}

func wantState(t *testing.T, s *Store, l dedup.Lease, want dedup.State) dedup.Record {
	t.Helper()
	r, err := s.Get(t.Context(), l.Event)
	if err != nil || r.Tasks[l.Task].State != want {
		t.Fatalf("%+v, %v; want %v", r.Tasks, err, want)
	}
	return r
}

// eachTx runs a test with each type of transaction.
func eachTx(t *testing.T, test func(t *testing.T, as reflect.Type)) {
	t.Helper()
	for name, as := range txTypes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, as)
		})
	}
}

func TestEffectAndOutcomeAreOneCommit(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, as reflect.Type) {
		stores, _ := two(t)
		s, e := stores[0], newEffects(t, stores[0])
		answer := dedup.Result{Kind: dedup.ResultDone, Response: dedup.Response{Status: 201, Body: []byte("made")}}
		held := event("held", "ship")
		held.Hold, held.Lease = true, time.Minute
		drops, laned := event("drops", "ship"), event("laned", "ship")
		drops.DropBody, laned.Tasks[0].Lane = true, "l"
		for i, c := range []dedup.Claim{event("plain", "ship"), drops, laned, held} {
			d, r := claim(t, s, c, dedup.New), done
			l := d.Lease
			if c.Hold {
				r = answer
			} else {
				l = takeOne(t, s).Lease
			}
			err := s.InTx(t.Context(), l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
				wantState(t, s, l, dedup.Running)
				e.want(i, i)
				return r, e.insert(ctx, tx, l.Event, 1)
			})
			if err != nil {
				t.Fatalf("%s: %v", c.Key.ID, err)
			}
			e.want(i+1, i+1)
			if rec := wantState(t, stores[1], l, dedup.Done); rec.Response.Status != r.Response.Status {
				t.Errorf("%s: response %+v", c.Key.ID, rec.Response)
			}
			err = s.Finish(t.Context(), l, dedup.Result{Kind: dedup.ResultRetry})
			if !errors.Is(err, dedup.ErrLeaseLost) {
				t.Errorf("%s: a result after the commit: %v", c.Key.ID, err)
			}
		}
		types := []reflect.Type{txTypes["pgx"], txTypes["sql"]}
		if !s.Guarantees().Transactional || !reflect.DeepEqual(s.TxTypes(), types) {
			t.Errorf("%+v, %v", s.Guarantees(), s.TxTypes())
		}
	})
}

func rollback(ctx context.Context, tx any) error {
	if std, ok := tx.(*sql.Tx); ok {
		return std.Rollback()
	}
	return tx.(pgx.Tx).Rollback(ctx)
}

// TestAHandlerThatFailsHasNoEffect runs handlers after whose effect something is wrong.
func TestAHandlerThatFailsHasNoEffect(t *testing.T) {
	t.Parallel()
	own := errors.New("out of stock")
	failures := map[string]func(ctx context.Context, tx any) error{
		own.Error(): func(context.Context, any) error { return own },
		"must not end its transaction": func(ctx context.Context, tx any) error {
			if std, ok := tx.(*sql.Tx); ok {
				_ = std.Commit()
			} else {
				_ = tx.(pgx.Tx).Commit(ctx)
			}
			return nil
		},
		"remove its Rollback": rollback,
		"too late": func(ctx context.Context, tx any) error {
			return errors.Join(rollback(ctx, tx), errors.New("too late"))
		},
		"returned no error": func(ctx context.Context, tx any) error {
			if std, ok := tx.(*sql.Tx); ok {
				_, _ = std.ExecContext(ctx, "SELECT 1/0")
			} else {
				_, _ = tx.(pgx.Tx).Exec(ctx, "SELECT 1/0")
			}
			return nil
		},
	}
	eachTx(t, func(t *testing.T, as reflect.Type) {
		stores, _ := two(t)
		s, e := stores[0], newEffects(t, stores[0])
		claim(t, s, event("a", "ship"), dedup.New)
		l := takeOne(t, s).Lease
		for want, fails := range failures {
			err := s.InTx(t.Context(), l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
				return done, errors.Join(e.insert(ctx, tx, l.Event, 1), fails(ctx, tx))
			})
			if err == nil || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "Rollback") != (want == "remove its Rollback") {
				t.Errorf("%q, want %q", err, want)
			}
			wantState(t, s, l, dedup.Running)
			e.want(0, 0)
		}
		ended := make(chan struct{})
		go func() { // as a handler that calls runtime.Goexit
			defer close(ended)
			defer func() { _ = recover() }()
			_ = s.InTx(t.Context(), l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
				_ = e.insert(ctx, tx, l.Event, 1)
				panic("handler")
			})
		}()
		<-ended
		e.want(0, 0)
		if err := s.Finish(t.Context(), l, dedup.Result{Kind: dedup.ResultRetry}); err != nil {
			t.Error(err)
		}
		if n := s.txs.Stat().AcquiredConns(); n != 0 {
			t.Errorf("%d connections are not given back", n)
		}
	})
}

// TestEffectsHappenOnce lets receivers take the same tasks over and over: some vanish with an open
// transaction, and some are paused between the effect and the commit until another one is done.
func TestEffectsHappenOnce(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, as reflect.Type) {
		stores, clock := two(t)
		e := newEffects(t, stores[0])
		const events = 24
		for i := range events {
			claim(t, stores[i%2], event(fmt.Sprint("e", i), "ship"), dedup.New)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var mu sync.Mutex
		left, refused := events, 0
		finished := map[string]chan struct{}{}
		var wg sync.WaitGroup
		run := func(s *Store, w dedup.Work) {
			l, try := w.Lease, w.Task().Attempt
			mu.Lock()
			if finished[l.Event] == nil {
				finished[l.Event] = make(chan struct{})
			}
			done := finished[l.Event]
			mu.Unlock()
			vanishes, pauses := try == 1 && w.Record.Seq%3 == 0, try == 1 && w.Record.Seq%3 == 1
			err := s.InTx(ctx, l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
				if err := e.insert(ctx, tx, l.Event, try); err != nil {
					return dedup.Result{}, err
				}
				if vanishes {
					return dedup.Result{}, errors.New("killed")
				}
				if pauses {
					select {
					case <-done:
					case <-ctx.Done():
						return dedup.Result{}, ctx.Err()
					}
				}
				return dedup.Result{Kind: dedup.ResultDone}, nil
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				close(done)
				if left--; left == 0 {
					cancel()
				}
			case errors.Is(err, dedup.ErrLeaseLost): // also without a pause: the clock is fast
				refused++
			case !vanishes && ctx.Err() == nil: // else the test is over
				t.Errorf("attempt %d of %s: %v", try, l.Event, err)
			}
		}
		for i := range 2 {
			wg.Go(func() {
				for {
					works, err := stores[i].Take(ctx, dedup.Want{Tasks: 2, Bytes: 1 << 20, Lease: time.Minute})
					if err != nil {
						return
					}
					for _, w := range works {
						wg.Go(func() { run(stores[i], w) })
					}
				}
			})
		}
		wg.Go(func() {
			for ctx.Err() == nil { // leases end, also those of runs that are not over
				clock.Advance(time.Minute)
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
		wg.Wait()
		if left != 0 || refused == 0 {
			t.Errorf("%d events are left, and %d late commits were refused", left, refused)
		}
		e.want(events, events)
	})
}

func TestATransactionThatTheDatabaseUndidRunsAgain(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, as reflect.Type) {
		stores, _ := two(t)
		s, e := stores[0], newEffects(t, stores[0])
		for _, code := range []string{codeSerialization, codeDeadlock} {
			for _, times := range []int{1, maxReruns, maxReruns + 1} {
				claim(t, s, event(fmt.Sprint(code, times), "ship"), dedup.New)
				l, runs := takeOne(t, s).Lease, 0
				err := s.InTx(t.Context(), l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
					if err := e.insert(ctx, tx, l.Event, 1); err != nil {
						return dedup.Result{}, err
					}
					if runs++; runs > times {
						return done, nil
					}
					raise := "DO $$ BEGIN RAISE SQLSTATE '" + code + "'; END $$"
					if std, ok := tx.(*sql.Tx); ok {
						_, err := std.ExecContext(ctx, raise)
						return done, err
					}
					_, err := tx.(pgx.Tx).Exec(ctx, raise)
					return done, fmt.Errorf("the handler says: %w", err)
				})
				if again := times <= maxReruns; again != (err == nil) || runs != min(times, maxReruns)+1 {
					t.Errorf("%s %d times: %d runs, %v", code, times, runs, err)
				}
			}
		}
		e.want(4, 4)
	})
}

// TestAPausedTransactionIsUndoneByTheDatabase reads what the transaction of a handler is bound by.
func TestAPausedTransactionIsUndoneByTheDatabase(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	s := stores[0]
	claim(t, s, event("a", "ship"), dedup.New)
	l := takeOne(t, s).Lease
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	err := s.InTx(ctx, l, txTypes["pgx"], func(ctx context.Context, tx any) (dedup.Result, error) {
		var idle, statement, seqscan string
		row := tx.(pgx.Tx).QueryRow(ctx, `SELECT
			extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval)::text,
			current_setting('statement_timeout'), current_setting('enable_seqscan')`)
		if err := row.Scan(&idle, &statement, &seqscan); err != nil {
			return dedup.Result{}, err
		}
		d, err := time.ParseDuration(idle + "s")
		if err != nil || d <= 80*time.Second || d > 95*time.Second || seqscan != "on" {
			t.Errorf("idle %v, statement %s, enable_seqscan %s", d, statement, seqscan)
		}
		if _, err := tx.(pgx.Tx).Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 1"); err != nil {
			return dedup.Result{}, err
		}
		for deadline := time.Now().Add(10 * time.Second); ; { // it stands still, and the database ends it
			var n int
			pid := tx.(pgx.Tx).Conn().PgConn().PID()
			err := s.db.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", int32(pid)).Scan(&n)
			if err != nil || n == 0 || time.Now().After(deadline) {
				return done, err
			}
		}
	})
	if unavailable := new(dedup.ErrUnavailable); !errors.As(err, &unavailable) {
		t.Errorf("%v", err)
	}
	if err := s.Finish(t.Context(), l, dedup.Result{Kind: dedup.ResultRetry}); err != nil {
		t.Error(err)
	}
}

// TestALostAnswerToACommitIsFoundOut cuts the connection at COMMIT, before it reaches the server or
// before its answer reaches the store.
func TestALostAnswerToACommitIsFoundOut(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, as reflect.Type) {
		for _, reaches := range []bool{true, false} {
			dsn, schema := freshSchema(t)
			p := newCutter(t, dsn, reaches)
			direct := opened(t, dsn, Options{Schema: schema})
			s := opened(t, p.dsn, Options{Schema: schema})
			e := newEffects(t, direct)
			claim(t, s, event("a", "ship"), dedup.New)
			l := takeOne(t, s).Lease
			p.arm("commit\x00")
			err := s.InTx(t.Context(), l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
				return done, e.insert(ctx, tx, l.Event, 1)
			})
			if unavailable := new(dedup.ErrUnavailable); !errors.As(err, &unavailable) {
				t.Fatalf("reaches %v: %v", reaches, err)
			}
			err = s.Finish(t.Context(), l, dedup.Result{Kind: dedup.ResultRetry, After: time.Hour})
			if reaches {
				if !errors.Is(err, dedup.ErrLeaseLost) {
					t.Errorf("after the commit: %v", err)
				}
				wantState(t, direct, l, dedup.Done)
				e.want(1, 1)
				continue
			}
			if err != nil {
				t.Errorf("without the commit: %v", err)
			}
			wantState(t, direct, l, dedup.Pending)
			e.want(0, 0)
		}
	})
}

func TestCloseDoesNotWaitForATransaction(t *testing.T) {
	t.Parallel()
	stores, _ := two(t)
	s, e := stores[0], newEffects(t, stores[1])
	claim(t, s, event("a", "ship"), dedup.New)
	l := takeOne(t, s).Lease
	closing := make(chan error, 1)
	err := s.InTx(t.Context(), l, txTypes["pgx"], func(ctx context.Context, tx any) (dedup.Result, error) {
		err := e.insert(ctx, tx, l.Event, 1)
		go func() { closing <- s.Close() }()
		<-s.ctx.Done()
		return done, err
	})
	if !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("a transaction that outlasts Close: %v", err)
	}
	if err := <-closing; err != nil {
		t.Error(err)
	}
	e.want(0, 0)
	wantState(t, stores[1], l, dedup.Running)
	if err := s.InTx(t.Context(), l, txTypes["pgx"], nil); !errors.Is(err, dedup.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
