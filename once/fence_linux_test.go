package once_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

// Settings of a child of TestNoEffectIsOlderThanWhatWasHandled.
const (
	stormKind  = "EYELET_STORM_CHILD" // badger or postgres
	stormDir   = "EYELET_STORM_DIR"   // of the store and of the ledger
	stormDSN   = "EYELET_STORM_DSN"
	stormTable = "EYELET_STORM_TABLE" // and schema
	stormPart  = "EYELET_STORM_PART"  // which of three
)

const (
	ledger     = "ledger"
	stormParts = 3
	poison     = 17 // versions that it divides are rejected
	stormLease = 3 * time.Second
)

// storm returns how many entities there are, and how many versions of each.
func storm() (entities, versions int) {
	if os.Getenv("EYELET_LONG") != "" {
		return 100, 100
	}
	return 20, 20
}

// TestNoEffectIsOlderThanWhatWasHandled sends the versions of many entities in any order, twice or
// once, to receivers whose handlers fail before and after their effects, and that are killed and
// stopped for longer than their leases. A handler that writes to the ledger has no older effect
// after it handled a newer event, unless its receiver was stopped; one that writes in the store's
// transaction has none at all.
func TestNoEffectIsOlderThanWhatWasHandled(t *testing.T) {
	t.Parallel()
	if os.Getenv(stormKind) != "" {
		stormChild(t)
		return
	}
	t.Run("badger", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		runStorm(t, 1, 0, stormKind+"=badger", stormDir+"="+dir)
		readLedger(t, dir, []string{"plain", "yields"}, 0)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		table, dir := r.effects+"storm", t.TempDir()
		if err := pgstore.Migrate(t.Context(), r.dsn, table); err != nil {
			t.Fatal(err)
		}
		r.exec("CREATE TABLE " + table + " (entity text PRIMARY KEY, version int, stale int NOT NULL DEFAULT 0)")
		runStorm(t, stormParts, 2, stormKind+"=postgres", stormDir+"="+dir, stormDSN+"="+r.dsn, stormTable+"="+table)
		readLedger(t, dir, []string{"plain", "yields"}, 2*64)
		entities, versions := storm()
		if n := r.count("SELECT coalesce(sum(stale), 0) FROM " + table); n != 0 {
			t.Errorf("%d older effects in the store's transactions", n)
		}
		newest := newestOf(versions)
		if n := r.count(fmt.Sprintf("SELECT count(*) FROM %s WHERE version = %d", table, newest)); n != entities {
			t.Errorf("%d of %d entities have version %d", n, entities, newest)
		}
	})
}

// newestOf is the newest version that is not rejected.
func newestOf(versions int) int {
	if versions%poison == 0 {
		return versions - 1
	}
	return versions
}

// runStorm runs children until each has seen the end of all tasks. It kills them eight times in
// all, and stops some for longer than a lease.
func runStorm(t *testing.T, parts, stops int, env ...string) {
	t.Helper()
	var left sync.Mutex
	kills := 8
	next := func() (kill, stop bool) {
		left.Lock()
		defer left.Unlock()
		if kill, stop = kills > 0, kills > 0 && stops > 0; kill {
			kills--
		}
		if stop {
			stops--
		}
		return kill, stop
	}
	var wg sync.WaitGroup
	for part := range parts {
		wg.Go(func() {
			for killed := true; killed; {
				killed = runStormChild(t, next, append(env, stormPart+"="+strconv.Itoa(part)))
			}
		})
	}
	wg.Wait()
}

// runStormChild runs a child once, and reports whether it was killed.
func runStormChild(t *testing.T, next func() (kill, stop bool), env []string) (killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestNoEffectIsOlder")
	cmd.Env = append(os.Environ(), env...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return false
	}
	kill, stop := next()
	if kill {
		time.Sleep(time.Duration(100+rand.IntN(500)) * time.Millisecond)
		if stop {
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(2 * stormLease)
			_ = cmd.Process.Signal(syscall.SIGCONT)
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		}
		_ = cmd.Process.Kill()
	}
	err := cmd.Wait()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && (!kill || !failed || exit.Exited()) {
		t.Errorf("a receiver ends with %v: %s", err, out.String())
		return false
	}
	return err != nil
}

// readLedger reads the ledger: what had an effect, and what was recorded as handled, in this order.
// excused is how many older effects a receiver may have had that was stopped.
func readLedger(t *testing.T, dir string, handlers []string, excused int) {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, ledger))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	handled, last := map[string]int{}, map[string]int{}
	effects, stale := 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var what, handler, entity string
		var version int
		if _, err := fmt.Sscan(lines.Text(), &what, &handler, &entity, &version); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		switch lane := handler + " " + entity; what {
		case "effect":
			if effects++; version < handled[lane] {
				stale++
			}
			last[lane] = version
		case "done":
			handled[lane] = max(handled[lane], version)
		}
	}
	t.Logf("%d effects, %d older than what was handled", effects, stale)
	if stale > excused {
		t.Errorf("%d effects are older than what was handled", stale)
	}
	entities, versions := storm()
	for i := range entities {
		for _, handler := range handlers {
			lane := fmt.Sprint(handler, " e", i)
			if stale == 0 && last[lane] != newestOf(versions) {
				t.Errorf("%s: %d is the last effect, want %d", lane, last[lane], newestOf(versions))
			}
		}
	}
}

// stormChild is a receiver that gets its part of the events, and ends when all tasks are over.
func stormChild(t *testing.T) {
	ctx := t.Context()
	file, err := os.OpenFile(filepath.Join(os.Getenv(stormDir), ledger), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(what, handler, id string) {
		if _, err := fmt.Fprintln(file, what, handler, strings.Replace(id, "-", " ", 1)); err != nil {
			t.Error(err)
		}
	}
	config := receiver.Config{
		Producers: []producer.Producer{{
			Name: "crm", AllowedIPs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
			Key: producer.JSON("id"),
		}},
		Attempts: 100_000, BackoffBase: time.Millisecond, BackoffCap: 20 * time.Millisecond, Lease: stormLease,
		Logger: slog.New(slog.DiscardHandler), Workers: 16,
		Observe: func(_ context.Context, o receiver.Observation) {
			if o.Kind == receiver.KindAttempt && o.State == dedup.Done && o.Reason == "" {
				write("done", o.Handler, o.ID)
			}
		},
	}
	on := func(name string) receiver.Handler {
		return receiver.On("crm", "*", func(_ context.Context, ev receiver.Event[stormed]) error {
			return stormHandle(ev, func() error { write("effect", name, ev.ID); return nil })
		}).Named(name).Lane(producer.JSON("entity")).Newest(producer.JSON("version"))
	}
	config.Handlers = []receiver.Handler{on("plain"), on("yields").LaneYields()}
	parts := 1
	if os.Getenv(stormKind) == "badger" {
		config.Store, err = badgerstore.Open(filepath.Join(os.Getenv(stormDir), "store"), badgerstore.Options{})
	} else {
		parts = stormParts
		table := os.Getenv(stormTable)
		config.Store, err = pgstore.Open(ctx, os.Getenv(stormDSN), pgstore.Options{Schema: table})
		upsert := "INSERT INTO " + table + " AS s VALUES ($1, $2) ON CONFLICT (entity) DO UPDATE " +
			"SET stale = s.stale + (s.version > excluded.version)::int, version = excluded.version"
		tx := receiver.OnTx("crm", "*", func(ctx context.Context, tx pgx.Tx, ev receiver.Event[stormed]) error {
			return stormHandle(ev, func() error { return execTx(ctx, tx, upsert, ev.Data.Entity, ev.Data.Version) })
		}).Named("tx").Lane(producer.JSON("entity")).Newest(producer.JSON("version")).LaneYields()
		config.Handlers = append(config.Handlers, tx)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer config.Store.Close()
	rx, err := receiver.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	deliverStorm(ctx, t, rx, parts)
	for open := int64(1); open > 0; time.Sleep(20 * time.Millisecond) {
		s, err := config.Store.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		open = s.Pending + s.Running
	}
	if err := rx.Close(); err != nil {
		t.Fatal(err)
	}
}

// stormHandle has an effect, and fails before it or after it now and then.
func stormHandle(ev receiver.Event[stormed], effect func() error) error {
	switch n := rand.IntN(50); {
	case ev.Data.Version%poison == 0:
		return receiver.Reject(errors.New("poison"))
	case n < 5:
		return errors.New("before the effect")
	case n == 5:
		return errors.Join(effect(), errors.New("after the effect"))
	}
	return effect()
}

type stormed struct {
	Entity  string
	Version int
}

// deliverStorm delivers the part of this receiver, every tenth event twice.
func deliverStorm(ctx context.Context, t *testing.T, rx *receiver.Receiver, parts int) {
	t.Helper()
	part, _ := strconv.Atoi(os.Getenv(stormPart))
	entities, versions := storm()
	order := rand.New(rand.NewPCG(1, 2)).Perm(entities * versions)
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for at, i := range order {
				if at%parts != part || at/parts%16 != worker {
					continue
				}
				entity, version := i%entities, i/entities+1
				body := fmt.Sprintf(`{"id": "e%d-%d", "entity": "e%[1]d", "version": %d}`, entity, version)
				for range 1 + (9-i%10)/9 {
					r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhooks/crm", strings.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
					w := httptest.NewRecorder()
					if rx.Handler().ServeHTTP(w, r); w.Code/100 != 2 {
						t.Errorf("delivery %s: %d %s", body, w.Code, w.Body)
					}
				}
			}
		})
	}
	wg.Wait()
}
