package receiver

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
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

	stage  stage
	places [2]place // in the lines of its groups

	head      int64 // bytes read since the last request
	headPlace place // among the incomplete heads

	requests, verified int
	refused            int // deliveries in a row

	// awaits and partial can be read without the lock: there is no request, and head is counted.
	awaits, partial atomic.Bool
}

// newConn returns the connection of a Listener. It is not counted yet.
func newConn(c net.Conn, of *Listener) *conn {
	out := &conn{Conn: c, of: of, groups: []*group{of.all}}
	out.headPlace.conn = out
	for i := range out.places {
		out.places[i].conn = out
	}
	return out
}

// Read counts what is read while there is no request: it belongs to a head.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.awaits.Load() {
		c.of.countHead(c, int64(n))
	}
	return n, err
}

// Write ends the count of a head: a response follows a complete one.
func (c *conn) Write(p []byte) (int, error) {
	if c.partial.Load() {
		c.of.mu.Lock()
		c.settleHead()
		c.of.mu.Unlock()
		if end := bytes.Index(p, []byte("\r\nContent-Type: ")); bytes.HasPrefix(p, []byte("HTTP/1.1 4")) && end > 0 {
			if err := c.writeDated(p, end); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return c.Conn.Write(p)
}

// writeDated adds Date (RFC 9110 section 6.6.1) at the end of a line of a response. Those that
// net/http makes to a head that it refuses have none.
func (c *conn) writeDated(p []byte, end int) error {
	if !bytes.Contains(p, []byte("\r\nDate: ")) {
		date := "\r\nDate: " + time.Now().UTC().Format(http.TimeFormat)
		p = slices.Concat(p[:end], []byte(date), p[end:])
	}
	_, err := c.Conn.Write(p)
	return err
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

// line holds connections in the order in which they joined. The zero line is empty. Joining one
// allocates nothing, because each request makes its connection change lines several times.
type line struct{ oldest, newest *place }

// place is the place of a connection in a line, in one at a time.
type place struct {
	conn         *conn
	in           *line // nil for none
	older, newer *place
}

// join makes the place the newest of a line.
func (p *place) join(l *line) {
	p.leave()
	p.in, p.older = l, l.newest
	if l.newest == nil {
		l.oldest = p
	} else {
		l.newest.newer = p
	}
	l.newest = p
}

// leave removes the place from its line, if it is in one.
func (p *place) leave() {
	if p.in == nil {
		return
	}
	if p.older == nil {
		p.in.oldest = p.newer
	} else {
		p.older.newer = p.newer
	}
	if p.newer == nil {
		p.in.newest = p.older
	} else {
		p.newer.older = p.older
	}
	p.in, p.older, p.newer = nil, nil, nil
}

// countHead counts bytes of a head. When there are too many, it closes the connections with the
// oldest incomplete heads.
func (l *Listener) countHead(c *conn, n int64) {
	l.mu.Lock()
	if !c.counted || c.requests > 0 {
		l.mu.Unlock()
		return
	}
	if !c.partial.Load() {
		c.partial.Store(true)
		c.headPlace.join(&l.heads)
		c.moveTo(stageWaiting) // it is no longer idle
	}
	c.head += n
	l.headBytes += n
	var closing []*conn
	for l.headBytes > l.limits.HeadBytes {
		first := l.heads.oldest.conn
		l.remove(first)
		l.closed.HeadBytes++
		closing = append(closing, first)
	}
	l.mu.Unlock()
	closeAll(closing)
}

// settleHead ends the count of a head that is complete or will not be.
func (c *conn) settleHead() {
	c.partial.Store(false)
	c.headPlace.leave()
	c.of.headBytes -= c.head
	c.head = 0
}

// moveTo puts the connection at the end of the lines of a stage.
func (c *conn) moveTo(to stage) {
	c.stage = to
	for i, g := range c.groups {
		if to == stageVerified {
			c.places[i].leave()
		} else {
			c.places[i].join(&g.lines[to])
		}
	}
}

// update sets the stage after a request began, was verified, or ended.
func (c *conn) update() {
	to := stageWaiting
	switch {
	case c.verified > 0:
		to = stageVerified
	case c.requests > 0:
		to = stageUnverified
	}
	c.awaits.Store(c.counted && c.requests == 0)
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
func (at *connRequest) verified() { at.change(at.verify) }

func (at *connRequest) verify(c *conn) {
	if !at.isVerified {
		at.isVerified = true
		c.verified++
	}
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
	at.change(func(c *conn) {
		at.verify(c)
		c.refused = 0
	})
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
	at.conn.update()
}

// peerOf returns the address of a connection's peer; the zero address outside of a network.
func peerOf(c net.Conn) netip.Addr {
	if remote := c.RemoteAddr(); remote != nil {
		return parseAddr(remote.String())
	}
	return netip.Addr{}
}
