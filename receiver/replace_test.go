package receiver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/memstore"
	"github.com/eyelet-dev/eyelet/producer"
)

// replace replaces the receiver of the site by one with a changed configuration.
func (s *site) replace(change func(*Config)) *Receiver {
	s.t.Helper()
	c := s.rx.cfg
	c.Producers = []producer.Producer{s.p}
	change(&c)
	next, err := s.rx.Replace(c)
	if err != nil {
		s.t.Fatal(err)
	}
	old, oldServer := s.rx, s.srv // the cleanup of the site closes the last one
	s.t.Cleanup(func() {
		oldServer.Close()
		if err := old.Close(); err != nil {
			s.t.Error("close:", err)
		}
	})
	s.rx, s.srv = next, httptest.NewServer(next.Handler())
	return next
}

func (s *site) state(id string) string {
	s.t.Helper()
	for _, r := range s.records() {
		if r.Key.ID == id {
			return r.State().String() + " " + r.Tasks[0].Reason
		}
	}
	return "unknown"
}

func TestReplaceCarriesOverWhatSendersUsed(t *testing.T) {
	t.Parallel()
	p := webhookProducer()
	p.Rate = producer.Rate{Events: 3, Per: time.Hour}
	s := serve(t, p, nil)
	old := s.rx
	send := func(id string, want int) {
		t.Helper()
		if g := s.send(req{id: id, body: id}); g.status != want {
			t.Errorf("%s: %d, want %d: %s", id, g.status, want, g.body)
		}
	}
	send("1", http.StatusOK)
	send("2", http.StatusOK)
	if known := s.rx.limiter.Known(time.Now()); len(known) != 1 {
		t.Fatal("the peer is not known:", known)
	}
	next := s.replace(func(c *Config) { c.BodyBudget = DefaultBodyBudget / 2 })
	if known := next.limiter.Known(time.Now()); len(known) != 1 || next.limiter != old.limiter {
		t.Error("the known peers are lost:", known)
	}
	send("3", http.StatusOK)
	send("4", http.StatusTooManyRequests)
	next = s.replace(func(c *Config) { c.Producers[0].Rate = producer.Rate{} })
	send("5", http.StatusOK)
	if next.endpoints["shop"].quota != nil {
		t.Error("a rate that was removed still counts")
	}
}

// TestReplaceKeepsTheBudgetOfBodiesInUse holds most of the budget in the old receiver.
func TestReplaceKeepsTheBudgetOfBodiesInUse(t *testing.T) {
	t.Parallel()
	p := apiProducer()
	s := serve(t, p, func(c *Config) { c.BodyBudget = 1 << 20 })
	conn, err := net.Dial("tcp", s.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	part := head("/webhooks/shop", "Content-Length: 1048000", "", strings.Repeat("x", 1_047_500))
	if _, err := io.WriteString(conn, part); err != nil {
		t.Fatal(err)
	}
	next := s.replace(func(c *Config) { c.MaxBody = 1 << 20 })
	waitFor(t, func() bool { return next.limiter.Usage().Bodies > 1_047_000 })
	// The server has read all of a body this short: what it left unread would reset the connection.
	more := req{id: "k1", body: strings.Repeat("x", 2000)}
	if g := s.send(more); g.status != http.StatusServiceUnavailable {
		t.Errorf("beside a body of the old receiver: %+v", g)
	}
	_ = conn.Close()
	waitFor(t, func() bool { return next.limiter.Usage().Bodies == 0 })
	if g := s.send(more); g.status != http.StatusAccepted {
		t.Errorf("afterwards: %+v", g)
	}
}

func TestReplaceRefusesMistakesAndChangesNothing(t *testing.T) {
	t.Parallel()
	runs := newCounter()
	s := serve(t, webhookProducer(), nil, On("shop", "*", func(context.Context, Event[[]byte]) error {
		runs.add()
		return nil
	}))
	c := s.rx.cfg
	c.Attempts, c.Hosts = -1, []string{"a/b"}
	_, err := s.rx.Replace(c)
	if err == nil || !strings.Contains(err.Error(), "attempts") || !strings.Contains(err.Error(), "a/b") {
		t.Error("not every mistake is reported:", err)
	}
	c = s.rx.cfg
	c.Store = memstore.New(memstore.Options{})
	if _, err := s.rx.Replace(c); err == nil || !strings.Contains(err.Error(), "store") {
		t.Error("another store:", err)
	}
	s.send(req{id: "1", body: "1"})
	runs.await(t)
}

func TestReplaceMakesTasksOfOrphanedHandlersDeadLetters(t *testing.T) {
	t.Parallel()
	fails := On("shop", "*", func(context.Context, Event[[]byte]) error { return errBoom })
	s := serve(t, webhookProducer(), nil, fails)
	s.send(req{id: "1", body: "1"})
	s.replace(func(c *Config) { c.Handlers = []Handler{fails.Orphaned()} })
	waitFor(t, func() bool { return s.state("1") == "dead "+reasonGone })
	s.send(req{id: "2", body: "2"})
	for _, r := range s.records() {
		if r.Key.ID == "2" && len(r.Tasks) != 0 {
			t.Error("an orphaned handler got a new event")
		}
	}
}

// TestReplaceHandsTheWorkersOver: a handler that runs is finished by the old receiver, which takes
// no other task, and a handler that was removed finishes its tasks.
func TestReplaceHandsTheWorkersOver(t *testing.T) {
	t.Parallel()
	began, finish := make(chan string, 10), make(chan struct{})
	var fails atomic.Bool
	fails.Store(true)
	slow := On("shop", "slow", func(_ context.Context, ev Event[[]byte]) error {
		began <- ev.ID
		<-finish
		return nil
	})
	removed := On("shop", "removed", func(context.Context, Event[[]byte]) error {
		if fails.Load() {
			return errBoom
		}
		return nil
	})
	s := serve(t, webhookProducer(), func(c *Config) {
		c.Workers, c.OrphanAfter, c.BackoffCap = 1, -1, 10*time.Millisecond
	}, slow, removed)
	old := s.rx
	s.send(req{id: "fails", body: "fails", typ: "removed"})
	waitFor(t, func() bool { return strings.HasSuffix(s.state("fails"), reasonFailed) })
	s.send(req{id: "first", body: "first", typ: "slow"})
	<-began
	for i := range 3 {
		s.send(req{id: fmt.Sprint("waits", i), body: fmt.Sprint(i), typ: "slow"})
	}
	ran := newCounter()
	s.replace(func(c *Config) {
		c.Handlers = []Handler{removed.Retired(), On("shop", "slow", func(context.Context, Event[[]byte]) error {
			ran.add()
			return nil
		})}
	})
	select {
	case <-old.workers.taking:
	default:
		t.Error("the old receiver still takes tasks")
	}
	for range 3 {
		ran.await(t)
	}
	if got := s.state("first"); !strings.HasPrefix(got, "running") {
		t.Errorf("the running handler: %s", got)
	}
	fails.Store(false)
	waitFor(t, func() bool { return s.state("fails") == "done " })
	s.send(req{id: "later", body: "later", typ: "removed"})
	for _, r := range s.records() {
		if r.Key.ID == "later" && len(r.Tasks) != 0 {
			t.Error("a retired handler got a new event")
		}
	}
	close(finish)
	if err := old.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.state("first"); got != "done " || len(began) > 0 {
		t.Errorf("first is %q, and the old receiver took %d more", got, len(began))
	}
}
