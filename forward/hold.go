package forward

import (
	"sync"
	"time"
)

// maxHeld bounds the events whose Retry-After is remembered.
const maxHeld = 10_000

// holds remembers for which events a target asked for time. The caller who keeps the event waits anyway; this
// is for those who come again on their own, as producers do whose delivery is being relayed.
type holds struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// left returns for how long the event is not to be sent.
func (h *holds) left(event string, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, ok := h.until[event]
	if ok && !until.After(now) {
		delete(h.until, event)
	}
	return max(0, until.Sub(now))
}

// hold remembers a wait. When there are too many, those that are over go, and then the one that is over first.
func (h *holds) hold(event string, until, now time.Time) {
	if event == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	if len(h.until) >= maxHeld {
		h.makeRoom(now)
	}
	h.until[event] = until
}

func (h *holds) makeRoom(now time.Time) {
	first := ""
	for event, until := range h.until {
		if !until.After(now) {
			delete(h.until, event)
		} else if first == "" || until.Before(h.until[first]) {
			first = event
		}
	}
	if len(h.until) >= maxHeld {
		delete(h.until, first)
	}
}
