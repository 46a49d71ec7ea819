// Package admission bounds what requests may use of a receiver: verifications and bytes of
// bodies while they are unauthenticated ([Limiter]), events and slots of a producer afterwards
// ([Quota]), and requests in flight ([InFlight]). It knows nothing of HTTP.
package admission

import (
	"container/list"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/internal/sender"
)

// The bounds of the limiter. Verification is mostly arithmetic, so more than a few at once for
// each CPU only compete for time; some more allow for key sets that have to be fetched.
const (
	slotsPerCPU    = 4
	maxUnknown     = 1024            // requests of unknown peers that wait in each line
	maxFromOnePeer = 512             // of them
	maxKnown       = 4096            // requests of known peers that wait
	unknownWait    = 2 * time.Second // then [ErrBusy]
	knownWait      = 5 * time.Second

	// endpointShare is the divisor of what unknown peers share, for one of several endpoints.
	endpointShare = 3

	// A verification that takes more processor time than expensive costs its peer the next slot
	// for each such time.
	expensive = 10 * time.Millisecond
	debtMax   = 64
)

// A peer is known while it has credit. A new event earns much of it and a refused delivery
// costs a little: an honest sender that shares its address with a flood stays known while it
// sends one in nine deliveries.
const (
	CreditAccepted = 8 // for a new event
	creditMax      = 64
	creditLasts    = time.Hour
	maxPeers       = 10_000 // known peers that are remembered, and networks that owe slots
)

// Limiter bounds what unauthenticated clients can use: concurrent verifications, and the bytes
// of bodies that are buffered for them. A share of both is reserved for known peers (they
// recently delivered a new event to the same endpoint), which are served first. Of the rest,
// one peer and one endpoint may use only a part.
//
// Cost counts: a peer whose verification took much processor time yields its next slots to
// others, whatever its credit. The cost of a new event is forgiven. Of a known
// peer, the verifications after one that took long are measured.
//
// After a restart the peers that were saved are known, with half their credit. Unknown peers
// with nothing queued go before those with requests waiting, so a few busy addresses cannot
// starve the rest: with its first new event a peer is known.
//
// A peer is a network address, or for IPv6 the /64. Behind a proxy that is not trusted all
// senders are one peer.
type Limiter struct {
	slots, reserved int     // verifications at once, and how many of them only known peers may use
	perEndpoint     int     // slots of the unknown peers of one endpoint
	perQueue        int     // requests of unknown peers that wait in each line of one endpoint
	bodies          *budget // of all peers
	unknown         *budget // of unknown peers, within bodies
	perPeer         int64   // bytes of one unknown peer, within unknown
	meter           meter

	mu             sync.Mutex
	running        int
	runningUnknown int // of running
	queues         []*queue
	first          [lines]int // the queue that each line looks at first: endpoints take turns
	peers          map[peerName]*peer
	debts          map[netip.Prefix]int // slots that networks owe
}

// The lines in which requests wait for a slot. The first line goes first.
const (
	lineKnown = iota
	lineFirst // unknown peers that had no other request waiting
	lineMore  // other requests of unknown peers, and those of peers that owe slots
	lines
)

// queue holds the requests of one endpoint that wait.
type queue struct {
	endpoint string
	running  int              // requests of its unknown peers that have a slot
	wait     [lines]list.List // of *waiter
}

// peerName is an address at an endpoint.
type peerName struct {
	endpoint string
	network  netip.Prefix
}

// peer is forgotten when it has neither a request in flight nor credit.
type peer struct {
	name     peerName
	budget   budget // of its bodies while it is unknown
	requests int    // in flight
	waiting  int
	credit   int
	until    time.Time // when the credit ends
	costly   int       // how many of its next verifications are measured exactly
}

// budget bounds bytes.
type budget struct {
	limit  atomic.Int64
	used   atomic.Int64
	parent *budget // the budget that it is a part of; nil for the whole
}

// take counts n more bytes, or returns false when they do not fit.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit.Load() || b.parent != nil && !b.parent.take(n) {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) release(n int64) {
	b.used.Add(-n)
	if b.parent != nil {
		b.parent.release(n)
	}
}

// meter measures what a verification costs. One goroutine calls start and stop in turn, and no
// other pair of calls comes between them.
type meter interface {
	// start begins a measurement. One that is not exact may count the time that passes.
	start(exact bool) time.Duration
	// stop returns the time used since start returned since.
	stop(since time.Duration, exact bool) time.Duration
}

// threadMeter measures the processor time of the goroutine where the system can.
type threadMeter struct{}

var processStart = time.Now()

// passed is the time that passes. It is never less than the processor time, and it costs much less
// to read.
func passed() time.Duration { return time.Since(processStart) }

// NewLimiter returns a limiter for so many endpoints. bodies is how many bytes of unverified
// bodies may be held at once. largest is the largest body that any producer may send; one
// unknown peer may hold at least that.
func NewLimiter(bodies, largest int64, endpoints int) *Limiter {
	all := &budget{}
	l := &Limiter{
		bodies: all, unknown: &budget{parent: all},
		meter: threadMeter{}, peers: map[peerName]*peer{}, debts: map[netip.Prefix]int{},
	}
	l.Resize(bodies, largest, endpoints)
	return l
}

// Resize sets the bounds, which are those of NewLimiter. Requests that are admitted stay so.
func (l *Limiter) Resize(bodies, largest int64, endpoints int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slots := max(8, slotsPerCPU*runtime.GOMAXPROCS(0))
	largest++ // a buffer has one byte more than the body, to see its end
	l.bodies.limit.Store(bodies)
	l.unknown.limit.Store(max(bodies/4*3, largest))
	l.perPeer = max(bodies/4, largest)
	for _, p := range l.peers {
		p.budget.limit.Store(l.perPeer)
	}
	l.setSlots(slots, slots/4, endpoints)
}

// setSlots sets the number of slots and how many of them are reserved for known peers.
func (l *Limiter) setSlots(slots, reserved, endpoints int) {
	l.slots, l.reserved = slots, reserved
	l.perEndpoint, l.perQueue = slots-reserved, maxUnknown
	if endpoints > 1 {
		l.perEndpoint, l.perQueue = max(1, l.perEndpoint/endpointShare), maxUnknown/endpointShare
	}
}

// Usage is what requests use of a limiter.
type Usage struct {
	Bodies, UnknownBodies int64 // bytes
	Running, Peers        int
}

// Usage returns what is in use now.
func (l *Limiter) Usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Usage{l.bodies.used.Load(), l.unknown.used.Load(), l.running, len(l.peers)}
}

// Admit registers a request; [Permit.Release] must follow. The permit must not be copied once it
// is used.
func (l *Limiter) Admit(endpoint string, addr netip.Addr, now time.Time) Permit {
	name := peerName{endpoint, sender.Network(addr)}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers[name]
	if p == nil {
		p = l.newPeer(name)
	}
	p.requests++
	if p.credit > 0 && now.After(p.until) {
		p.credit = 0
	}
	return Permit{limiter: l, peer: p, queue: l.queueOf(endpoint), known: p.credit > 0}
}

func (l *Limiter) newPeer(name peerName) *peer {
	p := &peer{name: name, budget: budget{parent: l.unknown}}
	p.budget.limit.Store(l.perPeer)
	l.peers[name] = p
	return p
}

// queueOf returns the queue of an endpoint. There are few.
func (l *Limiter) queueOf(endpoint string) *queue {
	if i := slices.IndexFunc(l.queues, func(q *queue) bool { return q.endpoint == endpoint }); i >= 0 {
		return l.queues[i]
	}
	q := &queue{endpoint: endpoint}
	l.queues = append(l.queues, q)
	return q
}

// evictPeer forgets any peer without a request in flight when too many are remembered.
func (l *Limiter) evictPeer() {
	if len(l.peers) < maxPeers {
		return
	}
	for name, p := range l.peers {
		if p.requests == 0 {
			delete(l.peers, name)
			return
		}
	}
}

// owe adds to the slots that a network owes. When too many networks owe, another one is forgiven.
func (l *Limiter) owe(network netip.Prefix, slots int) {
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

// before returns how many requests wait in the line and in those that go before it.
func (q *queue) before(line int) (n int) {
	for i := range line + 1 {
		n += q.wait[i].Len()
	}
	return n
}

// grant gives free slots to waiting requests, line by line. Within a line the endpoints take turns.
func (l *Limiter) grant() {
	for line := range lines {
		for q := l.next(line); q != nil; q = l.next(line) {
			w := q.wait[line].Remove(q.wait[line].Front()).(*waiter)
			w.permit.peer.waiting--
			l.occupy(w.permit)
			close(w.ready)
		}
	}
}

// next returns the next queue with a request in the line that may have a slot, or nil.
func (l *Limiter) next(line int) *queue {
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
func (l *Limiter) free(p *Permit) bool {
	return l.running < l.slots &&
		(p.known || l.runningUnknown < l.slots-l.reserved && p.queue.running < l.perEndpoint)
}

func (l *Limiter) occupy(p *Permit) {
	p.slot = true
	l.running++
	if !p.known {
		l.runningUnknown++
		p.queue.running++
	}
}
