package admission

import (
	"context"
	"errors"
	"time"
)

// ErrBusy is returned when no slot is free in time.
var ErrBusy = errors.New("too many deliveries wait to be verified")

// Permit is what one request uses of a [Limiter] while it is unauthenticated: a slot to verify
// in, and bytes of the body. It is for one goroutine.
type Permit struct {
	limiter *Limiter
	peer    *peer
	queue   *queue
	known   bool
	slot    bool
	exact   bool          // the verification is measured exactly
	started time.Duration // by the meter
	held    int64         // bytes of the body
	charged int           // slots that it made its network owe
}

// waiter is a permit in a line.
type waiter struct {
	permit *Permit
	ready  chan struct{} // closed when the permit has its slot
}

// Release ends the request and frees everything that it still uses.
func (p *Permit) Release() {
	p.Settle()
	l := p.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.peer.requests--; p.peer.requests == 0 && p.peer.credit <= 0 {
		delete(l.peers, p.peer.name)
	}
}

// Known reports whether the peer recently sent new events to the endpoint.
func (p *Permit) Known() bool { return p.known }

// Settle frees the slot and the bytes: the delivery was refused, or it is verified and no longer
// counts as unauthenticated.
func (p *Permit) Settle() {
	p.Yield()
	p.budget().release(p.held)
	p.held = 0
}

// Hold counts n more bytes of the body. It returns false when they do not fit the budget.
func (p *Permit) Hold(n int64) bool {
	if !p.budget().take(n) {
		return false
	}
	p.held += n
	return true
}

func (p *Permit) budget() *budget {
	if p.known {
		return p.limiter.bodies
	}
	return &p.peer.budget
}

// Credit rewards the peer for a new event, which also forgives what its verification cost.
func (p *Permit) Credit(now time.Time) {
	l := p.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.peer.credit <= 0 {
		l.evictPeer()
	}
	p.peer.credit = min(creditMax, max(0, p.peer.credit)+CreditAccepted)
	p.peer.until = now.Add(creditLasts)
	l.owe(p.peer.name.network, -p.charged)
	p.charged = 0
}

// Debit penalizes the peer for a failed verification.
func (p *Permit) Debit() {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.peer.credit = max(0, p.peer.credit-1)
}

// Paused frees the slot while f runs, and then waits for a slot again. It returns the error of
// f, without a slot then, or that of Acquire.
func (p *Permit) Paused(ctx context.Context, f func() error) error {
	p.Yield()
	if err := f(); err != nil {
		return err
	}
	return p.Acquire(ctx)
}

// Acquire waits for a slot to verify in. It returns [ErrBusy] when none is free in time or ctx
// ends.
func (p *Permit) Acquire(ctx context.Context) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	p.started = p.limiter.meter.start(p.exact)
	return nil
}

func (p *Permit) wait(ctx context.Context) error {
	l := p.limiter
	l.mu.Lock()
	p.exact = !p.known || p.peer.costly > 0
	line, limit, longest := p.line()
	if l.free(p) && p.queue.before(line) == 0 {
		l.occupy(p)
		l.mu.Unlock()
		return nil
	}
	waiting := &p.queue.wait[line]
	if waiting.Len() >= limit || line != lineKnown && p.peer.waiting >= maxFromOnePeer {
		l.mu.Unlock()
		return ErrBusy
	}
	w := &waiter{permit: p, ready: make(chan struct{})}
	elem := waiting.PushBack(w)
	p.peer.waiting++
	l.mu.Unlock()
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.slot { // granted at the last moment
		return nil
	}
	waiting.Remove(elem)
	p.peer.waiting--
	return ErrBusy
}

// line returns the line in which the request waits, how many may wait there, and for how long.
func (p *Permit) line() (line, limit int, longest time.Duration) {
	l, network := p.limiter, p.peer.name.network
	switch {
	case l.debts[network] > 0:
		l.owe(network, -1)
	case p.known:
		return lineKnown, maxKnown, knownWait
	case p.peer.waiting == 0:
		return lineFirst, l.perQueue, unknownWait
	}
	return lineMore, l.perQueue, unknownWait
}

// Yield passes the slot, if there is one, to the next waiting request. An expensive verification
// makes the peer's network owe slots. To measure exactly costs as much as a cheap verification, so
// that is done for known peers only after one that took long.
func (p *Permit) Yield() {
	if !p.slot {
		return
	}
	l := p.limiter
	took := l.meter.stop(p.started, p.exact)
	l.mu.Lock()
	defer l.mu.Unlock()
	p.peer.costly = max(0, p.peer.costly-1)
	if took > expensive {
		p.peer.costly = debtMax
	}
	if took > expensive && p.exact {
		slots := int(min(took/expensive, debtMax))
		p.charged += slots
		l.owe(p.peer.name.network, slots)
	}
	p.slot = false
	l.running--
	if !p.known {
		l.runningUnknown--
		p.queue.running--
	}
	l.grant()
}
