package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
)

// eachRoute runs a test with each type of transaction: directly, through PgBouncer, and with the
// text protocol.
func eachRoute(t *testing.T, test func(t *testing.T, s *Store, as reflect.Type)) {
	t.Helper()
	routes := map[string]string{"direct": "", "pooler": "", "text": " default_query_exec_mode=simple_protocol"}
	for route, settings := range routes {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			eachTx(t, func(t *testing.T, as reflect.Type) {
				dsn, schema := newSchema(t)
				if route == "pooler" {
					dsn = pgtest.Pooler(t)
				}
				s := opened(t, dsn+settings, Options{Schema: schema, HandlerConns: 1})
				test(t, s, as)
			})
		})
	}
}

// TestHandlersThatMisuseTheirTransactions end it with a statement, or leave rows open. The task is
// not done, and the only connection serves the next handler.
func TestHandlersThatMisuseTheirTransactions(t *testing.T) {
	t.Parallel()
	exec := func(ctx context.Context, tx any, statement string) error {
		if std, ok := tx.(*sql.Tx); ok {
			_, err := std.ExecContext(ctx, statement)
			return err
		}
		_, err := tx.(pgx.Tx).Exec(ctx, statement)
		return err
	}
	misuses := map[string]struct {
		run  func(ctx context.Context, tx any) error
		want string
		left int // effects
	}{
		"commit":   {func(ctx context.Context, tx any) error { return exec(ctx, tx, "COMMIT") }, "must not end", 1},
		"rollback": {func(ctx context.Context, tx any) error { return exec(ctx, tx, "ROLLBACK") }, "must not end", 0},
		"commit and chain": {func(ctx context.Context, tx any) error {
			return exec(ctx, tx, "COMMIT AND CHAIN")
		}, "must not end", 1},
		"rollback and chain": {func(ctx context.Context, tx any) error {
			return exec(ctx, tx, "ROLLBACK AND CHAIN")
		}, "must not end", 0},
		"rows": {func(ctx context.Context, tx any) error {
			if std, ok := tx.(*sql.Tx); ok {
				const many = "SELECT generate_series(1, 100000)"
				rows, err := std.QueryContext(ctx, many) //nolint:rowserrcheck // this is the misuse
				if err == nil {
					rows.Next()
				}
				return err
			}
			rows, err := tx.(pgx.Tx).Query(ctx, "SELECT generate_series(1, 100000)")
			if err == nil {
				rows.Next()
			}
			return err
		}, "open rows", 0},
	}
	eachRoute(t, func(t *testing.T, s *Store, as reflect.Type) {
		for name, misuse := range misuses {
			e := newEffects(t, s)
			claim(t, s, event(name, "ship"), dedup.New)
			l := takeOne(t, s).Lease
			err := s.InTx(t.Context(), l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
				if err := e.insert(ctx, tx, l.Event, 1); err != nil {
					return done, err
				}
				return done, misuse.run(ctx, tx)
			})
			if name == "rows" && as == txTypes["sql"] && err == nil { // database/sql closes them
				wantState(t, s, l, dedup.Done)
				e.want(1, 1)
				continue
			}
			if err == nil || !strings.Contains(err.Error(), misuse.want) {
				t.Errorf("%s: %v", name, err)
			}
			wantState(t, s, l, dedup.Running)
			e.want(misuse.left, misuse.left)
			err = s.InTx(t.Context(), l, as, func(ctx context.Context, tx any) (dedup.Result, error) {
				return done, e.insert(ctx, tx, fmt.Sprint("again ", l.Event), 2)
			})
			if err != nil {
				t.Errorf("after %s: %v", name, err)
			}
			wantState(t, s, l, dedup.Done)
			e.want(misuse.left+1, misuse.left+1)
		}
	})
}
