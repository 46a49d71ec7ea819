package receiver

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
)

// maxRefusals is how many deliveries in a row a connection may bring that fail before they are
// authenticated. Honest senders need no more, and closing the connection also drops the HTTP/2
// state of earlier fields.
const maxRefusals = 4

// stage is the state of a connection: that of the most advanced of its requests.
type stage int

const (
	stageWaiting    stage = iota // no request: idle, in a TLS handshake, or with an incomplete head
	stageUnverified              // requests, none of them verified
	stageVerified                // a verified request; the connection is in no line
)

// conn is a connection of a Listener, whose lock protects its fields.
type conn struct {
	net.Conn
	of      *Listener
	groups  []*group
	proxy   bool // a trusted one
	counted bool

	stage stage
	elems []*list.Element // in the lines of its groups

	head     int64 // bytes read since the last request
	headElem *list.Element

	requests, verified int
	refused            int // deliveries in a row
}

// Read counts what is read while there is no request: it belongs to a head.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.of.countHead(c, int64(n))
	}
	return n, err
}

// Write ends the count of a head: a response follows a complete one.
func (c *conn) Write(p []byte) (int, error) {
	c.of.mu.Lock()
	c.settleHead()
	c.of.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes one direction, as net/http does before it closes a connection whose client
// still sends.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// LocalAddr leads back to the connection: net/http puts it into the context of each request,
// also through TLS and HTTP/2.
func (c *conn) LocalAddr() net.Addr { return connAddr{c.Conn.LocalAddr(), c} }

type connAddr struct {
	net.Addr
	conn *conn
}

// countHead counts bytes of a head. When there are too many, it closes the connections with the
// oldest incomplete heads.
func (l *Listener) countHead(c *conn, n int64) {
	l.mu.Lock()
	if !c.counted || c.requests > 0 {
		l.mu.Unlock()
		return
	}
	if c.headElem == nil {
		c.headElem = l.heads.PushBack(c)
		c.moveTo(stageWaiting) // it is no longer idle
	}
	c.head += n
	l.headBytes += n
	var closing []*conn
	for l.headBytes > l.limits.HeadBytes {
		first := l.heads.Front().Value.(*conn)
		l.remove(first)
		l.closed.HeadBytes++
		closing = append(closing, first)
	}
	l.mu.Unlock()
	closeAll(closing)
}

// settleHead ends the count of a head that is complete or will not be.
func (c *conn) settleHead() {
	if c.headElem == nil {
		return
	}
	c.of.heads.Remove(c.headElem)
	c.of.headBytes -= c.head
	c.head, c.headElem = 0, nil
}

// moveTo puts the connection at the end of the lines of a stage.
func (c *conn) moveTo(to stage) {
	for i, elem := range c.elems {
		c.groups[i].lines[c.stage].Remove(elem)
	}
	c.stage, c.elems = to, nil
	if to == stageVerified {
		return
	}
	for _, g := range c.groups {
		c.elems = append(c.elems, g.lines[to].PushBack(c))
	}
}

// updateStage sets the stage after a request began, was verified, or ended.
func (c *conn) updateStage() {
	to := stageWaiting
	switch {
	case c.verified > 0:
		to = stageVerified
	case c.requests > 0:
		to = stageUnverified
	}
	if c.counted && to != c.stage {
		c.moveTo(to)
	}
}

// connRequest is a request on its connection. Its methods do nothing for a connection without a
// Listener.
type connRequest struct {
	conn       *conn
	isVerified bool // one of those for which the connection must stay
}

// trackRequest records that a request began; end must follow.
func trackRequest(ctx context.Context) connRequest {
	address, _ := ctx.Value(http.LocalAddrContextKey).(connAddr)
	at := connRequest{conn: address.conn}
	at.change(func(c *conn) {
		c.settleHead()
		c.requests++
	})
	return at
}

// verified marks the request as one for which the connection must stay.
func (at *connRequest) verified() {
	if at.isVerified {
		return
	}
	at.isVerified = true
	at.change(func(c *conn) { c.verified++ })
}

func (at *connRequest) end() {
	at.change(func(c *conn) {
		c.requests--
		if at.isVerified {
			c.verified--
		}
	})
}

// authentic records that a delivery was authenticated, which resets the count of refusals.
func (at *connRequest) authentic() {
	at.verified()
	at.change(func(c *conn) { c.refused = 0 })
}

// refused records that a delivery failed before it was authenticated, and reports whether the
// connection must be closed.
func (at *connRequest) refused() (last bool) {
	at.change(func(c *conn) {
		c.refused++
		last = c.refused >= maxRefusals && !c.proxy
	})
	return last
}

func (at *connRequest) change(f func(*conn)) {
	if at.conn == nil {
		return
	}
	l := at.conn.of
	l.mu.Lock()
	defer l.mu.Unlock()
	f(at.conn)
	at.conn.updateStage()
}

// peerOf returns the address of a connection's peer; the zero address outside of a network.
func peerOf(c net.Conn) netip.Addr {
	if remote := c.RemoteAddr(); remote != nil {
		return parseAddr(remote.String())
	}
	return netip.Addr{}
}
