package main

import (
	"log/slog"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
)

// openStore opens the store of the settings. A store that cannot be opened is something that the user has to
// change: its error is one line and a hint.
func (c *settings) openStore(log *slog.Logger) (dedup.Store, error) {
	kind, dir, err := c.storeKind()
	if err != nil {
		return nil, wrong("", "%v", err)
	}
	if kind == "memory" {
		return dedup.NewMemory(dedup.MemoryOptions{}), nil
	}
	store, err := badgerstore.Open(dir, badgerstore.Options{Logger: log, AcceptLoss: c.AcceptLoss, AcceptClock: c.AcceptClock})
	if err != nil {
		what, hint := oneLine(err.Error()), ""
		if i := strings.LastIndex(what, "; "); i >= 0 { // the store says what to do behind a semicolon
			what, hint = what[:i], what[i+2:]
		}
		return nil, &mistake{at: c.Node.place("store"), what: what, hint: hint}
	}
	return store, nil
}
