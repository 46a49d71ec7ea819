package pgstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	for version, advice := range map[int]string{
		Version - 1: "name another schema", Version + 2: "run a newer program",
	} {
		exec("DELETE FROM {{schema}}.migration")
		exec(fmt.Sprintf("INSERT INTO {{schema}}.migration (version) VALUES (%d)", version))
		_, err := Open(t.Context(), dsn, Options{Schema: schema})
		_, checked := Check(t.Context(), dsn, schema)
		for call, err := range map[string]error{
			"Open": err, "Check": checked, "Migrate": Migrate(t.Context(), dsn, schema),
		} {
			if err == nil || !strings.Contains(err.Error(), advice) {
				t.Errorf("%s of version %d: %v", call, version, err)
			}
		}
	}
}

// TestAMigrationGivesWayToATransaction begins a migration while another one, or a backup, runs.
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
