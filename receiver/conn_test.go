package receiver

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
)

// conns returns the connections of a line in both directions, a hundred at most: a broken line may
// have no end.
func (l *line) conns() (forward, backward []*conn) {
	for p := l.oldest; p != nil && len(forward) < 100; p = p.newer {
		forward = append(forward, p.conn)
	}
	for p := l.newest; p != nil && len(backward) < 100; p = p.older {
		backward = append(backward, p.conn)
	}
	return forward, backward
}

// Places join and leave two lines at random, beside slices.
func TestLinesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var lines [2]line
	var model [2][]*conn
	places := make([]place, 8)
	for i := range places {
		places[i].conn = &conn{}
	}
	for step := range 10_000 {
		p, to := &places[rand.IntN(len(places))], rand.IntN(3)
		for i := range model {
			model[i] = slices.DeleteFunc(model[i], func(c *conn) bool { return c == p.conn })
		}
		if to == 2 {
			p.leave()
		} else {
			p.join(&lines[to])
			model[to] = append(model[to], p.conn)
		}
		for i := range lines {
			forward, backward := lines[i].conns()
			slices.Reverse(backward)
			if !slices.Equal(forward, model[i]) || !slices.Equal(backward, model[i]) {
				t.Fatalf("step %d: line %d has %v and %v, want %v", step, i, forward, backward, model[i])
			}
		}
	}
}

func TestRequestsMoveTheirConnectionWithoutAllocations(t *testing.T) {
	ln := Listen(newWires(), Limits{})
	client, server := net.Pipe()
	defer client.Close() //nolint:errcheck // in memory
	c := ln.admit(wire{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:1"))})
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, c.LocalAddr())
	if n := testing.AllocsPerRun(100, func() {
		ln.countHead(c, 100)
		at := trackRequest(ctx)
		at.authentic()
		at.end()
	}); n > 0 || counted(ln) > 0 {
		t.Errorf("%v allocations, and %d bytes of heads are counted", n, counted(ln))
	}
}
