package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/usage"
)

// StoreKind returns "badger" with its directory, "postgres", or "memory".
func (s *Settings) StoreKind() (kind, dir string, err error) {
	kind, dir, ok := strings.Cut(s.Store, ":")
	switch {
	case kind == "memory" && dir == "": // the colon is optional, because YAML wants quotes around memory:
		return kind, "", nil
	case ok && kind == "badger" && dir != "":
		return kind, s.Path(dir), nil
	case isPostgres(s.Store):
		_, err := pgstore.Name(s.Store)
		return "postgres", "", err
	}
	return "", "", errors.New("store is neither badger:DIR, postgres://..., nor memory")
}

func isPostgres(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// StoreName returns the setting as it may be shown: of a connection string hosts, ports and
// database.
func (s *Settings) StoreName() string { return storeName(s.Store) }

func storeName(store string) string {
	if strings.HasPrefix(store, "badger:") || strings.HasPrefix(store, "memory") {
		return store
	}
	if isPostgres(store) {
		if name, err := pgstore.Name(store); err == nil {
			return name
		}
	}
	return conf.Hidden
}

// StateDir returns the folder of what belongs to this receiver alone: the token and the address of
// its operations port, and the peers that it knows.
func (s *Settings) StateDir() (string, error) {
	kind, dir, err := s.StoreKind()
	switch {
	case err != nil:
		return "", err
	case s.State != "":
		return s.Path(s.State), nil
	case kind == "badger":
		return dir, nil
	case kind == "postgres":
		return s.Path("state"), nil
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		caches = filepath.Join(os.TempDir(), fmt.Sprintf("eyelet-%d", os.Getuid()))
	}
	full, err := filepath.Abs(s.File)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(full))
	return filepath.Join(caches, "eyelet", hex.EncodeToString(sum[:8])), nil
}

// CheckStore looks for what is wrong in the tables of a store in PostgreSQL.
func (s *Settings) CheckStore(ctx context.Context) (pgstore.Report, error) {
	r, err := pgstore.Check(ctx, s.Store, s.Schema)
	if err != nil {
		return r, s.PostgresError(err)
	}
	return r, nil
}

// checkStore validates the store, and what has a meaning for some stores only.
func (s *Settings) checkStore() (found usage.Errors) {
	kind, _, err := s.StoreKind()
	if err != nil {
		found.Add(s.Place("store"), "write badger:./data, postgres://user@host/database, or memory: for trying out",
			"%v", err)
		return found
	}
	if l := s.Limits; kind != "badger" && (l.BacklogBytes > 0 || l.BacklogEvents > 0 || l.MinFree > 0) {
		found.Add(l.Node.At, "leave them out, or write store: badger:DIR",
			"backlog_bytes, backlog_events and min_free have a meaning for a store in files only")
	}
	if kind == "postgres" && (s.AcceptLoss || s.AcceptClock) {
		found.Add(s.Place("store"), "leave them out",
			"--accept-loss and --accept-clock have no meaning for a store in PostgreSQL")
	}
	if s.Schema != "" && kind != "postgres" {
		found.Add(s.Place("schema"), "leave it out, or write store: postgres://user@host/database",
			"schema has a meaning for a store in PostgreSQL only")
	}
	return found
}

// OpenStore opens the store. Its errors are usage errors, or [dedup.ErrUnavailable] for a database
// that cannot serve at the moment.
func (s *Settings) OpenStore(ctx context.Context, log *slog.Logger) (dedup.Store, error) {
	kind, dir, err := s.StoreKind()
	if err != nil {
		return nil, usage.Errorf("", "%v", err)
	}
	remember := s.Limits.RememberSignatures.retention()
	switch kind {
	case "memory":
		return memstore.New(memstore.Options{Remember: remember}), nil
	case "postgres":
		store, err := pgstore.Open(ctx, s.Store, pgstore.Options{Schema: s.Schema, Remember: remember, Logger: log})
		if err != nil {
			return nil, s.PostgresError(err)
		}
		return store, nil
	}
	store, err := badgerstore.Open(dir, s.storeOptions(log))
	if err != nil {
		return nil, StoreError(s.Place("store"), err)
	}
	return store, nil
}

// PostgresError returns an error of a store in PostgreSQL as a usage error, unless it may pass.
func (s *Settings) PostgresError(err error) error {
	if _, ok := errors.AsType[*dedup.ErrUnavailable](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	if v, ok := errors.AsType[*pgstore.VersionError](err); ok && v.Tables == 0 {
		return &usage.Error{At: s.Place("store"), Hint: "eyelet store migrate --config " + s.File, What: fmt.Sprintf(
			"schema %s has version %d of the tables, and this program needs %d", v.Schema, v.Tables, pgstore.Version)}
	}
	return StoreError(s.Place("store"), err)
}

// MigrateStore makes the tables of a store in PostgreSQL.
func (s *Settings) MigrateStore(ctx context.Context) error {
	if err := pgstore.Migrate(ctx, s.Store, s.Schema); err != nil {
		return s.PostgresError(err)
	}
	return nil
}

func (s *Settings) storeOptions(log *slog.Logger) badgerstore.Options {
	l := s.Limits
	events := int64(l.BacklogEvents)
	if events == 0 && l.Node.Scalar("backlog_events") != "" {
		events = -1 // 0 in the file: no bound
	}
	return badgerstore.Options{
		Logger: log, AcceptLoss: s.AcceptLoss, AcceptClock: s.AcceptClock, MinFree: l.MinFree,
		MaxBacklogBytes: l.BacklogBytes, MaxBacklogRecords: events, Remember: l.RememberSignatures.retention(),
	}
}

// advised matches the errors of the store that give advice after a colon: the directory is in
// use by another process or was written by a newer program.
var advised = regexp.MustCompile(
	`^(.* (?:is in use by another process|knows formats up to \d+)): (.*?)( \(process \d+\))?$`)

// StoreError returns an error of the store as a usage error. The advice in its text, usually
// after a semicolon, becomes the hint.
func StoreError(at usage.Place, err error) error {
	e := &usage.Error{At: at, What: usage.OneLine(err.Error())}
	if m := advised.FindStringSubmatch(e.What); m != nil {
		e.What, e.Hint = m[1]+m[3], m[2]
	} else if i := strings.LastIndex(e.What, "; "); i >= 0 {
		e.What, e.Hint = e.What[:i], e.What[i+2:]
	}
	return e
}
