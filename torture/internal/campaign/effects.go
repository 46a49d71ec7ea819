package campaign

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/receiver"
)

// The ways in which handlers leave their effects.
const (
	// EffectsLogged writes a line to a file: at least one for each task.
	EffectsLogged = "log"
	// EffectsPlain inserts a row in the database, and then the outcome is recorded: a kill between
	// both doubles the effect.
	EffectsPlain = "plain"
	// EffectsTx inserts a row through the transaction of the outcome, a pgx.Tx: exactly one for
	// each task.
	EffectsTx = "tx"
	// EffectsSQL does so through a *sql.Tx.
	EffectsSQL = "sql"
	// EffectsOnce inserts a row with a mark of package once, whichever store has the events.
	// Answers are lines of the log.
	EffectsOnce = "once"
)

// exact reports whether each effect must happen exactly once.
func exact(effects string) bool {
	return effects == EffectsTx || effects == EffectsSQL || effects == EffectsOnce
}

// effectTable is the table of the effects, beside those of the store.
type effectTable struct{ name string }

func tableOf(schema string) effectTable {
	return effectTable{pgx.Identifier{schema, "effect"}.Sanitize()}
}

func (t effectTable) create(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "CREATE TABLE "+t.name+
		" (id bigserial PRIMARY KEY, handler text, event text, vendor text, digest text)")
	if err == nil {
		_, err = c.Exec(ctx, once.New[pgx.Tx](nil).Schema())
	}
	return err
}

// insert returns the statement that inserts the effect of a handler, and its arguments.
func (t effectTable) insert(handler string, ev *receiver.Event[[]byte]) (statement string, args []any) {
	return "INSERT INTO " + t.name + " (handler, event, vendor, digest) VALUES ($1, $2, $3, $4)",
		[]any{handler, ev.EventID, ev.VendorID, digest(ev.Body)}
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// each calls f for each effect, in the order in which they were inserted.
func (t effectTable) each(ctx context.Context, c *pgx.Conn, f func(run)) error {
	rows, err := c.Query(ctx, "SELECT handler, event, vendor, digest FROM "+t.name+" ORDER BY id")
	if err != nil {
		return err
	}
	r := run{kind: kindEnd}
	_, err = pgx.ForEachRow(rows, []any{&r.handler, &r.event, &r.vendor, &r.detail}, func() error {
		f(r)
		return nil
	})
	return err
}

// on returns a handler for a pattern whose effects are of the kind that the settings name.
func (h *handling) on(pattern, name string) receiver.Handler {
	var out receiver.Handler
	switch h.settings.Effects {
	case EffectsTx:
		out = receiver.OnTx("github", pattern, func(ctx context.Context, tx pgx.Tx, ev event) error {
			return h.run(ctx, name, &ev, func() error { return h.insert(ctx, tx, name, &ev) })
		})
	case EffectsSQL:
		out = receiver.OnTx("github", pattern, func(ctx context.Context, tx *sql.Tx, ev event) error {
			return h.run(ctx, name, &ev, func() error { return h.insertSQL(ctx, tx, name, &ev) })
		})
	case EffectsOnce:
		out = once.On(h.marks, "github", pattern, func(ctx context.Context, tx pgx.Tx, ev event) error {
			return h.run(ctx, name, &ev, func() error { return h.insert(ctx, tx, name, &ev) })
		})
	default:
		out = receiver.On("github", pattern, func(ctx context.Context, ev event) error {
			return h.run(ctx, name, &ev, func() error { return h.insert(ctx, h.pool, name, &ev) })
		})
	}
	return out.Named(name)
}

// answer is on for a handler whose answer is different in every run, so that a repeated run shows.
func (h *handling) answer(pattern, name string) receiver.Handler {
	var out receiver.Handler
	switch h.settings.Effects {
	case EffectsTx:
		out = receiver.AnswerTx("github", pattern, func(
			ctx context.Context, tx pgx.Tx, ev event,
		) (receiver.Response, error) {
			return unique(ev), h.run(ctx, name, &ev, func() error { return h.insert(ctx, tx, name, &ev) })
		})
	case EffectsSQL:
		out = receiver.AnswerTx("github", pattern, func(
			ctx context.Context, tx *sql.Tx, ev event,
		) (receiver.Response, error) {
			return unique(ev), h.run(ctx, name, &ev, func() error { return h.insertSQL(ctx, tx, name, &ev) })
		})
	case EffectsOnce:
		out = receiver.Answer("github", pattern, func(ctx context.Context, ev event) (receiver.Response, error) {
			return unique(ev), h.run(ctx, name, &ev, func() error { return nil })
		})
	default:
		out = receiver.Answer("github", pattern, func(ctx context.Context, ev event) (receiver.Response, error) {
			return unique(ev), h.run(ctx, name, &ev, func() error { return h.insert(ctx, h.pool, name, &ev) })
		})
	}
	return out.Named(name)
}

// inserter is a transaction or the pool of a plain handler.
type inserter interface {
	Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error)
}

// insert inserts an effect, nothing if the effects are lines of the log.
func (h *handling) insert(ctx context.Context, db inserter, name string, ev *event) error {
	if h.settings.Effects == "" || h.settings.Effects == EffectsLogged {
		return nil
	}
	statement, args := tableOf(h.settings.Schema).insert(name, ev)
	_, err := db.Exec(ctx, statement, args...)
	return err
}

func (h *handling) insertSQL(ctx context.Context, tx *sql.Tx, name string, ev *event) error {
	statement, args := tableOf(h.settings.Schema).insert(name, ev)
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}
