package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eyelet-dev/eyelet/internal/sender"
)

// testLimiter has 8 slots, 2 of them reserved for known peers, and 1,000 bytes. Verifications
// cost nothing.
func testLimiter(endpoints int) *Limiter {
	l := NewLimiter(1000, 99, endpoints)
	l.setSlots(8, 2, endpoints)
	l.meter = fakeMeter{}
	return l
}

// fakeMeter measures the same cost for every verification.
type fakeMeter struct{ each time.Duration }

func (fakeMeter) start(bool) time.Duration                 { return 0 }
func (m fakeMeter) stop(time.Duration, bool) time.Duration { return m.each }

func (l *Limiter) from(addr string) *Permit { return l.at("shop", addr) }

func (l *Limiter) at(endpoint, addr string) *Permit {
	p := l.Admit(endpoint, netip.MustParseAddr(addr), time.Now())
	return &p
}

// waiting returns how many requests wait for a slot.
func (l *Limiter) waiting() (n int) {
	for _, q := range l.queues {
		n += q.before(lines - 1)
	}
	return n
}

// acquireAll acquires slots for n requests of the address, and returns those that have one and
// those that wait.
func acquireAll(l *Limiter, n int, addr string) (inside []*Permit, waits []chan error) {
	return acquireAt(l, "shop", n, addr)
}

func acquireAt(l *Limiter, endpoint string, n int, addr string) (inside []*Permit, waits []chan error) {
	for range n {
		p, done := l.at(endpoint, addr), make(chan error, 1)
		go func() { done <- p.Acquire(context.Background()) }()
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

// granted fails the test unless the waiting request got its slot.
func granted(t *testing.T, wait chan error, failure string) {
	t.Helper()
	select {
	case err := <-wait:
		if err != nil {
			t.Error(err)
		}
	default:
		t.Error(failure)
	}
}

func TestUnknownPeersLeaveSlotsForKnownOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testLimiter(1)
		c.from("192.0.2.1").Credit(time.Now())
		inside, waits := acquireAll(c, 10, "203.0.113.7")
		if len(inside) != 6 || len(waits) != 4 {
			t.Fatalf("%d unknown inside, %d wait", len(inside), len(waits))
		}
		known, more := acquireAll(c, 3, "192.0.2.1")
		if len(known) != 2 || len(more) != 1 {
			t.Fatalf("%d known inside, %d wait", len(known), len(more))
		}
		inside[0].Yield()
		synctest.Wait()
		granted(t, more[0], "a known peer waits behind unknown peers")
		known[0].Yield()
		known[1].Yield()
		inside[1].Yield()
		synctest.Wait()
		for i, w := range waits {
			select {
			case err := <-w:
				if err != nil || i > 1 {
					t.Errorf("request %d: %v", i, err)
				}
			default:
				if i <= 1 {
					t.Errorf("request %d waits, although slots are free", i)
				}
			}
		}
		time.Sleep(unknownWait + time.Second)
		for _, w := range waits[2:] {
			if err := <-w; !errors.Is(err, ErrBusy) {
				t.Error(err)
			}
		}
		if c.waiting() != 0 {
			t.Error("a request that has ended still waits")
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
		// A request whose connection ended no longer waits.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.from("192.0.2.9").Acquire(ctx); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		for _, w := range waits {
			if err := <-w; !errors.Is(err, ErrBusy) {
				t.Error(err)
			}
		}
	})
}

// After a start no peer is known, and two addresses fill the line. A peer with one delivery goes
// before the rest of theirs, and is known from then on.
func TestAfterAStartAFloodKeepsNoSenderOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testLimiter(1)
		inside, waits := acquireAll(c, maxFromOnePeer+6, "203.0.113.7")
		_, more := acquireAll(c, maxFromOnePeer, "203.0.113.8")
		_, honest := acquireAll(c, 1, "192.0.2.1")
		if len(inside) != 6 || len(honest) != 1 {
			t.Fatalf("%d inside, %d honest deliveries wait", len(inside), len(honest))
		}
		for i := range 3 { // the first of each address, then the honest one
			inside[i].Yield()
		}
		synctest.Wait()
		granted(t, honest[0], "an honest delivery waits behind the flood")
		c.from("192.0.2.1").Credit(time.Now())
		if known, _ := acquireAll(c, 1, "192.0.2.1"); len(known) != 1 {
			t.Error("the sender still waits after its first event")
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
	c.from("192.0.2.1").Credit(time.Now())
	take := func(addr string, n int64) bool { return c.from(addr).budget().take(n) }
	switch {
	case !take("203.0.113.1", 250) || take("203.0.113.1", 1):
		t.Error("a peer has more or less than a quarter")
	case !take("203.0.113.2", 250) || !take("203.0.113.3", 250) || take("203.0.113.4", 1):
		t.Error("unknown peers have more or less than three quarters")
	case !take("192.0.2.1", 250) || take("192.0.2.1", 1):
		t.Error("known peers have more or less than the rest")
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
		g := c.Admit(endpoint, netip.MustParseAddr(addr), now)
		defer g.Release()
		return g.known
	}
	g := c.Admit("shop", netip.MustParseAddr("2001:db8::1"), now)
	g.Credit(now)
	if g.known {
		t.Error("a peer became known during its request")
	}
	g.Release()
	if !at("shop", "2001:db8::2", now) || at("shop", "2001:db8:0:1::1", now) || at("other", "2001:db8::1", now) {
		t.Error("exactly the network must be known, at its endpoint")
	}
	for range CreditAccepted {
		g := c.Admit("shop", netip.MustParseAddr("2001:db8::1"), now)
		g.Debit()
		g.Release()
	}
	if at("shop", "2001:db8::1", now) {
		t.Error("a peer that only floods is still known")
	}
	if len(c.peers) != 0 {
		t.Errorf("%d unknown peers are remembered", len(c.peers))
	}
	g = c.Admit("shop", netip.Addr{}, now)
	g.Credit(now)
	g.Release()
	if g = c.Admit("shop", netip.Addr{}, now.Add(creditLasts+1)); g.known {
		t.Error("credit does not end")
	}
	g.Release()
	for i := range maxPeers + 100 {
		g := c.Admit("shop", netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
		g.Credit(now)
		g.Release()
	}
	if len(c.peers) > maxPeers {
		t.Errorf("%d peers are remembered", len(c.peers))
	}
}

// Eight addresses flood one endpoint with expensive deliveries. Unknown senders of another
// endpoint get a slot at once, and the flood never gets more than its share.
func TestAFloodAtOneEndpointLeavesSlotsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLimiter(5)
		l.meter = fakeMeter{650 * time.Millisecond}
		var flood []*Permit
		var waits []chan error
		for i := range 8 {
			inside, more := acquireAt(l, "costly", 50, fmt.Sprintf("203.0.113.%d", i))
			flood, waits = append(flood, inside...), append(waits, more...)
		}
		if len(flood) != 2 || l.runningUnknown != 2 {
			t.Fatalf("the flood has %d slots", len(flood))
		}
		for i := range 12 {
			addr := fmt.Sprintf("192.0.2.%d", i)
			cold, wait := acquireAt(l, "github", 1, addr)
			if len(cold) != 1 {
				t.Fatalf("unknown sender %d of another endpoint waits: %d", i, len(wait))
			}
			l.meter = fakeMeter{}
			cold[0].Yield()
			l.meter = fakeMeter{650 * time.Millisecond}
		}
		for range 4 { // another flood has its own share, and a slot remains for a third endpoint
			acquireAt(l, "other", 1, "198.51.100.1")
		}
		if third, _ := acquireAt(l, "third", 3, "198.51.100.2"); len(third) != 2 {
			t.Errorf("a third endpoint has %d slots", len(third))
		}
		time.Sleep(time.Minute)
		for _, w := range waits {
			if err := <-w; !errors.Is(err, ErrBusy) {
				t.Fatal(err)
			}
		}
	})
}

// The queues are shared in the same way.
func TestAFloodAtOneEndpointLeavesQueuesForOthers(t *testing.T) {
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

// A peer whose verification took 65 ms waits in the last line six times, even if it is known or
// the first of its address. The cost of a new event is forgiven. What the first long verification
// of a known peer costs is not known exactly.
func TestAnExpensiveVerificationCostsItsPeerTheNextSlots(t *testing.T) {
	t.Parallel()
	l := testLimiter(1)
	l.from("192.0.2.1").Credit(time.Now())
	lineOf := func(addr string) int {
		line, _, _ := l.from(addr).line()
		return line
	}
	verify := func(addr string, cost time.Duration) *Permit {
		p := l.from(addr)
		if err := p.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.meter = fakeMeter{cost}
		p.Yield()
		return p
	}
	verify("192.0.2.1", time.Hour)
	if line := lineOf("192.0.2.1"); line != lineKnown {
		t.Errorf("the first long verification costs a slot: line %d", line)
	}
	for addr, credit := range map[string]int{"192.0.2.1": lineKnown, "203.0.113.1": lineFirst,
		"2001:db8::1": lineFirst} {
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
		verify(addr, 65*time.Millisecond).Credit(time.Now())
		if line := lineOf(addr); line != lineKnown {
			t.Errorf("%s: a new event costs a slot: line %d", addr, line)
		}
	}
	verify("2001:db8::1", time.Hour) // it is known now
	verify("2001:db8::1", time.Hour)
	if line := lineOf("2001:db8::2"); line != lineMore ||
		l.debts[sender.Network(netip.MustParseAddr("2001:db8::3"))] != debtMax-1 {
		t.Errorf("the network owes %v, and is in line %d", l.debts, line)
	}
	if line, _, _ := l.at("other", "2001:db8::1").line(); line != lineMore {
		t.Error("the debt ends at another endpoint")
	}
	for i := range maxPeers + 10 {
		l.owe(sender.Network(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})), 1)
	}
	if len(l.debts) > maxPeers {
		t.Errorf("%d debts are remembered", len(l.debts))
	}
}

// At the same endpoint, a peer that owes a slot waits behind one that does not.
func TestAPeerThatOwesWaitsBehindOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := testLimiter(1)
		l.owe(sender.Network(netip.MustParseAddr("203.0.113.7")), 2)
		inside, _ := acquireAll(l, 6, "198.51.100.1")
		_, owing := acquireAll(l, 1, "203.0.113.7")
		_, honest := acquireAll(l, 1, "192.0.2.1")
		inside[0].Yield()
		synctest.Wait()
		granted(t, honest[0], "the request waits behind a peer that owes slots")
		time.Sleep(time.Minute)
		if err := <-owing[0]; !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	})
}

func TestTheMeterMeasuresTheGoroutine(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{true, false} {
		began, sum := threadMeter{}.start(exact), 0
		for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
			sum++
		}
		if took := (threadMeter{}).stop(began, exact); took <= 0 || took > time.Minute || sum == 0 {
			t.Errorf("measured %v, exact: %t", took, exact)
		}
	}
}

// After a long verification, those of a known peer are measured exactly until enough were cheap.
func TestAKnownPeerIsMeasuredAfterALongVerification(t *testing.T) {
	t.Parallel()
	l := testLimiter(1)
	l.from("192.0.2.1").Credit(time.Now())
	verify := func(addr string, cost time.Duration) (exact bool) {
		p := l.from(addr)
		l.meter = fakeMeter{cost}
		if err := p.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Yield()
		return p.exact
	}
	if !verify("203.0.113.1", 0) || verify("192.0.2.1", expensive) || verify("192.0.2.1", expensive+1) {
		t.Error("an unknown peer is not measured, or a cheap known one is")
	}
	for range debtMax {
		if !verify("192.0.2.1", expensive) {
			t.Fatal("an expensive peer is not measured")
		}
	}
	if verify("192.0.2.1", 0) {
		t.Error("a cheap peer is measured")
	}
}
