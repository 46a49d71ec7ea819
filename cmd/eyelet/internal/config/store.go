package config

import (
	"errors"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// storeKind takes the store's setting apart.
func (c *Settings) StoreKind() (kind, dir string, err error) {
	kind, dir, ok := strings.Cut(c.Store, ":")
	switch {
	case kind == "memory" && dir == "": // YAML wants quotes around memory:, so both are good
		return kind, "", nil
	case ok && kind == "badger" && dir != "":
		return kind, c.Path(dir), nil
	}
	return "", "", errors.New("store is neither badger:DIR nor memory")
}

// storeFile returns the path of a file in the store's folder, or "" for a store in memory, which has no folder.
func (c *Settings) StoreFile(name string) (string, error) {
	kind, dir, err := c.StoreKind()
	if err != nil {
		return "", usage.Errorf("", "%v", err)
	}
	if kind != "badger" {
		return "", nil
	}
	return filepath.Join(dir, name), nil
}

// openStore opens the store of the settings. A store that cannot be opened is something that the user has to
// change: its error is one line and a hint.
func (c *Settings) OpenStore(log *slog.Logger) (dedup.Store, error) {
	kind, dir, err := c.StoreKind()
	if err != nil {
		return nil, usage.Errorf("", "%v", err)
	}
	if kind == "memory" {
		return dedup.NewMemory(dedup.MemoryOptions{Remember: c.Limits.RememberSignatures.retention()}), nil
	}
	store, err := badgerstore.Open(dir, c.storeOptions(log))
	if err != nil {
		return nil, StoreError(c.Node.place("store"), err)
	}
	return store, nil
}

// storeOptions are what the settings say of a store on disk.
func (c *Settings) storeOptions(log *slog.Logger) badgerstore.Options {
	events := int64(c.Limits.BacklogEvents)
	if events == 0 && c.Limits.Node.scalar("backlog_events") != "" {
		events = -1 // written as 0: no bound, and no default
	}
	return badgerstore.Options{
		Logger: log, AcceptLoss: c.AcceptLoss, AcceptClock: c.AcceptClock, MinFree: int64(c.Limits.MinFree),
		MaxBacklogBytes: int64(c.Limits.BacklogBytes), MaxBacklogRecords: events,
		Remember: c.Limits.RememberSignatures.retention(),
	}
}

// advised are the errors of the store that give advice behind a colon: its directory is another process's, or a
// newer program's.
var advised = regexp.MustCompile(`^(.* (?:is in use by another process|knows formats up to \d+)): (.*?)( \(process \d+\))?$`)

// StoreError returns an error of the store as one for the user to fix. The advice in its text, after a semicolon,
// becomes the hint.
func StoreError(at usage.Place, err error) error {
	e := &usage.Error{At: at, What: usage.OneLine(err.Error())}
	if m := advised.FindStringSubmatch(e.What); m != nil {
		e.What, e.Hint = m[1]+m[3], m[2]
	} else if i := strings.LastIndex(e.What, "; "); i >= 0 {
		e.What, e.Hint = e.What[:i], e.What[i+2:]
	}
	return e
}
