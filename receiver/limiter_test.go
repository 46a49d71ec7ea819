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

// testLimiter is a limiter of 8 slots, 2 of them kept for known peers, over 1,000 bytes, for so many endpoints. A
// verification costs what its map says for the address.
func testLimiter(endpoints int) *limiter {
	l := newLimiter(&budget{limit: 1000}, 99, endpoints)
	l.share(8, 2, endpoints)
	l.meter = fakeMeter{}
	return l
}

// fakeMeter measures the same for every verification.
type fakeMeter struct{ each time.Duration }

func (fakeMeter) start() time.Duration               { return 0 }
func (m fakeMeter) stop(time.Duration) time.Duration { return m.each }

func (l *limiter) from(addr string) *permit { return l.at("shop", addr) }

func (l *limiter) at(endpoint, addr string) *permit {
	return l.arrive(endpoint, netip.MustParseAddr(addr), time.Now())
}

// acquireAll lets n requests of the address begin, each at once or after a wait.
func acquireAll(l *limiter, n int, addr string) (inside []*permit, waits []chan error) {
	return acquireAt(l, "shop", n, addr)
}

func acquireAt(l *limiter, endpoint string, n int, addr string) (inside []*permit, waits []chan error) {
	for range n {
		p, done := l.at(endpoint, addr), make(chan error, 1)
		go func() { done <- p.acquire(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-done:
			if err == nil {
				inside = append(inside, p)
			}
		default:
			waits = append(waits, done)
		}
	}
	return inside, waits
}

func TestUnknownPeersLeaveSlotsForKnownOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testLimiter(1)
		c.from("192.0.2.1").accepted(time.Now())
		inside, waits := acquireAll(c, 10, "203.0.113.7")
		if len(inside) != 6 || len(waits) != 4 {
			t.Fatalf("%d unknown inside, %d wait", len(inside), len(waits))
		}
		known, more := acquireAll(c, 3, "192.0.2.1")
		if len(known) != 2 || len(more) != 1 {
			t.Fatalf("%d known inside, %d wait", len(known), len(more))
		}
		inside[0].release()
		synctest.Wait()
		select {
		case err := <-more[0]:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("a known peer waits behind unknown ones")
		}
		known[0].release()
		known[1].release()
		inside[1].release()
		synctest.Wait()
		for i, w := range waits {
			select {
			case err := <-w:
				if err != nil || i > 1 {
					t.Errorf("request %d: %v", i, err)
				}
			default:
				if i <= 1 {
					t.Errorf("request %d waits, though there are slots", i)
				}
			}
		}
		time.Sleep(unknownWait + time.Second)
		for _, w := range waits[2:] {
			if err := <-w; failureOf(err).code != codeBusy {
				t.Error(err)
			}
		}
		if c.waiting() != 0 {
			t.Error("a request waits that has gone")
		}
	})
}

func TestOnePeerDoesNotFillTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testLimiter(1)
		inside, waits := acquireAll(c, maxFromOnePeer+20, "203.0.113.7")
		if len(inside) != 6 || len(waits) != maxFromOnePeer {
			t.Errorf("%d inside, %d wait", len(inside), len(waits))
		}
		for i := range 3 {
			_, more := acquireAll(c, maxFromOnePeer, fmt.Sprintf("198.51.100.%d", i))
			waits = append(waits, more...)
		}
		if len(waits) != maxUnknown+4 { // and the first of each address
			t.Errorf("%d requests wait", len(waits))
		}
		// A sender whose connection ended does not wait on.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.from("192.0.2.9").acquire(ctx); failureOf(err).code != codeBusy {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		for _, w := range waits {
			if err := <-w; !errors.Is(err, errSlots) {
				t.Error(err)
			}
		}
	})
}

// After a start no peer is known, and two addresses fill the line. The peer that sends one delivery goes before the rest of
// theirs, and is known from then on.
func TestAfterAStartAFloodKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testLimiter(1)
		inside, waits := acquireAll(c, maxFromOnePeer+6, "203.0.113.7")
		_, more := acquireAll(c, maxFromOnePeer, "203.0.113.8")
		_, honest := acquireAll(c, 1, "192.0.2.1")
		if len(inside) != 6 || len(honest) != 1 {
			t.Fatalf("%d inside, %d honest deliveries wait", len(inside), len(honest))
		}
		for i := range 3 { // the first of either address, and then the honest one
			inside[i].release()
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
		c.from("192.0.2.1").accepted(time.Now())
		if known, _ := acquireAll(c, 1, "192.0.2.1"); len(known) != 1 {
			t.Error("after its first event the sender waits still")
		}
		time.Sleep(time.Minute)
		for _, w := range append(waits, more...) {
			<-w
		}
	})
}

func TestBytesOfUnknownPeersAreShared(t *testing.T) {
	t.Parallel()
	c := testLimiter(1)
	c.from("192.0.2.1").accepted(time.Now())
	take := func(addr string, n int64) bool { return c.from(addr).budget().take(n) }
	switch {
	case !take("203.0.113.1", 250) || take("203.0.113.1", 1):
		t.Error("a peer has more or less than a quarter")
	case !take("203.0.113.2", 250) || !take("203.0.113.3", 250) || take("203.0.113.4", 1):
		t.Error("unknown peers have more or less than three quarters")
	case !take("192.0.2.1", 250) || take("192.0.2.1", 1):
		t.Error("the known have not what is left")
	}
	if got := c.bodies.used.Load(); got != 1000 || c.unknown.used.Load() != 750 {
		t.Errorf("%d bytes in all, %d of unknown peers", got, c.unknown.used.Load())
	}
}

func TestPeersAreKnownForAWhileAndForgotten(t *testing.T) {
	t.Parallel()
	c := testLimiter(1)
	now := time.Unix(1_700_000_000, 0)
	at := func(endpoint, addr string, now time.Time) bool {
		g := c.arrive(endpoint, netip.MustParseAddr(addr), now)
		defer g.depart()
		return g.known
	}
	g := c.arrive("shop", netip.MustParseAddr("2001:db8::1"), now)
	g.accepted(now)
	if g.known {
		t.Error("a peer becomes known while its request is under way")
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
		t.Errorf("%d unknown peers are remembered", len(c.peers))
	}
	g = c.arrive("shop", netip.Addr{}, now)
	g.accepted(now)
	g.depart()
	if g = c.arrive("shop", netip.Addr{}, now.Add(creditLasts+1)); g.known {
		t.Error("credit does not end")
	}
	g.depart()
	for i := range maxPeers + 100 {
		g := c.arrive("shop", netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
		g.accepted(now)
		g.depart()
	}
	if len(c.peers) > maxPeers {
		t.Errorf("%d peers are remembered", len(c.peers))
	}
}

// Eight addresses send what is expensive to verify to one endpoint without a pause. Unknown senders of another endpoint
// have a slot at once, and the flood never has more than its part.
func TestAFloodAtOneEndpointLeavesSlotsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLimiter(5)
		l.meter = fakeMeter{650 * time.Millisecond}
		var flood []*permit
		var waits []chan error
		for i := range 8 {
			inside, more := acquireAt(l, "costly", 50, fmt.Sprintf("203.0.113.%d", i))
			flood, waits = append(flood, inside...), append(waits, more...)
		}
		if len(flood) != 2 || l.taken != 2 {
			t.Fatalf("the flood has %d slots", len(flood))
		}
		for i := range 12 {
			addr := fmt.Sprintf("192.0.2.%d", i)
			cold, wait := acquireAt(l, "github", 1, addr)
			if len(cold) != 1 {
				t.Fatalf("unknown sender %d of another endpoint waits: %d", i, len(wait))
			}
			l.meter = fakeMeter{}
			cold[0].release()
			l.meter = fakeMeter{650 * time.Millisecond}
		}
		for range 4 { // another flood has its own part, and there is still one slot of six for a third endpoint
			acquireAt(l, "other", 1, "198.51.100.1")
		}
		if third, _ := acquireAt(l, "third", 3, "198.51.100.2"); len(third) != 2 {
			t.Errorf("a third endpoint has %d slots", len(third))
		}
		time.Sleep(time.Minute)
		for _, w := range waits {
			if err := <-w; !errors.Is(err, errSlots) {
				t.Fatal(err)
			}
		}
	})
}

// The room to wait is shared in the same way.
func TestAFloodAtOneEndpointLeavesRoomToWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLimiter(2)
		_, waits := acquireAt(l, "costly", 300, "203.0.113.1")
		_, more := acquireAt(l, "costly", 300, "203.0.113.2")
		waits = append(waits, more...)
		if len(waits) > maxUnknown/endpointShare+2 {
			t.Errorf("%d requests of one endpoint wait", len(waits))
		}
		acquireAt(l, "other", 2, "198.51.100.1")
		if _, wait := acquireAt(l, "other", 10, "198.51.100.1"); len(wait) != 10 {
			t.Errorf("%d requests of another endpoint wait, want 10", len(wait))
		} else {
			waits = append(waits, wait...)
		}
		time.Sleep(time.Minute)
		for _, w := range waits {
			<-w
		}
	})
}

// A peer that made us compute for 65 ms waits in the last line six times, also where it is known or the first of its
// address. A new event pays for itself.
func TestAnExpensiveVerificationCostsItsPeerTheNextSlots(t *testing.T) {
	t.Parallel()
	l := testLimiter(1)
	l.from("192.0.2.1").accepted(time.Now())
	lineOf := func(addr string) int {
		line, _, _ := l.from(addr).line()
		return line
	}
	verify := func(addr string, cost time.Duration) *permit {
		p := l.from(addr)
		if err := p.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.meter = fakeMeter{cost}
		p.release()
		return p
	}
	for addr, credit := range map[string]int{"192.0.2.1": lineKnown, "203.0.113.1": lineFirst, "2001:db8::1": lineFirst} {
		verify(addr, 65*time.Millisecond)
		for i := range 6 {
			if line := lineOf(addr); line != lineMore {
				t.Errorf("%s: request %d is in line %d", addr, i, line)
			}
		}
		if line := lineOf(addr); line != credit {
			t.Errorf("%s: after its debt it is in line %d, want %d", addr, line, credit)
		}
		verify(addr, expensive)
		if line := lineOf(addr); line != credit {
			t.Errorf("%s: a cheap verification costs a slot", addr)
		}
		verify(addr, 65*time.Millisecond).accepted(time.Now())
		if line := lineOf(addr); line != lineKnown {
			t.Errorf("%s: a new event costs a slot: line %d", addr, line)
		}
	}
	verify("2001:db8::1", time.Hour)
	if line := lineOf("2001:db8::2"); line != lineMore || l.debts[networkOf(netip.MustParseAddr("2001:db8::3"))] != debtMax-1 {
		t.Errorf("the network owes %v, and is in line %d", l.debts, line)
	}
	if line, _, _ := l.at("other", "2001:db8::1").line(); line != lineMore {
		t.Error("the debt ends at another endpoint")
	}
	for i := range maxPeers + 10 {
		l.owe(networkOf(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})), 1)
	}
	if len(l.debts) > maxPeers {
		t.Errorf("%d debts are remembered", len(l.debts))
	}
}

// In the last line, a peer that owes a slot goes behind one that does not, at the same endpoint.
func TestAPeerThatOwesWaitsBehindOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLimiter(1)
		l.owe(networkOf(netip.MustParseAddr("203.0.113.7")), 2)
		inside, _ := acquireAll(l, 6, "198.51.100.1")
		_, owing := acquireAll(l, 1, "203.0.113.7")
		_, honest := acquireAll(l, 1, "192.0.2.1")
		inside[0].release()
		synctest.Wait()
		select {
		case err := <-honest[0]:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the request waits behind a peer that owes slots")
		}
		time.Sleep(time.Minute)
		if err := <-owing[0]; !errors.Is(err, errSlots) {
			t.Error(err)
		}
	})
}

func TestTheMeterMeasuresTheGoroutine(t *testing.T) {
	t.Parallel()
	m := threadMeter{}
	began := m.start()
	sum := 0
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		sum++
	}
	if took := m.stop(began); took <= 0 || took > time.Minute || sum == 0 {
		t.Errorf("measured %v", took)
	}
}
