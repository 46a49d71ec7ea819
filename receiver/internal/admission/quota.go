package admission

import (
	"math"
	"sync"
	"time"
)

// Rate is a number of events per time. The zero rate means unlimited.
type Rate struct {
	Events int
	Per    time.Duration
	Burst  int
}

// Quota bounds what one producer may use of the receiver: events per time, and deliveries at
// once. Take from it only after verification, else unauthenticated clients could use it up.
//
// The rate is a token bucket. It is not golang.org/x/time/rate because tokens must be returned:
// only the store knows whether a delivery is a duplicate, and repeating a captured delivery
// must not use up the quota.
type Quota struct {
	rate        Rate
	concurrency int // zero is unlimited

	mu      sync.Mutex
	tokens  float64
	at      time.Time // when tokens was right
	running int
}

// NewQuota returns a quota, or nil when nothing is limited.
func NewQuota(rate Rate, concurrency int) *Quota {
	if rate.Events == 0 && concurrency == 0 {
		return nil
	}
	return &Quota{rate: rate, concurrency: concurrency, tokens: float64(rate.Burst)}
}

// Resize returns the quota with other bounds, or nil when nothing is limited any more. Events
// and deliveries of before the change still count.
func (q *Quota) Resize(rate Rate, concurrency int) *Quota {
	if q == nil || rate.Events == 0 && concurrency == 0 {
		return NewQuota(rate, concurrency)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rate.Events == 0 {
		q.tokens = float64(rate.Burst) // nothing was counted before
	}
	q.tokens = min(q.tokens, float64(rate.Burst))
	q.rate, q.concurrency = rate, concurrency
	return q
}

// Running returns the number of slots in use.
func (q *Quota) Running() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running
}

// Begin takes a slot. It returns false when all slots are in use.
func (q *Quota) Begin() (Share, bool) {
	if q == nil {
		return Share{}, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.concurrency > 0 && q.running >= q.concurrency {
		return Share{}, false
	}
	q.running++
	return Share{quota: q, slot: true}, true
}

func (q *Quota) take(n int, now time.Time) (wait time.Duration, left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.rate.Events == 0 {
		return 0, 0
	}
	price := float64(min(n, q.rate.Burst))
	if wait = q.until(price, now); wait == 0 {
		q.tokens -= price
	}
	return wait, int(q.tokens)
}

// until returns how long until there are so many tokens; zero if there are.
func (q *Quota) until(price float64, now time.Time) time.Duration {
	if since := now.Sub(q.at); since > 0 && !q.at.IsZero() { // a clock that goes backwards adds no tokens
		q.tokens = min(float64(q.rate.Burst), q.tokens+float64(q.rate.Events)*float64(since)/float64(q.rate.Per))
	}
	q.at = now
	if q.tokens >= price {
		return 0
	}
	missing := (price - q.tokens) * float64(q.rate.Per) / float64(q.rate.Events)
	return max(1, time.Duration(math.Ceil(missing)))
}

// Free returns for how many events of one delivery each there are slots and tokens, and if there is
// no token, how long until there is one.
func (q *Quota) Free(now time.Time) (n int, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = math.MaxInt
	if q.rate.Events > 0 {
		wait = q.until(1, now)
		n = int(q.tokens)
	}
	if q.concurrency > 0 {
		n = min(n, max(0, q.concurrency-q.running))
	}
	return n, wait
}

// refund returns the tokens of n events.
func (q *Quota) refund(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens = min(float64(q.rate.Burst), q.tokens+float64(min(n, q.rate.Burst)))
}

// Quotas are quotas with the same rate, one for each name.
type Quotas struct {
	rate Rate

	mu   sync.Mutex
	each map[string]*Quota
}

// NewQuotas returns quotas for a limited number of names.
func NewQuotas(rate Rate) *Quotas { return &Quotas{rate: rate, each: map[string]*Quota{}} }

// Of returns the quota of a name, or nil when nothing is limited.
func (q *Quotas) Of(name string) *Quota {
	if q.rate.Events == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.each[name] == nil {
		q.each[name] = NewQuota(q.rate, 0)
	}
	return q.each[name]
}

// Replaces returns the quotas before if their rate is the same: what was taken still counts.
func (q *Quotas) Replaces(before *Quotas) *Quotas {
	if q.rate == before.rate {
		return before
	}
	return q
}

// Share is what one delivery uses of its producer's quota: a slot, and tokens. The zero value
// uses nothing.
type Share struct {
	quota *Quota
	slot  bool
	taken int // tokens, as a number of events
}

// Take takes a token for each of n events and returns a wait of zero. When there are too few it
// takes none and returns how long until there are enough, and how many are left. A batch larger
// than a burst costs a burst.
func (s *Share) Take(n int, now time.Time) (wait time.Duration, left int) {
	if s.quota == nil {
		return 0, 0
	}
	if wait, left = s.quota.take(n, now); wait == 0 {
		s.taken = n
	}
	return wait, left
}

// Refund returns the tokens.
func (s *Share) Refund() {
	if s.taken > 0 {
		s.quota.refund(s.taken)
		s.taken = 0
	}
}

// Release returns the slot. It may be called more than once.
func (s *Share) Release() {
	if s.slot {
		s.slot = false
		s.quota.mu.Lock()
		defer s.quota.mu.Unlock()
		s.quota.running--
	}
}

// Transfer moves the slot to a longer-lived owner, which must release it. The tokens stay.
func (s *Share) Transfer() Share {
	moved := Share{quota: s.quota, slot: s.slot}
	s.slot = false
	return moved
}
