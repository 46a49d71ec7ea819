package forward

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// TestAConnectionThatLeadsNowhereIsLeft: a connection of HTTP/2 is not closed by the attempts that end on it, so
// without signs of life a target that moved behind its address would be out of reach until TCP notices.
func TestAConnectionThatLeadsNowhereIsLeft(t *testing.T) {
	t.Parallel()
	f := newFar(t, says(200))
	f.EnableHTTP2 = true
	f.StartTLS()
	target := to(t, f.URL, func(c *Config) { c.Timeout = 20 * time.Second })
	trust(t, target, f)
	transport := target.transport
	if transport.HTTP2 == nil || transport.HTTP2.SendPingTimeout == 0 || transport.HTTP2.PingTimeout == 0 {
		t.Fatal("no sign of life is asked for")
	}
	transport.HTTP2.SendPingTimeout, transport.HTTP2.PingTimeout = 20*time.Millisecond, 50*time.Millisecond
	w := &wires{dial: transport.DialContext}
	transport.DialContext = w.connect
	want(t, deliver(t, target, "1"), Accepted, 200)
	w.cut()
	want(t, deliver(t, target, "2"), Transient, 0)
	want(t, deliver(t, target, "2"), Accepted, 200)
}

// wires makes connections that can be made to lead nowhere, without anybody being told.
type wires struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	mu   sync.Mutex
	made []*transport
}

type transport struct {
	net.Conn
	cut chan struct{}
}

func (w *wires) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	made := &transport{conn, make(chan struct{})}
	w.made = append(w.made, made)
	return made, nil
}

func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, made := range w.made {
		close(made.cut)
	}
}

// Write says that it wrote, whatever comes of it.
func (w *transport) Write(b []byte) (int, error) {
	select {
	case <-w.cut:
		return len(b), nil
	default:
		return w.Conn.Write(b)
	}
}
