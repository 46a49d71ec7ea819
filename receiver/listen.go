package receiver

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"

	"github.com/eyelet-dev/eyelet/internal/descriptors"
	"github.com/eyelet-dev/eyelet/internal/sender"
)

// Limits bounds the connections of a [Listener]. Fields of zero or less have their defaults.
type Limits struct {
	// Connections is how many connections may be open at once. Defaults to [DefaultConnections].
	Connections int
	// PerAddress is how many of them one address may have; an IPv6 /64 counts as one. Defaults
	// to an eighth of Connections.
	PerAddress int
	// TrustedProxies are peers that bring the requests of many clients: PerAddress does not
	// bound them, and refusals do not close their connections. Defaults to none.
	TrustedProxies []netip.Prefix
	// HeadBytes bounds the bytes of incomplete request heads on all connections together.
	// http.Server.MaxHeaderBytes bounds a single head. Defaults to 32 MiB.
	HeadBytes int64
}

// The defaults of [Limits].
const (
	maxConnections   = 8192
	connectionsShare = 8   // divisor of all connections, for one address
	descriptorsKept  = 512 // of the process, for everything but connections
	DefaultHeadBytes = 32 << 20
)

// DefaultConnections is how many connections a [Listener] has at once by default: half of the
// file descriptors of the process beyond 512, or a quarter of all if that is more, and at most
// 8,192. The rest is for the store, for connections of handlers, and for connections that are
// just being closed.
func DefaultConnections() int { return connectionsOf(descriptors.Limit()) }

func connectionsOf(descriptors int) int {
	return max(1, min(maxConnections, max((descriptors-descriptorsKept)/2, descriptors/4)))
}

// WithDefaults returns the limits with the defaults of unset fields.
func (l Limits) WithDefaults() Limits {
	if l.Connections <= 0 {
		l.Connections = DefaultConnections()
	}
	if l.PerAddress <= 0 {
		l.PerAddress = max(1, l.Connections/connectionsShare)
	}
	if l.HeadBytes <= 0 {
		l.HeadBytes = DefaultHeadBytes
	}
	return l
}

// Listener is a net.Listener with bounds on its connections; [Listen] makes one.
//
// At a bound it closes the connection that has waited longest among those that are idle or have
// an incomplete head. If there is none, it closes the one that has waited longest among those
// with an unverified request, and else the new one. It never closes a connection with a verified
// request, and Accept never waits for a connection to end.
type Listener struct {
	net.Listener
	limits Limits

	mu        sync.Mutex
	all       *group
	addresses map[netip.Prefix]*group
	heads     line // connections with an incomplete head
	headBytes int64
	closed    ClosedConnections
}

// ListenerStats are the counts of a [Listener].
type ListenerStats struct {
	Open   int               // connections that are open
	Closed ClosedConnections // because of a bound
}

// ClosedConnections counts the connections that a [Listener] closed, by the bound that was reached.
type ClosedConnections struct {
	Connections, PerAddress, HeadBytes uint64 // the bounds of [Limits]
	Descriptors                        uint64 // the limit of the operating system on open files
}

// group holds the open connections of an address, or all.
type group struct {
	network netip.Prefix // the zero prefix for all
	open    int
	lines   [stageVerified]line // connections that may be closed, by their stage
}

// oldest returns the connection to close first; nil if none may be closed.
func (g *group) oldest() *conn {
	for i := range g.lines {
		if first := g.lines[i].oldest; first != nil {
			return first.conn
		}
	}
	return nil
}

// Listen bounds the connections of ln. It is for one http.Server, with or without TLS and HTTP/2:
//
//	http.Serve(receiver.Listen(ln, receiver.Limits{}), rx.Handler())
//
// Handlers of a [Receiver] find the connection of a request in its context
// (http.LocalAddrContextKey, whose value therefore is not a *net.TCPAddr) and report the result
// of the request to the listener. With the fourth delivery in a row that fails before it is
// authenticated (400 or 401), the connection is closed. Wrap other handlers of the same server
// with [Listener.Handler].
func Listen(ln net.Listener, l Limits) *Listener {
	return &Listener{Listener: ln, limits: l.WithDefaults(), all: &group{}, addresses: map[netip.Prefix]*group{}}
}

// Handler returns a handler that keeps the connection of a request open while next serves it.
// Handlers of a [Receiver] do not need it.
func (l *Listener) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := trackRequest(r.Context())
		at.verified()
		defer at.end()
		next.ServeHTTP(w, r)
	})
}

// SetLimits sets other limits, with their defaults. They apply to connections from then on: those
// that are open stay.
func (l *Listener) SetLimits(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits.WithDefaults()
}

// Stats returns the counts of the listener.
func (l *Listener) Stats() ListenerStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ListenerStats{Open: l.all.open, Closed: l.closed}
}

// Accept implements net.Listener. At a bound it closes another connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			if outOfDescriptors(err) && l.closeOldest() {
				continue
			}
			return nil, err
		}
		if c := l.admit(accepted); c != nil {
			return c, nil
		}
		_ = accepted.Close()
	}
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// closeOldest closes a connection to free its descriptor, and reports whether there was one to
// close.
func (l *Listener) closeOldest() bool {
	l.mu.Lock()
	var closing []*conn
	ok := l.evict(l.all, l.all.open, &l.closed.Descriptors, &closing)
	l.mu.Unlock()
	closeAll(closing)
	return ok && len(closing) > 0
}

// admit counts a connection. It returns nil if there is no capacity and no other connection may
// be closed.
func (l *Listener) admit(accepted net.Conn) *conn {
	c := newConn(accepted, l)
	peer := peerOf(accepted)
	var closing []*conn
	defer func() { closeAll(closing) }()
	l.mu.Lock()
	defer l.mu.Unlock()
	c.proxy = within(peer, l.limits.TrustedProxies)
	if peer.IsValid() && !c.proxy {
		network := sender.Network(peer)
		address := l.addresses[network]
		if address == nil {
			address = &group{network: network}
		}
		if !l.evict(address, l.limits.PerAddress, &l.closed.PerAddress, &closing) {
			return nil
		}
		c.groups = append(c.groups, address)
	}
	if !l.evict(l.all, l.limits.Connections, &l.closed.Connections, &closing) {
		return nil
	}
	c.counted = true
	for _, g := range c.groups {
		g.open++
		if g.network.IsValid() {
			l.addresses[g.network] = g
		}
	}
	c.awaits.Store(true)
	c.moveTo(stageWaiting)
	return c
}

// evict removes connections from a group until it has less than most, and reports whether it
// does. The caller must close the removed ones, without the lock.
func (l *Listener) evict(g *group, most int, counter *uint64, closing *[]*conn) bool {
	for g.open >= most {
		*counter++
		c := g.oldest()
		if c == nil {
			return false
		}
		l.remove(c)
		*closing = append(*closing, c)
	}
	return true
}

func closeAll(closing []*conn) {
	for _, c := range closing {
		_ = c.Conn.Close() // it may have ended already
	}
}

// remove removes a connection from its groups and lines; a second call does nothing.
func (l *Listener) remove(c *conn) {
	if !c.counted {
		return
	}
	c.moveTo(stageVerified) // which is in no line
	c.settleHead()
	c.counted = false
	c.awaits.Store(false)
	for _, g := range c.groups {
		if g.open--; g.open == 0 {
			delete(l.addresses, g.network)
		}
	}
}
