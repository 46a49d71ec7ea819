package receiver

import (
	"container/list"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// The bounds of the crowd. A verification is mostly arithmetic, so that more at once than a few for each CPU
// only take time from each other; a few more than that are there for key sets that have to be fetched.
const (
	turnsPerCPU    = 4
	maxStrangers   = 1024            // that wait for their turn, and as many of which each is the first of its peer
	maxFromOnePeer = 512             // of them
	maxKnown       = 4096            // that wait
	strangerWait   = 2 * time.Second // at most; then 503
	knownWait      = 5 * time.Second

	// A peer is known while it has credit. Each new event brings much of it and each refused one costs a
	// little, so that an honest sender which shares its address with a flood is known as long as one in nine
	// is its.
	creditAccepted = 8
	creditMax      = 64
	creditLasts    = time.Hour
	maxPeers       = 10_000 // of known ones that are remembered
)

// crowd keeps those whom nobody has verified yet from taking everything. Two things are bounded: how many
// verifications run at once, and the bytes of the bodies that are held for them. A part of both is kept for
// peers that lately brought new events to the same endpoint, and these go first; to strangers, one peer
// may take only a part of what is left.
//
// After a start nobody is known. Of strangers, the one delivery of a peer that has no other waiting goes before those
// that have, so that a few addresses which send without a pause keep nobody out: with its first new event a peer is
// known.
//
// A peer is a network address, or the half of one that IPv6 gives to a network; behind a proxy that is not
// among Config.TrustedProxies all senders are one peer.
type crowd struct {
	turns, kept int     // verifications at once, and how many of them only the known may have
	bodies      *budget // of everybody
	unknown     *budget // of strangers, within bodies
	perPeer     int64   // of one stranger, within unknown

	mu        sync.Mutex
	running   int
	strangers int          // of running
	wait      [3]list.List // of *waiter, as in the lines below; the first line goes first
	peers     map[peerName]*peer
}

// The lines in which deliveries wait for their turn.
const (
	lineKnown = iota
	lineFirst // strangers whose peer had nobody waiting
	lineMore  // other strangers
)

// peerName is an address at an endpoint.
type peerName struct {
	endpoint string
	network  netip.Prefix
}

// peer is what is known of a peer. It is forgotten when nobody is here any more and it has no credit.
type peer struct {
	name    peerName
	budget  budget // of its bodies while it is a stranger
	here    int    // requests
	waiting int
	credit  int
	until   time.Time // when the credit ends
}

// guest is one request in the crowd. It is for one goroutine.
type guest struct {
	of    *crowd
	peer  *peer
	known bool
	turn  bool // it may verify
}

type waiter struct {
	guest *guest
	ready chan struct{} // closed when it has its turn
}

// newCrowd returns a crowd that shares the budget for bodies; largest is the largest body that any producer
// may send, which one stranger must be able to do.
func newCrowd(bodies *budget, largest int64) *crowd {
	turns := max(8, turnsPerCPU*runtime.GOMAXPROCS(0))
	// A buffer has one byte more than the body, to see its end.
	return &crowd{
		turns: turns, kept: turns / 4, bodies: bodies,
		unknown: &budget{limit: max(bodies.limit/4*3, largest+1), of: bodies},
		perPeer: max(bodies.limit/4, largest+1),
		peers:   map[peerName]*peer{},
	}
}

// arrive lets a request in; depart must follow.
func (c *crowd) arrive(endpoint string, addr netip.Addr, now time.Time) *guest {
	name := peerName{endpoint, networkOf(addr)} // the zero address is a peer as well
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[name]
	if p == nil {
		p = &peer{name: name, budget: budget{limit: c.perPeer, of: c.unknown}}
		c.peers[name] = p
	}
	p.here++
	if p.credit > 0 && now.After(p.until) {
		p.credit = 0
	}
	return &guest{of: c, peer: p, known: p.credit > 0}
}

// depart ends what arrive began.
func (g *guest) depart() {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	p := g.peer
	if p.here--; p.here == 0 && p.credit <= 0 {
		delete(g.of.peers, p.name)
	}
}

// budget is where the bytes of the guest's body count.
func (g *guest) budget() *budget {
	if g.known {
		return g.of.bodies
	}
	return &g.peer.budget
}

// welcome notes that the peer brought a new event, and refused that it brought what did not verify.
func (g *guest) welcome(now time.Time) {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	if g.peer.credit <= 0 {
		g.of.makeRoom()
	}
	g.peer.credit = min(creditMax, max(0, g.peer.credit)+creditAccepted)
	g.peer.until = now.Add(creditLasts)
}

func (g *guest) refused() {
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	g.peer.credit = max(0, g.peer.credit-1)
}

// makeRoom forgets any peer that is not here when too many are remembered.
func (c *crowd) makeRoom() {
	if len(c.peers) < maxPeers {
		return
	}
	for name, p := range c.peers {
		if p.here == 0 {
			delete(c.peers, name)
			return
		}
	}
}

var errCrowd = errors.New("too many deliveries wait to be verified")

// enter waits for the guest's turn to verify; leave must follow when it returns nil.
func (g *guest) enter(ctx context.Context) error {
	c := g.of
	c.mu.Lock()
	if c.waiting() == 0 && c.free(g.known) {
		c.begin(g)
		c.mu.Unlock()
		return nil
	}
	line, room, most := lineMore, maxStrangers, strangerWait
	switch {
	case g.known:
		line, room, most = lineKnown, maxKnown, knownWait
	case g.peer.waiting == 0:
		line = lineFirst
	}
	queue := &c.wait[line]
	full := queue.Len() >= room || !g.known && g.peer.waiting >= maxFromOnePeer
	if full {
		c.mu.Unlock()
		return fail(codeBusy, errCrowd)
	}
	w := &waiter{guest: g, ready: make(chan struct{})}
	place := queue.PushBack(w)
	g.peer.waiting++
	c.call()
	c.mu.Unlock()
	return g.await(ctx, w, queue, place, most)
}

func (g *guest) await(ctx context.Context, w *waiter, queue *list.List, place *list.Element, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	g.of.mu.Lock()
	defer g.of.mu.Unlock()
	if g.turn { // it came at the last moment
		return nil
	}
	queue.Remove(place)
	g.peer.waiting--
	return fail(codeBusy, errCrowd)
}

// leave ends the guest's turn, if it has one, and calls the next.
func (g *guest) leave() {
	if !g.turn {
		return
	}
	c := g.of
	c.mu.Lock()
	defer c.mu.Unlock()
	g.turn = false
	c.running--
	if !g.known {
		c.strangers--
	}
	c.call()
}

// waiting is how many wait for their turn.
func (c *crowd) waiting() (n int) {
	for i := range c.wait {
		n += c.wait[i].Len()
	}
	return n
}

// call gives turns to those who wait, line by line.
func (c *crowd) call() {
	for line := range c.wait {
		queue := &c.wait[line]
		for queue.Len() > 0 && c.free(line == lineKnown) {
			w := queue.Remove(queue.Front()).(*waiter)
			w.guest.peer.waiting--
			c.begin(w.guest)
			close(w.ready)
		}
	}
}

// free reports whether there is a turn for a known peer, or for a stranger.
func (c *crowd) free(known bool) bool {
	return c.running < c.turns && (known || c.strangers < c.turns-c.kept)
}

func (c *crowd) begin(g *guest) {
	g.turn = true
	c.running++
	if !g.known {
		c.strangers++
	}
}
