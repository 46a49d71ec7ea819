package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// nextVersion is a migration to the version after that of the program.
func nextVersion(t *testing.T) string {
	t.Helper()
	sql, err := os.ReadFile(filepath.Join("testdata", "next.sql"))
	if err != nil {
		t.Fatal(err)
	}
	return string(sql) + fmt.Sprintf("INSERT INTO {{schema}}.migration (version) VALUES (%d);", Version+1)
}

// newProgram lets a store write as a program of the next version does.
func newProgram(t *testing.T, s *Store) {
	t.Helper()
	text := strings.Replace(insertSQL, " c.body\n", " c.body, 'north'\n", 1)
	text = strings.Replace(text, "extra, response, size, body)", "extra, response, size, body, region)", 1)
	if !strings.Contains(text, "'north'") || !strings.Contains(text, "body, region)") {
		t.Fatal(text)
	}
	s.db.texts.Store(insertSQL, inSchema(text, s.db.schema))
}

// freshSchema is one that no other test gets, because its tables change, or because statements
// whose connection was cut may still run. It is left to the server.
func freshSchema(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn, schema = pgtest.DSN(t), fmt.Sprintf("Version %d-%d", os.Getpid(), schemas.Add(1))
	if err := Migrate(t.Context(), dsn, schema); err != nil {
		t.Fatal(err)
	}
	return dsn, schema
}

// TestUpgradeUnderLoad adds the next version of the tables while two receivers accept and handle
// events, and then replaces them, one after the other, by a program of that version.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	long(t)
	dsn, schema := freshSchema(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var mu sync.Mutex
	accepted, finished := map[string]bool{}, map[string]int{}
	refused := 0
	retries := func(what string, call func() error) bool {
		for ctx.Err() == nil {
			err := call()
			if unavailable := (&dedup.ErrUnavailable{}); errors.As(err, &unavailable) {
				mu.Lock()
				refused++
				mu.Unlock()
				continue
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", what, err)
			}
			return err == nil
		}
		return false
	}
	var takers sync.WaitGroup
	start := func() *Store {
		s := opened(t, dsn, Options{Schema: schema})
		for range 2 {
			takers.Go(func() {
				for ctx.Err() == nil {
					works, err := s.Take(ctx, dedup.Want{Tasks: 8, Bytes: 1 << 20, Lease: time.Minute})
					if errors.Is(err, dedup.ErrClosed) {
						return
					}
					retries("take", func() error { return err })
					for _, w := range works {
						retries("finish", func() error {
							err := s.Finish(context.WithoutCancel(ctx), w.Lease, done)
							if errors.Is(err, dedup.ErrClosed) {
								return nil
							}
							if err == nil {
								mu.Lock()
								finished[w.Record.Event]++
								mu.Unlock()
							}
							return err
						})
					}
				}
			})
		}
		return s
	}
	receivers := []*Store{start(), start()}
	enough := make(chan struct{})
	var claimers sync.WaitGroup
	for g := range 4 {
		claimers.Go(func() {
			for i := g; !isClosed(enough); i += 4 {
				mu.Lock()
				s := receivers[i%2]
				mu.Unlock()
				retries("claim", func() error {
					ds, err := s.Claim(ctx, event(fmt.Sprint("k", i), "ship"))
					if err == nil {
						mu.Lock()
						accepted[ds[0].Record.Event] = true
						mu.Unlock()
					}
					return err
				})
			}
		})
	}
	another := func() {
		mu.Lock()
		events := len(accepted) + 200
		mu.Unlock()
		eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(accepted) >= events || t.Failed()
		})
	}
	another()
	eventually(t, func() bool { // on a slow machine, statements hold their locks for long
		err := migrateBy(ctx, dsn, schema, func(int) string { return inSchema(nextVersion(t), schema) })
		if err != nil {
			wantUnavailable(t, "migrate", err)
		}
		return err == nil
	})
	for i := range receivers {
		another()
		next := start()
		newProgram(t, next)
		mu.Lock()
		old := receivers[i]
		receivers[i] = next
		mu.Unlock()
		defer func() {
			if err := errors.Join(old.Close(), next.Close()); err != nil {
				t.Error(err)
			}
		}()
	}
	another()
	close(enough)
	claimers.Wait()
	events := len(accepted)
	eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(finished) == events || t.Failed()
	})
	cancel()
	takers.Wait()
	for event, n := range finished {
		if n != 1 || !accepted[event] {
			t.Errorf("%s is finished %d times", event, n)
		}
	}
	if len(finished) != events {
		t.Errorf("%d events are accepted, and %d are finished", events, len(finished))
	}
	var old, north int
	const written = "SELECT count(*) - count(region), count(region) FROM {{schema}}.event"
	row := receivers[0].db.pool.QueryRow(t.Context(), inSchema(written, schema))
	if err := row.Scan(&old, &north); err != nil || old == 0 || north == 0 || old+north != events {
		t.Errorf("%d events of the old program, %d of the new one, %v", old, north, err)
	}
	t.Logf("%d events, %d calls got a 503", events, refused)
}

// TestVersionsThatAProgramRunsOn opens tables of versions from none to two ahead.
func TestVersionsThatAProgramRunsOn(t *testing.T) {
	t.Parallel()
	dsn, schema := freshSchema(t)
	s := opened(t, dsn, Options{Schema: schema})
	exec := admin(t, s, dsn)
	exec("BEGIN;" + nextVersion(t) + "COMMIT")
	everything(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = opened(t, dsn, Options{Schema: schema})
	claim(t, s, event("again", "ship"), dedup.New)
	if err := errors.Join(s.Close(), Migrate(t.Context(), dsn, schema)); err != nil {
		t.Errorf("the next version: %v", err)
	}
	exec(fmt.Sprintf("INSERT INTO {{schema}}.migration (version) VALUES (%d)", Version+2))
	_, err := Open(t.Context(), dsn, Options{Schema: schema})
	for call, err := range map[string]error{"Open": err, "Migrate": Migrate(t.Context(), dsn, schema)} {
		if err == nil || !strings.Contains(err.Error(), "run a newer program") {
			t.Errorf("%s two versions ahead: %v", call, err)
		}
	}
}

// TestAMigrationGivesWayToATransaction begins a migration while a backup reads the tables.
func TestAMigrationGivesWayToATransaction(t *testing.T) {
	t.Parallel()
	long(t)
	dsn, schema := pgtest.DSN(t), fmt.Sprintf("Busy %d-%d", os.Getpid(), schemas.Add(1))
	s, _ := newStore(t, "", Options{}) // of another schema
	exec := admin(t, s, dsn)
	exec(strings.ReplaceAll(inSchema("CREATE SCHEMA {{schema}}; CREATE SEQUENCE {{schema}}.held", schema), "\n", ""))
	exec(inSchema("BEGIN; CREATE TABLE {{schema}}.migration (version integer, at timestamptz DEFAULT now())", schema))
	err := Migrate(t.Context(), dsn, schema) // waits for the name of the table
	wantUnavailable(t, "migrate", err)
	exec("ROLLBACK")
	if err := Migrate(t.Context(), dsn, schema); err != nil {
		t.Error(err)
	}
	exec(inSchema("BEGIN; SELECT FROM {{schema}}.event, {{schema}}.task", schema))
	if err := Migrate(t.Context(), dsn, schema); err != nil {
		t.Errorf("with nothing to do: %v", err)
	}
}
