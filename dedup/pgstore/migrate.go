package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schemaSQL string

// Version is the version of the tables that this program makes. It also runs on those of the next
// version: a migration only adds what the version before can leave out, such as tables, columns
// with a default and indexes. A later version removes what older programs needed. So tables are
// migrated first, and then programs are replaced one after another.
const Version = 3

// Migrate makes the tables of a store in one transaction. schema is the name of the schema; empty
// means [DefaultSchema]. It needs the right to create a schema, or one that exists and in which it
// may create tables. Several calls at once wait for each other. It does nothing if the tables have
// [Version] or the next, and returns [VersionError] for others. If another transaction holds a lock
// that it needs, it fails with [dedup.ErrUnavailable] after five seconds and has changed nothing.
func Migrate(ctx context.Context, dsn, schema string) error {
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
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return migrate(ctx, tx, schema) })
	if codeOf(err) != "" && !refused(err) {
		err = fault(err)
	}
	if err != nil {
		return fmt.Errorf("migrate schema %s: %w", schemaName(schema), err)
	}
	return nil
}

func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
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
	_, err = migrated(ctx, tx, schema)
	if v, ok := errors.AsType[*VersionError](err); !ok || v.Tables > 0 {
		return err
	}
	_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = '5s';"+MigrationSQL(schema, 0))
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
// has no tables. There are none for other versions.
func MigrationSQL(schema string, from int) string {
	if from != 0 {
		return ""
	}
	const (
		versionsSQL = "CREATE TABLE {{schema}}.migration " +
			"(version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());\n"
		versionSQL = "INSERT INTO {{schema}}.migration (version) VALUES (%d);\n"
	)
	return inSchema(makeSchemaSQL+versionsSQL+schemaSQL+fmt.Sprintf(versionSQL, Version), schema)
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

// migrated returns the version of the tables, and a VersionError unless this program runs on them.
func migrated(ctx context.Context, q rowQuerier, schema string) (version int, err error) {
	// Reading the catalog, a connection notices tables that appeared while it waited for a lock.
	const findSQL = `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'migration')`
	found := false
	err = q.QueryRow(ctx, findSQL, schemaName(schema)).Scan(&found)
	if found {
		sql := inSchema("SELECT coalesce(max(version), 0) FROM {{schema}}.migration", schema)
		err = q.QueryRow(ctx, sql).Scan(&version)
	}
	if err == nil && version != Version && version != Version+1 {
		err = &VersionError{schemaName(schema), version}
	}
	return version, err
}

// VersionError is the error for tables that have neither [Version] nor the next.
type VersionError struct {
	Schema string // of the tables
	Tables int    // their version, 0 without any
}

// Error says what to do.
func (e *VersionError) Error() string {
	advice := "call pgstore.Migrate once, or run the statements of pgstore.MigrationSQL"
	switch {
	case e.Tables > Version:
		advice = "run a newer program"
	case e.Tables > 0:
		advice = "no program changes them, so name another schema, or drop this one with its events"
	}
	return fmt.Sprintf("schema %s has version %d of the tables, and this program runs on %d and %d: %s",
		e.Schema, e.Tables, Version, Version+1, advice)
}
