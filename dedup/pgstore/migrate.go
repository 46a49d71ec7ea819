package pgstore

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schemaSQL string

// migrations are the steps from each version of the tables to the next. A step is never changed
// once it was released.
var migrations = []string{"", schemaSQL}

// Version is the version of the tables that this program needs. It also runs on those of the next
// version: a migration only adds what the version before can leave out, such as tables, columns
// with a default and indexes. A later version removes what older programs needed. So tables are
// migrated first, and then programs are replaced one after another.
const Version = 2

// Migrate makes the tables of a store, or changes those of an older version, in one transaction.
// schema is the name of the schema; empty means [DefaultSchema]. It needs the right to create a
// schema, or one that exists and in which it may create tables. Several calls at once wait for
// each other. It does nothing if the tables have [Version] or the next, and fails if they are
// newer. It gives way to transactions that use the tables, such as those of a backup: if it does
// not get its locks in several attempts, it fails with [dedup.ErrUnavailable] and has changed
// nothing.
func Migrate(ctx context.Context, dsn, schema string) error {
	return migrateBy(ctx, dsn, schema, func(from int) string { return MigrationSQL(schema, from) })
}

// migrateBy runs the statements for tables of a version.
func migrateBy(ctx context.Context, dsn, schema string, statements func(from int) string) error {
	config, err := poolConfig(dsn, nil)
	if err != nil {
		return err
	}
	one := config.ConnConfig
	one.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // several statements at once, also before a pooler
	c, err := pgx.ConnectConfig(ctx, one)
	if err != nil {
		return fault(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for range lockTries {
		err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return migrate(ctx, tx, schema, statements) })
		if code := codeOf(err); code != codeLockTimeout && code != codeDeadlock {
			break
		}
		time.Sleep(lockTime / 4) // for those that waited
	}
	if code := codeOf(err); code != "" && passes(code) {
		err = fault(err)
	}
	if err != nil {
		return fmt.Errorf("migrate schema %s: %w", schemaName(schema), err)
	}
	return nil
}

const (
	// lockTime is how long a migration waits for a lock, because receivers then wait behind it. It
	// is shorter than the time after which PostgreSQL looks for deadlocks.
	lockTime  = 900 * time.Millisecond
	lockTries = 15
)

func migrate(ctx context.Context, tx pgx.Tx, schema string, statements func(from int) string) error {
	server, err := settingsOf(ctx, tx)
	if err == nil {
		err = server.unfit()
	}
	if err != nil {
		return err
	}
	// The lock is one for all schemas: migrations are rare.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7310871145)"); err != nil {
		return err
	}
	from, err := tablesOf(ctx, tx, schema)
	switch {
	case err != nil:
		return err
	case from > Version+1:
		return &VersionError{schemaName(schema), from}
	}
	change, locks := statements(from), ""
	if change == "" {
		return nil
	}
	if from > 0 {
		// Claims take event before task, and wait for the first lock without holding the second.
		// Takes have task before they read event, which the first lock lets them.
		locks = inSchema("LOCK TABLE {{schema}}.event IN EXCLUSIVE MODE; LOCK TABLE {{schema}}.task; "+
			"LOCK TABLE {{schema}}.event;", schema)
	}
	_, err = tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d;", lockTime.Milliseconds())+locks+change)
	return err
}

// makeSchemaSQL makes the schema. With IF NOT EXISTS alone, the owner of one that exists would need
// the right to create schemas, which PostgreSQL checks first.
const makeSchemaSQL = `DO $make$ BEGIN
  IF to_regnamespace('{{schema}}') IS NULL THEN CREATE SCHEMA {{schema}}; END IF;
END $make$;
`

// MigrationSQL returns the statements with which [Migrate] changes the tables of a version to
// [Version], so that an administrator can read them or run them in one transaction. Version 0
// has no tables.
func MigrationSQL(schema string, from int) string {
	var b strings.Builder
	if from == 0 {
		b.WriteString(makeSchemaSQL +
			"CREATE TABLE {{schema}}.migration (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());\n")
	}
	for v := from; v < Version; v++ {
		fmt.Fprintf(&b, "%sINSERT INTO {{schema}}.migration (version) VALUES (%d);\n", migrations[v], v+1)
	}
	return inSchema(b.String(), schema)
}

// inSchema puts the name of the schema into statements.
func inSchema(sql, schema string) string {
	name := pgx.Identifier{schemaName(schema)}.Sanitize()
	sql = strings.ReplaceAll(sql, "'{{schema}}", "'"+strings.ReplaceAll(name, "'", "''")) // in a literal
	return strings.ReplaceAll(sql, "{{schema}}", name)
}

func schemaName(schema string) string {
	if schema == "" {
		return DefaultSchema
	}
	return schema
}

type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// tablesOf returns the version of the tables, 0 without any.
func tablesOf(ctx context.Context, q rowQuerier, schema string) (version int, err error) {
	// Reading the catalog, a connection notices tables that appeared while it waited for a lock.
	const findSQL = `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'migration')`
	found := false
	if err := q.QueryRow(ctx, findSQL, schemaName(schema)).Scan(&found); err != nil || !found {
		return 0, err
	}
	sql := inSchema("SELECT coalesce(max(version), 0) FROM {{schema}}.migration", schema)
	err = q.QueryRow(ctx, sql).Scan(&version)
	return version, err
}

// migrated returns an error unless the tables have the version of this program, or the next.
func migrated(ctx context.Context, q rowQuerier, schema string) error {
	v, err := tablesOf(ctx, q, schema)
	if err == nil && (v < Version || v > Version+1) {
		err = &VersionError{schemaName(schema), v}
	}
	return err
}

// VersionError is the error for tables that have neither [Version] nor the next.
type VersionError struct {
	Schema string // of the tables
	Tables int    // their version, 0 without any
}

// Error says what to do.
func (e *VersionError) Error() string {
	if e.Tables > Version {
		return fmt.Sprintf("schema %s has version %d of the tables, and this program runs on %d and %d: "+
			"run a newer program", e.Schema, e.Tables, Version, Version+1)
	}
	return fmt.Sprintf("schema %s has version %d of the tables, and this program needs %d: "+
		"call pgstore.Migrate once, or run the statements of pgstore.MigrationSQL", e.Schema, e.Tables, Version)
}
