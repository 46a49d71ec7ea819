package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eyelet-dev/eyelet/dedup"
)

// dsnError returns the error for a connection string that cannot be read. It does not quote the
// string, which may contain a password.
func dsnError(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("the connection string cannot be used: file %s: %w", file.Path, file.Err)
	}
	return errors.New("the connection string cannot be read: write postgres://user@host/database, " +
		"and %40 for @ in a password")
}

// errConflict means that another process changed what a step read. The step starts again.
var errConflict = errors.New("another process was faster")

// How soon a producer should come back.
const (
	soon  = time.Second
	later = 5 * time.Second
)

// The classes and codes of errors, see appendix A of the manual of PostgreSQL,
// https://www.postgresql.org/docs/15/errcodes-appendix.html (read 2026-11-23).
const (
	codeReadOnly      = "25006"
	codeUnique        = "23505"
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
)

const reasonLocked = "a lock of the database was not released in time"

func codeOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// said returns what the server said, without the details, which may quote rows.
func said(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return nil
	}
	return errors.New(pg.Code + " " + strings.ToValidUTF8(pg.Message, ""))
}

// refused reports whether the server gave an error that needs a person, such as a refused login.
// Those of connections, read-only servers, conflicts, resources, locks and operators may go away by
// themselves.
func refused(err error) bool {
	code := codeOf(err)
	return code != "" && !slices.Contains([]string{"08", "25", "40", "53", "55", "57", "58"}, code[:2])
}

// raced reports whether the step that failed should start again.
func raced(err error) bool {
	again := []string{codeUnique, codeSerialization, codeDeadlock}
	return slices.Contains(again, codeOf(err)) || errors.Is(err, errConflict)
}

// maxTries bounds how often a step starts again because another process was faster.
const maxTries = 20

// retry runs a step, and again while others overtake it.
func retry(step func() error) error {
	for try := 0; ; try++ {
		err := step()
		if !raced(err) || try == maxTries {
			return err
		}
		time.Sleep(time.Duration(try) * time.Millisecond)
	}
}

// own are the errors that callers get as they are.
var own = []error{
	nil, context.Canceled, dedup.ErrLeaseLost, dedup.ErrNotFound, dedup.ErrNotDead, dedup.ErrNoPayload,
	dedup.ErrNotWaiting, dedup.ErrNoTask, dedup.ErrQuarantined, dedup.ErrOpen, dedup.ErrInvalid, dedup.ErrTooLarge,
	dedup.ErrClosed, dedup.ErrStale,
}

// fault returns the error of the contract for one of the database.
func fault(err error) error {
	_, unavailable := errors.AsType[*dedup.ErrUnavailable](err)
	if unavailable || slices.ContainsFunc(own, func(own error) bool { return errors.Is(err, own) }) {
		return err
	}
	out := &dedup.ErrUnavailable{Reason: "the database does not answer", RetryAfter: soon, Err: err}
	var connect *pgconn.ConnectError
	switch code := codeOf(err); {
	case errors.Is(err, errDamaged):
		out.Reason = "the tables are damaged"
	case errors.Is(err, errConflict):
		out.Reason, out.Err = "too many changes of the same events at once", nil
	case code == codeReadOnly:
		out.Reason, out.RetryAfter, out.Err = "the database is read-only: it may be a standby", later, nil
	case code == codeLockTimeout:
		out.Reason, out.Err = reasonLocked, nil
	case code != "":
		out.Reason, out.Err = "database", said(err)
	case errors.As(err, &connect):
		out.Err = errors.New("cannot connect to " + connect.Config.Host)
	case errors.Is(err, context.DeadlineExceeded):
		out.Err = context.DeadlineExceeded
	}
	return out
}

// openError returns an error of Open: that of the contract if the server cannot be reached, or
// cannot serve at the moment.
func openError(err error) error {
	_, unreached := errors.AsType[*pgconn.ConnectError](err)
	_, cut := errors.AsType[*net.OpError](err)
	switch {
	case refused(err):
		err = said(err)
	case codeOf(err) != "", unreached, cut, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fault(err)
	}
	return fmt.Errorf("open the store: %w", err)
}
