package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// testCrowd is a crowd of 8 turns, 2 of them kept for the known, over 1,000 bytes.
func testCrowd() *crowd {
	c := newCrowd(&budget{limit: 1000}, 99)
	c.turns, c.kept = 8, 2
	return c
}

func (c *crowd) from(addr string) *guest {
	return c.arrive("shop", netip.MustParseAddr(addr), time.Now())
}

// enterAll lets n guests of the address begin, each at once or after a wait.
func enterAll(c *crowd, n int, addr string) (inside []*guest, waits []chan error) {
	for range n {
		g, done := c.from(addr), make(chan error, 1)
		go func() { done <- g.enter(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-done:
			if err == nil {
				inside = append(inside, g)
			}
		default:
			waits = append(waits, done)
		}
	}
	return inside, waits
}

func TestStrangersLeaveTurnsForTheKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testCrowd()
		c.from("192.0.2.1").welcome(time.Now())
		inside, waits := enterAll(c, 10, "203.0.113.7")
		if len(inside) != 6 || len(waits) != 4 {
			t.Fatalf("%d strangers inside, %d wait", len(inside), len(waits))
		}
		known, more := enterAll(c, 3, "192.0.2.1")
		if len(known) != 2 || len(more) != 1 {
			t.Fatalf("%d known inside, %d wait", len(known), len(more))
		}
		inside[0].leave()
		synctest.Wait()
		select {
		case err := <-more[0]:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("a known peer waits behind strangers")
		}
		known[0].leave()
		known[1].leave()
		inside[1].leave()
		synctest.Wait()
		for i, w := range waits {
			select {
			case err := <-w:
				if err != nil || i > 1 {
					t.Errorf("stranger %d: %v", i, err)
				}
			default:
				if i <= 1 {
					t.Errorf("stranger %d waits, though there are turns", i)
				}
			}
		}
		time.Sleep(strangerWait + time.Second)
		for _, w := range waits[2:] {
			if err := <-w; failureOf(err).code != codeBusy {
				t.Error(err)
			}
		}
		if c.waiting() != 0 {
			t.Error("somebody waits who has gone")
		}
	})
}

func TestOnePeerDoesNotFillTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testCrowd()
		inside, waits := enterAll(c, maxFromOnePeer+20, "203.0.113.7")
		if len(inside) != 6 || len(waits) != maxFromOnePeer {
			t.Errorf("%d inside, %d wait", len(inside), len(waits))
		}
		for i := range 3 {
			_, more := enterAll(c, maxFromOnePeer, fmt.Sprintf("198.51.100.%d", i))
			waits = append(waits, more...)
		}
		if len(waits) != maxStrangers+4 { // and the first of each address
			t.Errorf("%d strangers wait", len(waits))
		}
		// A sender whose connection ended does not wait on.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.from("192.0.2.9").enter(ctx); failureOf(err).code != codeBusy {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		for _, w := range waits {
			if err := <-w; !errors.Is(err, errCrowd) {
				t.Error(err)
			}
		}
	})
}

// TestAfterAStartAFloodKeepsNobodyOut: nobody is known yet, and two addresses fill the line. Who sends one delivery
// goes before the rest of theirs, and is known from then on.
func TestAfterAStartAFloodKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testCrowd()
		inside, waits := enterAll(c, maxFromOnePeer+6, "203.0.113.7")
		_, more := enterAll(c, maxFromOnePeer, "203.0.113.8")
		_, honest := enterAll(c, 1, "192.0.2.1")
		if len(inside) != 6 || len(honest) != 1 {
			t.Fatalf("%d inside, %d honest deliveries wait", len(inside), len(honest))
		}
		for i := range 3 { // the first of either address, and then the honest one
			inside[i].leave()
		}
		synctest.Wait()
		select {
		case err := <-honest[0]:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("an honest delivery waits behind the flood")
		}
		c.from("192.0.2.1").welcome(time.Now())
		if known, _ := enterAll(c, 1, "192.0.2.1"); len(known) != 1 {
			t.Error("after its first event the sender waits still")
		}
		time.Sleep(time.Minute)
		for _, w := range append(waits, more...) {
			<-w
		}
	})
}

func TestBytesOfStrangersAreShared(t *testing.T) {
	t.Parallel()
	c := testCrowd()
	c.from("192.0.2.1").welcome(time.Now())
	take := func(addr string, n int64) bool { return c.from(addr).budget().take(n) }
	switch {
	case !take("203.0.113.1", 250) || take("203.0.113.1", 1):
		t.Error("a peer has more or less than a quarter")
	case !take("203.0.113.2", 250) || !take("203.0.113.3", 250) || take("203.0.113.4", 1):
		t.Error("strangers have more or less than three quarters")
	case !take("192.0.2.1", 250) || take("192.0.2.1", 1):
		t.Error("the known have not what is left")
	}
	if got := c.bodies.used.Load(); got != 1000 || c.unknown.used.Load() != 750 {
		t.Errorf("%d bytes in all, %d of strangers", got, c.unknown.used.Load())
	}
}

func TestPeersAreKnownForAWhileAndForgotten(t *testing.T) {
	t.Parallel()
	c := testCrowd()
	now := time.Unix(1_700_000_000, 0)
	at := func(endpoint, addr string, now time.Time) bool {
		g := c.arrive(endpoint, netip.MustParseAddr(addr), now)
		defer g.depart()
		return g.known
	}
	g := c.arrive("shop", netip.MustParseAddr("2001:db8::1"), now)
	g.welcome(now)
	if g.known {
		t.Error("a guest changes its kind while it is here")
	}
	g.depart()
	if !at("shop", "2001:db8::2", now) || at("shop", "2001:db8:0:1::1", now) || at("other", "2001:db8::1", now) {
		t.Error("known are the network and the endpoint, and nobody else")
	}
	for range creditAccepted {
		g := c.arrive("shop", netip.MustParseAddr("2001:db8::1"), now)
		g.refused()
		g.depart()
	}
	if at("shop", "2001:db8::1", now) {
		t.Error("a peer that only floods is known still")
	}
	if len(c.peers) != 0 {
		t.Errorf("%d strangers are remembered", len(c.peers))
	}
	g = c.arrive("shop", netip.Addr{}, now)
	g.welcome(now)
	g.depart()
	if g = c.arrive("shop", netip.Addr{}, now.Add(creditLasts+1)); g.known {
		t.Error("credit does not end")
	}
	g.depart()
	for i := range maxPeers + 100 {
		g := c.arrive("shop", netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
		g.welcome(now)
		g.depart()
	}
	if len(c.peers) > maxPeers {
		t.Errorf("%d peers are remembered", len(c.peers))
	}
}
