package pgstore

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schemaSQL string

// migrations are the steps from each version of the tables to the next. A step is never changed
// once it was released.
var migrations = []string{schemaSQL}

// Version is the version of the tables that this program needs.
const Version = 1

// Migrate makes the tables of a store, or changes those of an older version, in one transaction.
// schema is the name of the schema; empty means [DefaultSchema]. It needs the right to create a
// schema, or one that exists and in which it may create tables. Several calls at once wait for
// each other. It does nothing if the tables have [Version], and fails if they are newer.
func Migrate(ctx context.Context, dsn, schema string) error {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return errDSN
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // several statements at once, also before a pooler
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fault(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		// The lock is one for all schemas: migrations are rare.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7310871145)"); err != nil {
			return err
		}
		from, err := tablesOf(ctx, tx, schema)
		if err != nil {
			return err
		}
		if from > Version {
			return newer(schema, from)
		}
		_, err = tx.Exec(ctx, MigrationSQL(schema, from))
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate schema %s: %w", schemaName(schema), err)
	}
	return nil
}

// MigrationSQL returns the statements with which [Migrate] changes the tables of a version to
// [Version], so that an administrator can read them or run them in one transaction. Version 0
// has no tables.
func MigrationSQL(schema string, from int) string {
	var b strings.Builder
	if from == 0 {
		b.WriteString("CREATE SCHEMA IF NOT EXISTS {{schema}};\n" +
			"CREATE TABLE {{schema}}.migration (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());\n")
	}
	for v := from; v < Version; v++ {
		fmt.Fprintf(&b, "%sINSERT INTO {{schema}}.migration (version) VALUES (%d);\n", migrations[v], v+1)
	}
	return inSchema(b.String(), schema)
}

// inSchema puts the name of the schema into statements.
func inSchema(sql, schema string) string {
	return strings.ReplaceAll(sql, "{{schema}}", pgx.Identifier{schemaName(schema)}.Sanitize())
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
	found := false
	name := pgx.Identifier{schemaName(schema), "migration"}.Sanitize()
	if err := q.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&found); err != nil || !found {
		return 0, err
	}
	sql := inSchema("SELECT coalesce(max(version), 0) FROM {{schema}}.migration", schema)
	err = q.QueryRow(ctx, sql).Scan(&version)
	return version, err
}

// migrated returns an error unless the tables have the version of this program.
func migrated(ctx context.Context, q rowQuerier, schema string) error {
	switch v, err := tablesOf(ctx, q, schema); {
	case err != nil:
		return err
	case v > Version:
		return newer(schema, v)
	case v < Version:
		return fmt.Errorf("schema %s has version %d of the tables, and this program needs %d: "+
			"call pgstore.Migrate once, or run the statements of pgstore.MigrationSQL", schemaName(schema), v, Version)
	}
	return nil
}

func newer(schema string, version int) error {
	return fmt.Errorf("schema %s has version %d of the tables, and this program knows %d only: run a newer program",
		schemaName(schema), version, Version)
}
