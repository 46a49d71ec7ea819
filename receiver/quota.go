package receiver

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// quotaPolicy is the name of the one policy that every producer with a rate has, in the RateLimit fields.
const quotaPolicy = "default"

// quota is what one producer may use of the receiver: events in a time, and deliveries at once. It is asked
// only after verification, so that no stranger uses up what is a producer's.
//
// The rate is a bucket of tokens that fills steadily. It is not the one of golang.org/x/time/rate because a
// token must be given back: whether a delivery is a repetition is known only once the store was asked, and
// who captured a delivery must not be able to use up the quota by repeating it.
type quota struct {
	rate   producer.Rate // with its defaults
	atOnce int           // zero is no limit

	mu     sync.Mutex
	tokens float64
	at     time.Time // when tokens was right
	inside int
}

// newQuota returns the quota of a producer, or nil when it has none.
func newQuota(p *producer.Producer) *quota {
	if !p.Rate.Limits() && p.Concurrency == 0 {
		return nil
	}
	return &quota{rate: p.Rate, atOnce: p.Concurrency, tokens: float64(p.Rate.Burst)}
}

// fill adds the tokens of the time since the last call. Time that goes backwards adds none.
func (q *quota) fill(now time.Time) {
	if since := now.Sub(q.at); since > 0 && !q.at.IsZero() {
		q.tokens = min(float64(q.rate.Burst), q.tokens+float64(q.rate.Events)*float64(since)/float64(q.rate.Per))
	}
	q.at = now
}

// take takes a token for each of n events and returns zero. When there are too few it takes none, and returns
// in how long there will be enough, and how many there are. A batch that is larger than a burst costs a burst.
func (q *quota) take(n int, now time.Time) (wait time.Duration, left int) {
	if !q.rate.Limits() {
		return 0, 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fill(now)
	price := float64(min(n, q.rate.Burst))
	if q.tokens >= price {
		q.tokens -= price
		return 0, int(q.tokens)
	}
	missing := (price - q.tokens) * float64(q.rate.Per) / float64(q.rate.Events)
	return max(1, time.Duration(math.Ceil(missing))), int(q.tokens)
}

// give returns the tokens of n events.
func (q *quota) give(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tokens = min(float64(q.rate.Burst), q.tokens+float64(min(n, q.rate.Burst)))
}

// enter reports whether another delivery may be worked on; then leave must follow.
func (q *quota) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.atOnce > 0 && q.inside >= q.atOnce {
		return false
	}
	q.inside++
	return true
}

func (q *quota) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inside--
}

// exceeded is the failure of a delivery over the rate. Its RateLimit fields are those of
// draft-ietf-httpapi-ratelimit-headers-11: t is when the delivery would fit, and Retry-After is not before it.
func (q *quota) exceeded(wait time.Duration, left int) *failure {
	f := fail(codeRateLimited, nil)
	f.after = wait
	f.header = http.Header{
		"Ratelimit-Policy": {fmt.Sprintf("%q;q=%d;w=%d", quotaPolicy, q.rate.Events, q.rate.Per/time.Second)},
		"Ratelimit":        {fmt.Sprintf("%q;r=%d;t=%d", quotaPolicy, left, (wait+time.Second-1)/time.Second)},
	}
	return f
}

// place is a place inside a quota; the zero place is none.
type place struct{ of *quota }

// leave gives the place back, once.
func (p *place) leave() {
	if p.of != nil {
		p.of.leave()
		p.of = nil
	}
}

// handOver gives the place to somebody who needs it for longer, and who then gives it back.
func (p *place) handOver() place {
	taken := *p
	p.of = nil
	return taken
}

// spend takes the events of the delivery from the quota.
func (d *delivery) spend(q *quota) error {
	wait, left := q.take(len(d.items), time.Now()) // by the clock that never jumps
	if wait > 0 {
		return q.exceeded(wait, left)
	}
	if q.rate.Limits() {
		d.spent = len(d.items)
	}
	return nil
}

// learn draws the lessons of the answer: from where a new event came, more are welcome, and what is no
// new event costs its producer nothing. It proves nothing about who sent it: anybody may have captured it. Nor does
// an event that the store could not take: the producer sends it again.
func (d *delivery) learn(a *reply) {
	switch a.code {
	case codeAccepted, codeAnswered:
		d.permit.accepted(time.Now())
	case codeRepeated, codeAside, codeNothing, codeInFlight, codeReplayed, codeKeyReused, codeStore, string(verify.NonceReused):
		if d.spent > 0 {
			d.ep.quota.give(d.spent)
		}
	}
}
