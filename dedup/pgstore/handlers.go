package pgstore

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// noteSQL notes that there are tasks of handlers, once for each of them.
	noteSQL = `INSERT INTO {{schema}}.handler (name, noted)
SELECT name, coalesce($1::timestamptz, now()) FROM unnest($2::text[]) AS name ORDER BY name ON CONFLICT DO NOTHING`

	// seeSQL says that a receiver has handlers. It returns the time, and that of the server, which
	// a test does not change.
	seeSQL = `WITH n AS MATERIALIZED (SELECT coalesce($1::timestamptz, now()) AS now),
h AS (INSERT INTO {{schema}}.handler (name, noted, seen) SELECT name, n.now, n.now FROM n, unnest($2::text[]) AS name ORDER BY name
  ON CONFLICT (name) DO UPDATE SET seen = excluded.seen)
SELECT n.now, now() FROM n`
)

// handlers are the names of handlers that a process knows.
type handlers struct {
	mu    sync.Mutex
	noted map[string]bool // in tasks
	named []string        // of its own; a longer list replaces it
	seen  sightings       // of its own
}

// note stores the handlers that were not noted before.
func (h *handlers) note(ctx context.Context, db *database, names []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh := slices.DeleteFunc(texts(names), func(name string) bool { return h.noted[name] })
	if len(fresh) == 0 {
		return nil
	}
	_, err := db.pool.Exec(ctx, db.sql(noteSQL), db.now(), fresh)
	for _, name := range fresh {
		h.noted[name] = err == nil
	}
	return err
}

// name adds handlers of this process and returns all of them. It says so at once if there are new
// ones.
func (h *handlers) name(ctx context.Context, db *database, names []string) ([]string, error) {
	h.mu.Lock()
	before := len(h.named)
	for _, name := range names {
		if name = text(name); !slices.Contains(h.named, name) {
			h.named = append(slices.Clone(h.named), name)
		}
	}
	all := h.named
	h.mu.Unlock()
	if len(all) == before {
		return all, nil
	}
	return all, h.see(ctx, db)
}

// see says that this process has its handlers.
func (h *handlers) see(ctx context.Context, db *database) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	h.mu.Lock()
	all := h.named
	h.mu.Unlock()
	var now, at time.Time
	err := db.pool.QueryRow(ctx, db.sql(seeSQL), db.now(), all).Scan(&now, &at)
	if err == nil {
		h.seen.add(now, at)
	}
	return err
}

// seeAlways says so every five seconds until the store is closed. A sweep, which may take longer,
// does not delay it.
func (h *handlers) seeAlways(ctx context.Context, db *database, closed <-chan struct{}) {
	const every, again = 5 * time.Second, time.Second
	for wait := every; ; {
		select {
		case <-closed:
			return
		case <-time.After(wait):
		}
		if wait = every; h.see(ctx, db) != nil {
			wait = again
		}
	}
}

// sightings are when a process reported its handlers. Without a gap in its own, other processes
// could report theirs too.
type sightings struct {
	mu    sync.Mutex
	first time.Time // without a gap since then
	last  time.Time // by the clock of the server
}

// maxGap is how much later than the last one a sighting may be. dueSQL contains it too.
const maxGap = 15 * time.Second

// add adds a sighting at a time, which is at by the clock of the server. After a fail-over that
// clock may be an earlier one, which is a gap too.
func (s *sightings) add(now, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.Sub(s.last).Abs() > maxGap {
		s.first = now
	}
	s.last = at
}

// unbroken returns the first and the last sighting without a gap between.
func (s *sightings) unbroken() (first, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, s.last
}
