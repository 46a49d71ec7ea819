package once_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/deduptest"
	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/once/oncepgx"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/receiver/receivertest"
)

const secret = "a long secret"

type order struct{ Total int }

func TestOnIsAHandlerWithATransaction(t *testing.T) {
	t.Parallel()
	each(t, func(r *rig) {
		pool, err := pgxpool.NewWithConfig(r.t.Context(), r.config())
		if err != nil {
			r.t.Fatal(err)
		}
		defer pool.Close()
		marks := oncepgx.Pool(pool)
		marks.Table = "late_" + r.effects
		handler := func(ctx context.Context, tx pgx.Tx, ev receiver.Event[order]) error {
			return execTx(ctx, tx, "INSERT INTO "+r.effects+" VALUES ($1, $2)", ev.Handler, ev.Data.Total)
		}
		replaces := func(next receiver.Next) receiver.Next {
			return func(_ context.Context, ev receiver.Event[any]) (*receiver.Response, error) {
				return next(context.Background(), ev)
			}
		}
		rx := receivertest.New(r.t, receiver.Config{
			Producers: []producer.Producer{preset.GitHub(secret)}, Attempts: 2,
			Handlers: []receiver.Handler{
				once.On(marks, "github", "push", handler),
				once.On(marks, "github", "push", handler).Named("second"),
				once.On(marks, "github", "ping", handler).With(replaces),
			},
		})
		pushed := rx.Deliver("github", "push", order{3})
		for range 3 { // more than the attempts
			rx.Step(time.Minute)
		}
		r.want(0)
		r.exec(marks.Schema())
		rx.Step(time.Minute)
		r.want(2)
		own := " WHERE run = 3 AND event IN ('github/push', 'second')"
		if n := r.count("SELECT count(*) FROM " + r.effects + own); n != 2 {
			r.t.Errorf("%d effects are those of the event", n)
		}
		if _, err := rx.Store.Rerun(r.t.Context(), pushed.Event, dedup.Rerun{}); err != nil {
			r.t.Fatal(err)
		}
		rx.Step(time.Minute)
		r.want(2) // the marks are of the event
		if dead := rx.Dead(); len(dead) != 0 {
			r.t.Errorf("%v", dead)
		}
		rx.Deliver("github", "ping", order{4})
		rx.Step(time.Minute)
		if dead := rx.Dead(); len(dead) != 1 || !strings.Contains(dead[0].Err, "context has no transaction") {
			r.t.Errorf("%v", dead)
		}
		r.want(2)
	})
}

func TestAHandlerWithoutAFunctionIsRefused(t *testing.T) {
	t.Parallel()
	h := once.On[pgx.Tx, order](oncepgx.Pool(new(pgxpool.Pool)), "github", "*", nil)
	_, err := receiver.Open(receiver.Config{Handlers: []receiver.Handler{h}})
	if err == nil || !strings.Contains(err.Error(), "the function is nil") {
		t.Error(err)
	}
}

// Settings of a child of TestEffectsHappenOnceOverKills.
const (
	childKind    = "EYELET_ONCE_CHILD" // sql, pgx or plain
	childDir     = "EYELET_ONCE_DIR"
	childEffects = "EYELET_ONCE_EFFECTS"
	childMarks   = "EYELET_ONCE_MARKS"
	childDSN     = "EYELET_ONCE_DSN"
	childCrash   = "EYELET_ONCE_CRASH" // where and when it ends, such as "commit 3"
)

const (
	killedEvents = 40
	kills        = 8
)

// crashes counts how often the process was where it may end.
var crashes = struct {
	sync.Mutex
	n map[string]int
}{n: map[string]int{}}

// TestEffectsHappenOnceOverKills kills receivers with a store on disk between an effect and its
// commit, and between the commit and the outcome. The plain order, a handler that commits by
// itself, doubles effects.
func TestEffectsHappenOnceOverKills(t *testing.T) {
	t.Parallel()
	if os.Getenv(childKind) != "" {
		child(t)
		return
	}
	for _, kind := range []string{"sql", "pgx", "plain"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			db := stdlib.OpenDB(*r.config().ConnConfig)
			defer db.Close()
			marks := once.SQL(db)
			marks.Table = "Marks of " + r.effects
			r.exec(marks.Schema())
			dir, killed := t.TempDir(), 0
			for over := false; !over; {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestEffectsHappenOnceOverKills$")
				cmd.Env = append(os.Environ(), childKind+"="+kind, childDir+"="+dir, childEffects+"="+r.effects,
					childMarks+"="+marks.Table, childDSN+"="+r.pool.Config().ConnString())
				if killed < kills { // at the first to the fourth commit or outcome, so all kills come to pass
					where := [...]string{"outcome", "commit"}[killed%2]
					cmd.Env = append(cmd.Env, childCrash+"="+fmt.Sprint(where, " ", killed/2+1))
				}
				out, err := cmd.CombinedOutput()
				switch exit := (*exec.ExitError)(nil); {
				case err == nil:
					over = true
				case errors.As(err, &exit) && !exit.Exited() && killed < kills:
					killed++
				default:
					t.Fatalf("the receiver ends with %v: %s", err, out)
				}
			}
			effects := r.count("SELECT count(*) FROM " + r.effects)
			events := r.count("SELECT count(DISTINCT event) FROM " + r.effects)
			t.Logf("%d effects of %d events over %d kills", effects, events, killed)
			if events != killedEvents || (effects > events) != (kind == "plain") || killed != kills {
				t.Errorf("%d effects of %d events, want %d, over %d kills", effects, events, killedEvents, killed)
			}
		})
	}
}

// crash ends the process as a power failure does, if it is to end here and now.
func crash(where string) {
	crashes.Lock()
	crashes.n[where]++
	if fmt.Sprint(where, " ", crashes.n[where]) != os.Getenv(childCrash) {
		crashes.Unlock()
		return
	}
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	fmt.Fprintln(os.Stderr, err)
	select {}
}

// crashing is a store whose process may end before an outcome.
type crashing struct{ dedup.Store }

func (s crashing) Finish(ctx context.Context, l dedup.Lease, r dedup.Result) error {
	crash("outcome")
	return s.Store.Finish(ctx, l, r)
}

// FinishMany implements dedup.Store.
func (s crashing) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	return deduptest.FinishEach(ctx, s, results)
}

// child is a receiver that accepts all events, and ends when all are handled.
func child(t *testing.T) {
	ctx := t.Context()
	store, err := badgerstore.Open(os.Getenv(childDir), badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rx, err := receiver.Open(receiver.Config{
		Store: crashing{store}, Producers: []producer.Producer{preset.GitHub(secret)},
		Handlers: []receiver.Handler{killedHandler(t)}, Attempts: 1000, BackoffBase: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	signer := preset.GitHub(secret).Scheme.(interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	})
	for i := range killedEvents {
		body := fmt.Sprintf(`{"Total": %d}`, i)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhooks/github", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", "push")
		r.Header.Set("X-GitHub-Delivery", fmt.Sprint("delivery-", i))
		if err := signer.Sign(r, []byte(body), time.Now()); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		if rx.Handler().ServeHTTP(w, r); w.Code/100 != 2 {
			t.Fatalf("delivery %d: %d %s", i, w.Code, w.Body)
		}
	}
	deadline := time.Now().Add(time.Minute)
	for open := int64(1); open > 0; time.Sleep(5 * time.Millisecond) {
		s, err := store.Stats(ctx)
		if err != nil || s.Dead > 0 || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", s, err)
		}
		open = s.Pending + s.Running
	}
	if err := rx.Close(); err != nil {
		t.Fatal(err)
	}
}

// killedHandler returns a handler whose process may end between its effect and the commit.
func killedHandler(t *testing.T) receiver.Handler {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), os.Getenv(childDSN))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	insert := "INSERT INTO " + os.Getenv(childEffects) + " VALUES ($1, $2)"
	effect := func(ctx context.Context, tx any, ev receiver.Event[order]) error {
		err := execTx(ctx, tx, insert, ev.EventID, ev.Attempt)
		crash("commit")
		return err
	}
	switch os.Getenv(childKind) {
	case "pgx":
		marks := oncepgx.Pool(pool)
		marks.Table = os.Getenv(childMarks)
		return once.On(marks, "github", "push", func(ctx context.Context, tx pgx.Tx, ev receiver.Event[order]) error {
			return effect(ctx, tx, ev)
		})
	case "sql":
		db := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() { _ = db.Close() })
		marks := once.SQL(db)
		marks.Table = os.Getenv(childMarks)
		return once.On(marks, "github", "push", func(ctx context.Context, tx *sql.Tx, ev receiver.Event[order]) error {
			return effect(ctx, tx, ev)
		})
	}
	return receiver.On("github", "push", func(ctx context.Context, ev receiver.Event[order]) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		return cmp.Or(effect(ctx, tx, ev), tx.Commit(ctx))
	})
}
