package once_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/receiver"
)

func TestAMarkedEffectIsNotRepeated(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		first, other, younger, third := event("a"), event("a"), event("a"), event("b")
		other.Handler = "shop/mail"
		younger.Accepted = accepted.Add(time.Microsecond)
		for i, ev := range []receiver.Event[any]{first, other, younger, third} {
			for range 2 {
				if err := r.handle(r.t.Context(), ev, nothing); err != nil {
					r.t.Fatal(err)
				}
				r.want(i + 1)
			}
		}
		// As a store keeps it that has microseconds.
		first.Accepted = accepted.Truncate(time.Microsecond).In(time.FixedZone("", 3600))
		if err := r.handle(r.t.Context(), first, nothing); err != nil {
			r.t.Fatal(err)
		}
		r.want(4)
	})
}

// A handler that fails has no effect, and no mark: it runs again.
func TestAFailedAttemptIsUndone(t *testing.T) {
	t.Parallel()
	own := errors.New("out of stock")
	failures := map[string]func(ctx context.Context, tx any) error{
		own.Error(): func(context.Context, any) error { return own },
		"out of stock, rolled back": func(ctx context.Context, tx any) error {
			return fmt.Errorf("%w, rolled back%w", own, rollbackTx(ctx, tx))
		},
		"nil after a rollback": rollbackTx,
		"division by zero":     func(ctx context.Context, tx any) error { return execTx(ctx, tx, "SELECT 1/0") },
		"commit": func(ctx context.Context, tx any) error { // of a transaction in which a statement failed
			_ = execTx(ctx, tx, "SELECT 1/0")
			return nil
		},
	}
	each(t, func(r *rig) {
		for want, fails := range failures {
			err := r.handle(r.t.Context(), event("a"), fails)
			if err == nil || !strings.Contains(err.Error(), want) {
				r.t.Errorf("%v, want %q", err, want)
			}
			r.want(0)
		}
		for _, leaves := range []func(){func() { panic("handler") }, runtime.Goexit} {
			left := make(chan struct{})
			go func() {
				defer close(left)
				defer func() { _ = recover() }()
				_ = r.handle(r.t.Context(), event("a"), func(context.Context, any) error { leaves(); return nil })
			}()
			<-left
			r.want(0)
		}
		if err := r.handle(r.t.Context(), event("a"), nothing); err != nil {
			r.t.Error(err)
		}
		r.want(1)
	})
}

// The effect before a commit of the handler counts, and is reported, whatever the handler returns.
func TestACommitOfTheHandlerIsReported(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		for i, after := range []error{nil, errors.New("later")} {
			ev := event(fmt.Sprint(i))
			err := r.handle(r.t.Context(), ev, func(ctx context.Context, tx any) error {
				return errors.Join(commitTx(ctx, tx), after)
			})
			text := fmt.Sprint(err)
			if !strings.HasPrefix(text, "rejected") || !strings.Contains(text, "remove its Commit") ||
				!errors.Is(err, after) && after != nil {
				r.t.Errorf("%v", err)
			}
			if err := r.handle(r.t.Context(), ev, nothing); err != nil {
				r.t.Error(err)
			}
			r.want(i + 1)
		}
	})
}

func TestATransactionThatTheDatabaseUndidRunsAgain(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		for _, code := range []string{"40001", "40P01"} {
			for _, times := range []int{1, 3, 4} {
				ev, runs := event(fmt.Sprint(code, times)), 0
				ev.Body, ev.Header = []byte("body"), http.Header{"Kind": {"order"}}
				next := func(ctx context.Context, ev receiver.Event[any]) (*receiver.Response, error) {
					if string(ev.Body) != "body" || ev.Header.Get("Kind") != "order" {
						r.t.Errorf("run %d gets %q, %v", runs, ev.Body, ev.Header)
					}
					ev.Body[0] = '!'
					ev.Header.Set("Kind", "changed")
					tx := once.TxOf(ctx)
					err := execTx(ctx, tx, "INSERT INTO "+r.effects+" VALUES ($1, $2)", ev.EventID, runs)
					if runs++; runs > times || err != nil {
						return nil, err
					}
					err = execTx(ctx, tx, "DO $$ BEGIN RAISE SQLSTATE '"+code+"'; END $$")
					return nil, fmt.Errorf("the handler says: %w", err)
				}
				err := r.run(r.t.Context(), ev, next)
				if again := times <= 3; again != (err == nil) || runs != min(times, 3)+1 {
					r.t.Errorf("%s %d times: %d runs, %v", code, times, runs, err)
				}
			}
		}
		r.want(4)
	})
}

// The second attempt waits for the transaction of the first one, and runs only if that is undone.
func TestOfTwoAttemptsAtOnceOneHasAnEffect(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		for i, fails := range []error{nil, errors.New("undone")} {
			ev := event(fmt.Sprint(i))
			first, second := make(chan error, 1), make(chan error, 1)
			inserted, waiting := make(chan struct{}), make(chan struct{})
			go func() {
				first <- r.handle(r.t.Context(), ev, func(context.Context, any) error {
					close(inserted)
					<-waiting
					return fails
				})
			}()
			<-inserted
			runs := 0
			go func() {
				second <- r.handle(r.t.Context(), ev, func(context.Context, any) error { runs++; return nil })
			}()
			for r.count("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1",
				"%"+r.table()+"%") == 0 {
				runtime.Gosched() // until it waits
			}
			close(waiting)
			if err := <-first; !errors.Is(err, fails) {
				r.t.Error(err)
			}
			if err := <-second; err != nil || (runs == 1) != (fails != nil) {
				r.t.Errorf("after %v: %d runs, %v", fails, runs, err)
			}
			r.want(i + 1)
		}
	})
}

// table returns the name of the table of marks in a statement.
func (r *rig) table() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.sql(), "CREATE TABLE IF NOT EXISTS "), " (")
	return name
}

// An attempt that waits for another one in vain does not count.
func TestAWaitingAttemptIsPostponed(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		err := r.handle(r.t.Context(), event("a"), func(context.Context, any) error {
			ctx, cancel := context.WithTimeout(r.t.Context(), 300*time.Millisecond)
			defer cancel()
			err := r.handle(ctx, event("a"), func(context.Context, any) error { r.t.Error("it runs"); return nil })
			text := fmt.Sprint(err)
			if !strings.HasPrefix(text, "postponed") || !strings.Contains(text, "another attempt") {
				r.t.Errorf("the second attempt: %v", err)
			}
			return nil
		})
		if err != nil {
			r.t.Error(err)
		}
		r.want(1)
	})
}

// TestAPausedTransactionIsUndoneByTheDatabase reads what the transaction of a handler is bound by.
func TestAPausedTransactionIsUndoneByTheDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
		defer cancel()
		err := r.handle(ctx, event("a"), func(ctx context.Context, tx any) error {
			for _, setting := range []string{"idle_in_transaction_session_timeout", "lock_timeout"} {
				check := strings.ReplaceAll(`DO $$ BEGIN
					IF NOT current_setting('{}')::interval BETWEEN '80 s' AND '95 s' THEN
						RAISE 'it is %', current_setting('{}');
					END IF; END $$`, "{}", setting)
				if err := execTx(ctx, tx, check); err != nil {
					r.t.Error(setting, err)
				}
			}
			if err := execTx(ctx, tx, "SET LOCAL idle_in_transaction_session_timeout = 1"); err != nil {
				return err
			}
			second := event("a") // it waits until the database has undone the first attempt
			second.Attempt = 2
			return r.handle(ctx, second, nothing)
		})
		if err != nil { // the mark is there
			r.t.Error(err)
		}
		r.want(1)
		if run := r.count("SELECT run FROM " + r.effects); run != 2 {
			r.t.Errorf("the effect is that of attempt %d", run)
		}
	})
}

func TestALostAnswerToACommitIsFoundOut(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		for i, reaches := range []bool{true, false} {
			r.wire.reaches.Store(reaches)
			r.wire.armed.Store(true)
			err := r.handle(r.t.Context(), event(fmt.Sprint(i)), nothing)
			if reaches != (err == nil) || r.wire.armed.Load() {
				r.t.Errorf("reaches %v: %v", reaches, err)
			}
			r.want(1)
		}
	})
}

func TestAMissingTableIsCreatedByTheStatementInTheError(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		r.exec(fmt.Sprintf(`CREATE SCHEMA "Odd %s"`, r.effects))
		for i, table := range []string{
			"plain_" + r.effects, "Upper case_" + r.effects, `x"; DROP TABLE ` + r.effects + `; --`,
			"Odd " + r.effects + ".user", `Odd ` + r.effects + `."quoted"`,
		} {
			r.set(table, 0)
			err := r.handle(r.t.Context(), event("a"), nothing)
			if err == nil || !strings.HasPrefix(err.Error(), "postponed") {
				r.t.Fatalf("%s: %v", table, err)
			}
			_, statement, _ := strings.Cut(err.Error(), "create it with this statement: ")
			r.exec(statement)
			r.exec(statement)
			for range 2 {
				if err := r.handle(r.t.Context(), event("a"), nothing); err != nil {
					r.t.Fatalf("%s: %v", table, err)
				}
			}
			r.want(i + 1)
		}
	})
}

func TestOldMarksAreRemoved(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		fill := func(n int, accepted, done time.Duration) {
			r.exec("INSERT INTO "+r.table()+` SELECT now() - $1::interval, gen_random_uuid(), 'h', now() - $2::interval
				FROM generate_series(1, $3)`, accepted, done, n)
		}
		marks := func(want int) {
			r.t.Helper()
			if n := r.count("SELECT count(*) FROM " + r.table()); n != want {
				r.t.Errorf("%d marks, want %d", n, want)
			}
		}
		const day = 24 * time.Hour
		fill(once.PruneBatch+10, 31*day, 31*day)
		fill(2, 90*day, day) // of events that were reopened
		fill(3, 29*day, 29*day)
		handle := func(id string) {
			if err := r.handle(r.t.Context(), event(id), nothing); err != nil {
				r.t.Error(err)
			}
		}
		handle("a") // a batch
		marks(10 + 2 + 3 + 1)
		handle("b") // the rest
		marks(2 + 3 + 2)
		fill(1, 31*day, 31*day)
		handle("c") // not again within an hour
		marks(2 + 3 + 3 + 1)
		r.set(strings.Trim(r.table(), `"`), -1)
		for _, keep := range []struct {
			keep time.Duration
			left int
		}{{-1, 9}, {0, 8}, {day / 2, 3}} {
			r.set(strings.Trim(r.table(), `"`), keep.keep)
			if err := r.prune(r.t.Context()); err != nil {
				r.t.Error(err)
			}
			marks(keep.left)
		}
	})
}
