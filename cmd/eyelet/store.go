package main

import (
	"log/slog"
	"regexp"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// openStore opens the store of the settings. A store that cannot be opened is something that the user has to
// change: its error is one line and a hint.
func (c *settings) openStore(log *slog.Logger) (dedup.Store, error) {
	kind, dir, err := c.storeKind()
	if err != nil {
		return nil, usage.Errorf("", "%v", err)
	}
	if kind == "memory" {
		return dedup.NewMemory(dedup.MemoryOptions{Remember: c.Limits.RememberSignatures.retention()}), nil
	}
	store, err := badgerstore.Open(dir, c.storeOptions(log))
	if err != nil {
		what, hint := withHint(usage.OneLine(err.Error()))
		return nil, &usage.Error{At: c.Node.place("store"), What: what, Hint: hint}
	}
	return store, nil
}

// storeOptions are what the settings say of a store on disk.
func (c *settings) storeOptions(log *slog.Logger) badgerstore.Options {
	events := int64(c.Limits.BacklogEvents)
	if events == 0 && text(c.Limits.Node, "backlog_events") != "" {
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

// withHint takes the advice out of the text of the store's errors: it stands behind a semicolon.
func withHint(text string) (what, hint string) {
	if m := advised.FindStringSubmatch(text); m != nil {
		return m[1] + m[3], m[2]
	}
	if i := strings.LastIndex(text, "; "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return text, ""
}
