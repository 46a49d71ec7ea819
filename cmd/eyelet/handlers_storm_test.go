package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore"
	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/pgtest"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver"
)

const (
	stormLanes       = 40
	stormConcurrency = 8
	stormBreaker     = 6
)

// mortal is a store that can end as its process would: what a receiver does then has no effect.
type mortal struct {
	dedup.Store
	dead atomic.Bool
}

func (m *mortal) alive() error {
	if m.dead.Load() {
		return dedup.ErrClosed
	}
	return nil
}

func (m *mortal) Take(ctx context.Context, want dedup.Want) ([]dedup.Work, error) {
	works, err := m.Store.Take(ctx, want)
	return works, errors.Join(err, m.alive())
}

func (m *mortal) Extend(ctx context.Context, l dedup.Lease, d time.Duration) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.Extend(ctx, l, d)
}

func (m *mortal) FinishMany(ctx context.Context, results ...dedup.LeaseResult) []error {
	if err := m.alive(); err != nil {
		errs := make([]error, len(results))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return m.Store.FinishMany(ctx, results...)
}

func (m *mortal) ChangeNote(ctx context.Context, k dedup.Key, change func(string) (string, error)) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.ChangeNote(ctx, k, change)
}

// storm is a handler under control, and what it saw.
type storm struct {
	*testing.T
	rate   producer.Rate
	down   atomic.Bool
	mu     sync.Mutex
	lanes  map[string]int // the last event of each that was handled
	wrong  []string
	left   int
	counts map[string]int
}

func (s *storm) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// member is a receiver of the storm.
type member struct {
	rx      *receiver.Receiver
	store   *mortal
	running atomic.Int64
	started atomic.Int64
	began   time.Time
}

func (s *storm) join(store dedup.Store) *member {
	s.Helper()
	m := &member{store: &mortal{Store: store}, began: time.Now()}
	h := receiver.On("shop", "*", func(_ context.Context, ev receiver.Event[[]byte]) error {
		m.started.Add(1)
		if n := m.running.Add(1); n > stormConcurrency {
			s.count("too many at once")
		}
		defer m.running.Add(-1)
		return s.handle(m, string(ev.Data))
	})
	h = h.Named("h").Concurrency(stormConcurrency).Rate(s.rate).Breaker(stormBreaker)
	rx, err := receiver.Open(receiver.Config{
		Store: m.store, Handlers: []receiver.Handler{h}, Logger: slog.New(slog.DiscardHandler), Workers: 16,
		Producers: []producer.Producer{{
			Name: "shop", AllowedIPs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Key: producer.Header("Id"),
		}},
		Attempts: 100_000, BackoffBase: time.Millisecond, BackoffCap: 20 * time.Millisecond, Lease: 2 * time.Second,
	})
	check(s.T, err)
	m.rx = rx
	return m
}

// handle handles an event, whose body is its lane and its number in it.
func (s *storm) handle(m *member, body string) error {
	lane, number, _ := strings.Cut(body, " ")
	n, _ := strconv.Atoi(number)
	if rand.IntN(50) == 0 {
		return errors.New("now and then")
	}
	if s.down.Load() {
		return errors.New("down")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch last := s.lanes[lane]; {
	case m.store.dead.Load(): // its process is gone
	case n == last+1:
		s.lanes[lane] = n
		s.left--
	case n != last: // once more, after a kill
		s.wrong = append(s.wrong, fmt.Sprintf("lane %s: %d after %d", lane, n, last))
	}
	return nil
}

// kill ends a receiver as the death of its process would, and checks its rate.
func (s *storm) kill(m *member) {
	s.Helper()
	m.store.dead.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.rx.Shutdown(ctx)
	most := float64(s.rate.Burst) + time.Since(m.began).Seconds()*float64(s.rate.Events)
	if n := m.started.Load(); float64(n) > most+1 {
		s.Errorf("%d starts, want at most %.0f", n, most)
	}
	s.count("kills")
}

func (s *storm) accept(store dedup.Store, n int) {
	s.Helper()
	for begin := 0; begin < n; begin += 100 {
		var claims []dedup.Claim
		for i := begin; i < min(begin+100, n); i++ {
			lane := strconv.Itoa(i % stormLanes)
			body := fmt.Appendf(nil, "%s %d", lane, i/stormLanes+1)
			claims = append(claims, dedup.Claim{
				Key: dedup.Key{Principal: "shop", Endpoint: "shop", ID: strconv.Itoa(i)}, Window: time.Hour,
				Payload: dedup.Payload{Producer: "shop", Endpoint: "shop", Type: "x", Body: body},
				Tasks:   []dedup.NewTask{{Handler: "h", Lane: lane}},
			})
		}
		_, err := store.Claim(s.Context(), claims...)
		check(s.T, err)
	}
}

// run lets receivers on the stores handle n events through pauses, failures and kills.
func (s *storm) run(n int, stores ...dedup.Store) {
	s.Helper()
	s.lanes, s.counts, s.left = map[string]int{}, map[string]int{}, n
	s.accept(stores[0], n)
	began := time.Now()
	members := make([]*member, len(stores))
	for i, store := range stores {
		members[i] = s.join(store)
	}
	left := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.left
	}
	for left() > 0 && !s.Failed() {
		i := rand.IntN(len(members))
		rx, long := members[i].rx, time.Duration(rand.IntN(100))*time.Millisecond
		switch rand.IntN(12) {
		case 0, 1:
			check(s.T, rx.Pause(s.Context(), "h", "a storm"))
			s.count("pauses")
			time.Sleep(long)
			check(s.T, members[rand.IntN(len(members))].rx.Resume(s.Context(), "h"))
		case 2:
			s.down.Store(true)
			time.Sleep(2 * long)
			s.down.Store(false)
		case 3:
			s.kill(members[i])
			members[i] = s.join(stores[i])
		default:
			time.Sleep(long)
		}
		rx = members[i].rx
		if h := rx.Controls()[0]; h.By == receiver.ByBreaker { // sooner than by itself
			s.count("trips")
			check(s.T, rx.Resume(s.Context(), "h"))
		}
	}
	for _, m := range members {
		s.kill(m)
	}
	s.settled(n, stores[0])
	if s.counts["too many at once"] > 0 || len(s.wrong) > 0 {
		s.Errorf("%v, out of order: %v", s.counts, s.wrong)
	}
	figures, _ := json.Marshal(s.counts)
	s.Logf("%d events, %d receivers, %s, in %s", n, len(stores), figures, time.Since(began).Round(time.Second))
}

// settled requires that the store has all events, and that each was handled: the outcomes that were
// lost with their receiver are those of the next one.
func (s *storm) settled(n int, store dedup.Store) {
	s.Helper()
	m := s.join(store)
	defer s.kill(m)
	check(s.T, m.rx.Resume(s.Context(), "h"))
	eventually(s.T, "no task is open", func() bool {
		st, err := store.Stats(s.Context())
		check(s.T, err)
		return st.Pending+st.Running == 0
	})
	states := map[string]int{}
	for r, err := range store.List(s.Context(), dedup.Filter{}) {
		check(s.T, err)
		states[r.State().String()]++
	}
	if states["done"] != n || len(states) != 1 {
		s.Errorf("the store has %v, want %d done", states, n)
	}
}

// stormOf returns the number of events and the rate of each receiver.
func stormOf(t *testing.T) (*storm, int) {
	t.Parallel()
	if os.Getenv("EYELET_LONG") != "" {
		return &storm{T: t, rate: producer.Rate{Events: 3000, Burst: 300}}, 100_000
	}
	return &storm{T: t, rate: producer.Rate{Events: 600, Burst: 50}}, 1000
}

func TestNothingIsLostInAStormOnDisk(t *testing.T) {
	s, n := stormOf(t)
	store, err := badgerstore.Open(t.TempDir(), badgerstore.Options{Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	defer func() { check(t, store.Close()) }()
	s.run(n, store)
}

func TestNothingIsLostInAStormOfThreeReceivers(t *testing.T) {
	dsn := pgtest.DSN(t)
	s, n := stormOf(t)
	schema := fmt.Sprintf("storm %d-%d", os.Getpid(), schemas.Add(1))
	check(t, pgstore.Migrate(t.Context(), dsn, schema))
	var stores []dedup.Store
	for range 3 {
		store, err := pgstore.Open(t.Context(), dsn, pgstore.Options{Schema: schema})
		check(t, err)
		defer func() { check(t, store.Close()) }()
		stores = append(stores, store)
	}
	s.run(n, stores...)
}
