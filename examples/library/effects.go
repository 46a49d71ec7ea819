package library

import (
	"context"
	"database/sql"

	"github.com/eyelet-dev/eyelet/once"
	"github.com/eyelet-dev/eyelet/receiver"
)

type payment struct {
	Account string
	Cents   int64
}

// credited credits each payment once, whatever happens between its effect and its outcome. The
// account and the table of marks are in the same database.
func credited(db *sql.DB) receiver.Handler {
	credit := func(ctx context.Context, tx *sql.Tx, ev receiver.Event[payment]) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET cents = cents + $2 WHERE id = $1",
			ev.Data.Account, ev.Data.Cents)
		return err
	}
	return once.On(once.SQL(db), "bank", "payment", credit)
}
