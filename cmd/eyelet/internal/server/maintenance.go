package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/opsapi"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// maintained is a store that can be checked, repaired and backed up while it is served.
type maintained interface {
	Check(ctx context.Context) (badgerstore.Report, error)
	Repair(ctx context.Context) ([]badgerstore.Repair, badgerstore.Report, error)
	Backup(ctx context.Context, w io.Writer) error
}

var _ maintained = (*badgerstore.Store)(nil)

// MaintenanceAPI serves checks, repairs and backups of a store.
func MaintenanceAPI(served dedup.Store, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	store, ok := served.(maintained)
	if !ok {
		return http.NotFoundHandler()
	}
	mux.HandleFunc("GET /store/check", reportHandler(func(ctx context.Context) (any, error) {
		return store.Check(ctx)
	}))
	mux.HandleFunc("POST /store/repair", reportHandler(func(ctx context.Context) (any, error) {
		repaired, report, err := store.Repair(ctx)
		if report.Tables != "" {
			err = nil // the report has it, as without a server
		}
		return opsapi.CheckReport{Report: report, Repaired: repaired}, err
	}))
	mux.HandleFunc("GET /store/backup", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		w.Header().Set("Trailer", opsapi.BackupTrailer)
		w.Header().Set("Content-Type", "application/octet-stream")
		counted := &countingWriter{to: w}
		switch err := store.Backup(r.Context(), counted); {
		case err != nil && counted.n == 0:
			w.Header().Del("Trailer")
			writeProblem(w, http.StatusConflict, err)
		case err != nil:
			log.Warn("a backup was not completed", "error", err)
		default:
			w.Header().Set(opsapi.BackupTrailer, "true")
		}
	})
	return mux
}

// reportHandler responds with the report of a check, which takes as long as the store is large.
func reportHandler(look func(context.Context) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		report, err := look(r.Context())
		if err != nil {
			writeProblem(w, http.StatusServiceUnavailable, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report) // the client may be gone
	}
}

// writeProblem responds with an error as the events API does.
func writeProblem(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// the client may be gone
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "title": usage.OneLine(err.Error())})
}

// countingWriter counts the bytes that were written.
type countingWriter struct {
	to io.Writer
	n  int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.n += int64(n)
	return n, err
}
