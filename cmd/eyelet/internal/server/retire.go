package server

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
)

// The tasks of a handler that retires are counted this often, up to a number and for a time.
const (
	retireEvery = time.Minute
	retireMost  = 10_000
	retireTime  = 5 * time.Second
)

// retiredHandler is a handler that was removed from the configuration. It finishes the tasks that
// it has.
type retiredHandler struct {
	name    string
	handler receiver.Handler
	of      *resources      // what it uses
	orphan  bool            // its tasks become dead letters
	tasks   atomic.Int64    // that it has; -1 if they are not counted yet
	ctx     context.Context //nolint:containedctx // of watch
	end     context.CancelFunc
}

// retire keeps the handlers of an earlier generation that this one does not have. Those that
// retired before and have no tasks left are gone, unless an earlier receiver may still accept
// events for them. They are counted again: such a receiver may have accepted some since they had
// none. With orphan their tasks become dead letters.
func (g *generation) retire(old *generation, store dedup.Store, accepting, orphan bool) {
	keep := func(name string, h receiver.Handler, of *resources) {
		of.users.Add(1)
		r := &retiredHandler{name: name, handler: h.Retired(), of: of, orphan: orphan}
		if orphan {
			r.handler = h.Orphaned()
		}
		r.ctx, r.end = context.WithCancel(context.Background())
		r.tasks.Store(-1)
		g.retired = append(g.retired, r)
	}
	for i, name := range old.HandlerNames {
		if !slices.Contains(g.HandlerNames, name) {
			keep(name, old.Receiver.Handlers[i], old.resources)
		}
	}
	for _, h := range old.retired {
		if slices.Contains(g.HandlerNames, h.name) || h.orphan {
			continue
		}
		if accepting || h.tasks.Load() != 0 || h.count(store) != 0 {
			keep(h.name, h.handler, h.of)
		}
	}
}

// retiredNames returns the names of the handlers that finish their tasks.
func (g *generation) retiredNames() (names []string) {
	for _, h := range g.retired {
		if !h.orphan {
			names = append(names, h.name)
		}
	}
	return names
}

// retiring returns the removed handlers that have tasks left, or were not counted yet.
func (g *generation) retiring() (all []inspect.Retiring) {
	for _, h := range g.retired {
		if n := h.tasks.Load(); n != 0 {
			all = append(all, inspect.Retiring{Handler: h.name, Tasks: int(n)})
		}
	}
	return all
}

// watch counts the tasks of the handler until there are none, and logs how many are left. It
// returns false if it ended earlier.
func (h *retiredHandler) watch(store dedup.Store, log *slog.Logger) bool {
	for {
		before, now := h.tasks.Load(), h.count(store)
		switch {
		case now == 0:
			log.Info("a removed handler has no tasks left", "handler", h.name)
			h.tasks.Store(0)
			return true
		case now > 0 && now != before:
			log.Info("a removed handler finishes its tasks", "handler", h.name, "tasks", now)
			h.tasks.Store(now)
		}
		select {
		case <-h.ctx.Done():
			return false
		case <-time.After(retireEvery):
		}
	}
}

// count returns the number of open tasks of the handler, at most retireMost; -1 if the store does
// not list them in time.
func (h *retiredHandler) count(store dedup.Store) (n int64) {
	ctx, cancel := context.WithTimeout(h.ctx, retireTime)
	defer cancel()
	open := dedup.Filter{Handler: h.name, States: []dedup.State{dedup.Pending, dedup.Running}}
	for rec, err := range store.List(ctx, open) {
		if err != nil {
			return -1
		}
		for _, t := range rec.Tasks {
			if t.Handler == h.name && (t.State == dedup.Pending || t.State == dedup.Running) {
				n++
			}
		}
		if n >= retireMost {
			return n
		}
	}
	return n
}
