package receiver

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// stallingStore commits claims while it stalls, without returning.
type stallingStore struct {
	dedup.Store
	stalls atomic.Bool
}

func (s *stallingStore) Claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	decisions, err := s.Store.Claim(ctx, claims...)
	if !s.stalls.Load() {
		return decisions, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestStalledStoreIs503AndTheRetryGetsTheOutcome(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, p producer.Producer) {
		stalling := &stallingStore{}
		s := serve(t, p, func(c *Config) {
			stalling.Store, c.Store = c.Store, stalling
			c.StoreTimeout = 50 * time.Millisecond
		})
		stalling.stalls.Store(true)
		wantProblem(t, s.send(req{id: "k1", body: "1"}), 503, "store_unavailable")
		stalling.stalls.Store(false)
		if g := s.send(req{id: "k1", body: "1"}); g.status/100 != 2 || !g.replayed() {
			t.Errorf("it was stored, and the retry got %+v", g)
		}
		if n := len(s.records()); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}
