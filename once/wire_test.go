package once_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
)

// wire makes connections to the server, and cuts one once at its next commit.
type wire struct {
	armed   atomic.Bool
	reaches atomic.Bool // the server gets the commit, and only its answer is lost
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wiredConn{Conn: c, wire: w}, nil
}

type wiredConn struct {
	net.Conn
	wire *wire
	cut  atomic.Bool
}

// Write loses a commit, or passes it on and lets its answer be lost.
func (c *wiredConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) && c.wire.armed.Swap(false) {
		if !c.wire.reaches.Load() {
			_ = c.Close()
			return 0, net.ErrClosed
		}
		c.cut.Store(true)
	}
	return c.Conn.Write(b)
}

// Read waits for the answer to a commit, and loses it.
func (c *wiredConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cut.Load() {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}
