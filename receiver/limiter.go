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

// The bounds of the limiter. A verification is mostly arithmetic, so that more at once than a few for each CPU
// only take time from each other; a few more than that are there for key sets that have to be fetched.
const (
	slotsPerCPU    = 4
	maxUnknown     = 1024            // requests that wait in each line of unknown peers
	maxFromOnePeer = 512             // of them
	maxKnown       = 4096            // requests of known peers that wait
	unknownWait    = 2 * time.Second // at most; then 503
	knownWait      = 5 * time.Second

	// One endpoint gets this part of what unknown peers share, where there are several endpoints.
	endpointShare = 3

	// A peer is known while it has credit. Each new event brings much of it and each refused one costs a
	// little, so that an honest sender which shares its address with a flood is known as long as one in nine
	// is its.
	creditAccepted = 8
	creditMax      = 64
	creditLasts    = time.Hour
	maxPeers       = 10_000 // of known ones that are remembered, and of those that owe slots

	// A verification that takes more processor time than this costs its peer the next slot for each such time.
	expensive = 10 * time.Millisecond
	debtMax   = 64
)

// limiter keeps clients that are not authenticated from taking everything. It bounds how many verifications run at once,
// and the bytes of the bodies that are held for them. A part of both is kept for peers that lately brought new events
// to the same endpoint, and these go first. Of the rest, one peer and one endpoint may take only a part.
//
// What counts is cost: a peer whose verification took much processor time gives its next slots to others, whatever
// its credit. What a new event has cost is forgotten.
//
// After a start the peers that were saved are known, with half their credit. Of unknown peers, the one delivery of a peer
// that has no other waiting goes before those that have, so that a few addresses which send without a pause keep no
// other out: with its first new event a peer is known.
//
// A peer is a network address, or the half of one that IPv6 gives to a network; behind a proxy that is not
// among Config.TrustedProxies all senders are one peer.
type limiter struct {
	slots, kept int     // verifications at once, and how many of them only known peers may have
	perEndpoint int     // slots of the unknown peers of one endpoint
	perQueue    int     // of them that wait, in each line
	bodies      *budget // of all peers
	unknown     *budget // of unknown ones, within bodies
	perPeer     int64   // of an unknown one, within unknown
	meter       meter

	mu      sync.Mutex
	running int
	taken   int // of running, by unknown peers
	queues  []*queue
	first   [lines]int // the queue that each line looks at first, so that endpoints take turns
	peers   map[peerName]*peer
	debts   map[netip.Prefix]int // slots that networks owe
}

// The lines in which requests wait for a slot. The first line goes first.
const (
	lineKnown = iota
	lineFirst // unknown peers that had no other request waiting
	lineMore  // other requests of unknown peers, and those of peers that owe slots
	lines
)

// queue holds what waits at one endpoint.
type queue struct {
	endpoint string
	taken    int              // slots of its unknown peers
	wait     [lines]list.List // of *waiter
}

// peerName is an address at an endpoint.
type peerName struct {
	endpoint string
	network  netip.Prefix
}

// peer is what is known of a peer. It is forgotten when it has no request under way and no credit.
type peer struct {
	name    peerName
	budget  budget // of its bodies while it is unknown
	here    int    // requests
	waiting int
	credit  int
	until   time.Time // when the credit ends
}

// permit is what one request may do. It is for one goroutine.
type permit struct {
	of      *limiter
	peer    *peer
	queue   *queue
	known   bool
	slot    bool          // it may verify
	started time.Duration // by the meter
	charged int           // slots that it made its network owe
}

type waiter struct {
	permit *permit
	ready  chan struct{} // closed when it has its slot
}

// newLimiter returns a limiter that shares the budget for bodies between so many endpoints; largest is the largest body
// that any producer may send, which one unknown peer must be able to do.
func newLimiter(bodies *budget, largest int64, endpoints int) *limiter {
	slots := max(8, slotsPerCPU*runtime.GOMAXPROCS(0))
	// A buffer has one byte more than the body, to see its end.
	l := &limiter{
		bodies:  bodies,
		unknown: &budget{limit: max(bodies.limit/4*3, largest+1), of: bodies},
		perPeer: max(bodies.limit/4, largest+1),
		meter:   threadMeter{},
		peers:   map[peerName]*peer{}, debts: map[netip.Prefix]int{},
	}
	l.share(slots, slots/4, endpoints)
	return l
}

// share sets the number of slots, those that are kept for known peers, and what one endpoint may have of the others.
func (l *limiter) share(slots, kept, endpoints int) {
	l.slots, l.kept = slots, kept
	l.perEndpoint, l.perQueue = slots-kept, maxUnknown
	if endpoints > 1 {
		l.perEndpoint, l.perQueue = max(1, l.perEndpoint/endpointShare), maxUnknown/endpointShare
	}
}

// arrive lets a request in; depart must follow.
func (l *limiter) arrive(endpoint string, addr netip.Addr, now time.Time) *permit {
	name := peerName{endpoint, networkOf(addr)}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers[name]
	if p == nil {
		p = l.newPeer(name)
	}
	p.here++
	if p.credit > 0 && now.After(p.until) {
		p.credit = 0
	}
	return &permit{of: l, peer: p, queue: l.queueOf(endpoint), known: p.credit > 0}
}

func (l *limiter) newPeer(name peerName) *peer {
	p := &peer{name: name, budget: budget{limit: l.perPeer, of: l.unknown}}
	l.peers[name] = p
	return p
}

// queueOf returns the queue of an endpoint. There are few.
func (l *limiter) queueOf(endpoint string) *queue {
	for _, q := range l.queues {
		if q.endpoint == endpoint {
			return q
		}
	}
	q := &queue{endpoint: endpoint}
	l.queues = append(l.queues, q)
	return q
}

// depart ends what arrive began.
func (p *permit) depart() {
	l := p.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.peer.here--; p.peer.here == 0 && p.peer.credit <= 0 {
		delete(l.peers, p.peer.name)
	}
}

// budget is where the bytes of the request's body count.
func (p *permit) budget() *budget {
	if p.known {
		return p.of.bodies
	}
	return &p.peer.budget
}

// accepted notes that the request brought a new event, and refused that it brought what did not verify.
func (p *permit) accepted(now time.Time) {
	l := p.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.peer.credit <= 0 {
		l.makeRoom()
	}
	p.peer.credit = min(creditMax, max(0, p.peer.credit)+creditAccepted)
	p.peer.until = now.Add(creditLasts)
	l.owe(p.peer.name.network, -p.charged)
	p.charged = 0
}

func (p *permit) refused() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.peer.credit = max(0, p.peer.credit-1)
}

// makeRoom forgets any peer that has no request under way when too many are remembered.
func (l *limiter) makeRoom() {
	if len(l.peers) < maxPeers {
		return
	}
	for name, p := range l.peers {
		if p.here == 0 {
			delete(l.peers, name)
			return
		}
	}
}

// owe adds to the slots that a network owes. When too many networks owe, another one is let off.
func (l *limiter) owe(network netip.Prefix, slots int) {
	debt := min(debtMax, l.debts[network]+slots)
	if debt <= 0 {
		delete(l.debts, network)
		return
	}
	if _, known := l.debts[network]; !known && len(l.debts) >= maxPeers {
		for other := range l.debts {
			delete(l.debts, other)
			break
		}
	}
	l.debts[network] = debt
}

var errSlots = errors.New("too many deliveries wait to be verified")

// acquire waits for a slot to verify in; release must follow when it returns nil.
func (p *permit) acquire(ctx context.Context) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	p.started = p.of.meter.start()
	return nil
}

func (p *permit) wait(ctx context.Context) error {
	l := p.of
	l.mu.Lock()
	line, room, most := p.line()
	if l.free(p) && p.queue.before(line) == 0 {
		l.begin(p)
		l.mu.Unlock()
		return nil
	}
	waiting := &p.queue.wait[line]
	if waiting.Len() >= room || line != lineKnown && p.peer.waiting >= maxFromOnePeer {
		l.mu.Unlock()
		return fail(codeBusy, errSlots)
	}
	w := &waiter{permit: p, ready: make(chan struct{})}
	place := waiting.PushBack(w)
	p.peer.waiting++
	l.mu.Unlock()
	return p.await(ctx, w, waiting, place, most)
}

// line returns the line in which the request waits, how many may wait there, and for how long.
func (p *permit) line() (line, room int, most time.Duration) {
	l := p.of
	network := p.peer.name.network
	switch owes := l.debts[network] > 0; {
	case owes:
		l.owe(network, -1)
	case p.known:
		return lineKnown, maxKnown, knownWait
	case p.peer.waiting == 0:
		return lineFirst, l.perQueue, unknownWait
	}
	return lineMore, l.perQueue, unknownWait
}

// before returns how many wait in the line and in those that go before it.
func (q *queue) before(line int) (n int) {
	for i := range line + 1 {
		n += q.wait[i].Len()
	}
	return n
}

func (p *permit) await(ctx context.Context, w *waiter, waiting *list.List, place *list.Element, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.slot { // it came at the last moment
		return nil
	}
	waiting.Remove(place)
	p.peer.waiting--
	return fail(codeBusy, errSlots)
}

// release gives the slot back, if there is one, and passes it on. What took much processor time makes the peer's network
// owe slots.
func (p *permit) release() {
	if !p.slot {
		return
	}
	l := p.of
	took := l.meter.stop(p.started)
	l.mu.Lock()
	defer l.mu.Unlock()
	if took > expensive {
		slots := int(min(took/expensive, debtMax))
		p.charged += slots
		l.owe(p.peer.name.network, slots)
	}
	p.slot = false
	l.running--
	if !p.known {
		l.taken--
		p.queue.taken--
	}
	l.grant()
}

// waiting is how many requests wait for a slot.
func (l *limiter) waiting() (n int) {
	for _, q := range l.queues {
		n += q.before(lines - 1)
	}
	return n
}

// grant gives slots to those who wait, line by line. In a line, the endpoints take turns.
func (l *limiter) grant() {
	for line := range lines {
		for q := l.next(line); q != nil; q = l.next(line) {
			w := q.wait[line].Remove(q.wait[line].Front()).(*waiter)
			w.permit.peer.waiting--
			l.begin(w.permit)
			close(w.ready)
		}
	}
}

// next returns the next queue with a request in the line that may have a slot, or nil.
func (l *limiter) next(line int) *queue {
	for i := range l.queues {
		at := (l.first[line] + i) % len(l.queues)
		if front := l.queues[at].wait[line].Front(); front != nil && l.free(front.Value.(*waiter).permit) {
			l.first[line] = at + 1
			return l.queues[at]
		}
	}
	return nil
}

// free reports whether there is a slot for the request.
func (l *limiter) free(p *permit) bool {
	return l.running < l.slots && (p.known || l.taken < l.slots-l.kept && p.queue.taken < l.perEndpoint)
}

func (l *limiter) begin(p *permit) {
	p.slot = true
	l.running++
	if !p.known {
		l.taken++
		p.queue.taken++
	}
}
