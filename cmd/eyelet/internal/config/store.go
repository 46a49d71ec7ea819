package config

import (
	"errors"
	"log/slog"
	"regexp"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// StoreKind returns "badger" with its directory, or "memory".
func (s *Settings) StoreKind() (kind, dir string, err error) {
	kind, dir, ok := strings.Cut(s.Store, ":")
	switch {
	case kind == "memory" && dir == "": // the colon is optional, because YAML wants quotes around memory:
		return kind, "", nil
	case ok && kind == "badger" && dir != "":
		return kind, s.Path(dir), nil
	}
	return "", "", errors.New("store is neither badger:DIR nor memory")
}

// OpenStore opens the store. Its errors are usage errors.
func (s *Settings) OpenStore(log *slog.Logger) (dedup.Store, error) {
	kind, dir, err := s.StoreKind()
	if err != nil {
		return nil, usage.Errorf("", "%v", err)
	}
	if kind == "memory" {
		return dedup.NewMemory(dedup.MemoryOptions{Remember: s.Limits.RememberSignatures.retention()}), nil
	}
	store, err := badgerstore.Open(dir, s.storeOptions(log))
	if err != nil {
		return nil, StoreError(s.Place("store"), err)
	}
	return store, nil
}

func (s *Settings) storeOptions(log *slog.Logger) badgerstore.Options {
	l := s.Limits
	events := int64(l.BacklogEvents)
	if events == 0 && l.Node.scalar("backlog_events") != "" {
		events = -1 // 0 in the file: no bound
	}
	return badgerstore.Options{
		Logger: log, AcceptLoss: s.AcceptLoss, AcceptClock: s.AcceptClock, MinFree: int64(l.MinFree),
		MaxBacklogBytes: int64(l.BacklogBytes), MaxBacklogRecords: events, Remember: l.RememberSignatures.retention(),
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
