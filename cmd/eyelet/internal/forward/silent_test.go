package forward

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// TestADeadConnectionIsClosed: attempts that time out do not close an HTTP/2 connection. Without
// pings a target that moved behind its address would be unreachable until TCP notices.
func TestADeadConnectionIsClosed(t *testing.T) {
	t.Parallel()
	f := newFar(t, says(200))
	f.EnableHTTP2 = true
	f.StartTLS()
	target := to(t, f.URL, func(c *Config) { c.Timeout = 10 * time.Second })
	trust(t, target, f)
	transport := target.transport
	if transport.HTTP2 == nil || transport.HTTP2.SendPingTimeout == 0 || transport.HTTP2.PingTimeout == 0 {
		t.Fatal("no pings are configured")
	}
	transport.HTTP2.SendPingTimeout, transport.HTTP2.PingTimeout = 20*time.Millisecond, 500*time.Millisecond
	w := &wires{dial: transport.DialContext}
	transport.DialContext = w.connect
	accepted := func(key string) { // a busy machine may answer a ping too late, but not each time
		t.Helper()
		for tries := 0; ; tries++ {
			if r := deliver(t, target, key); r.Outcome == Accepted {
				return
			} else if tries == 4 {
				want(t, r, Accepted, 200)
				return
			}
		}
	}
	accepted("1")
	w.cut()
	want(t, deliver(t, target, "2"), Transient, 0)
	accepted("2")
}

// wires makes connections that can be cut silently.
type wires struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	mu   sync.Mutex
	made []*wire
}

type wire struct {
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
	made := &wire{conn, make(chan struct{})}
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

// Write always reports success.
func (w *wire) Write(b []byte) (int, error) {
	select {
	case <-w.cut:
		return len(b), nil
	default:
		return w.Conn.Write(b)
	}
}
