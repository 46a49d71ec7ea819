package receiver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// See row R175 of the requirements: RetryAfter works above the cap, and counts as a failed
// attempt.
func TestRetryAfterIsTheLowerBoundOfTheNextAttempt(t *testing.T) {
	const wait = 3 * time.Hour // the cap is 10 minutes
	var starts []time.Time
	h := On("gh", "*", func(context.Context, Event[[]byte]) error {
		starts = append(starts, time.Now())
		return fmt.Errorf("wrapped: %w", RetryAfter(wait, errBoom))
	})
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		r := f.outcome(f.accept("1", "x"))
		f.ends(r, dedup.Dead, reasonExhausted, 4)
		for i := 1; i < len(starts); i++ {
			gap := starts[i].Sub(starts[i-1])
			if most := wait + min(DefaultBackoffCap, DefaultBackoffBase<<(i-1)) + time.Second; gap < wait ||
				gap > most {
				t.Errorf("attempt %d ran after %v, want %v to %v", i+1, gap, wait, most)
			}
		}
		if r.Tasks[0].Postponed != 0 {
			t.Errorf("%d attempts do not count", r.Tasks[0].Postponed)
		}
	})
}

func TestRejectAndPostponeWinOverRetryAfter(t *testing.T) {
	h := script(returns(errors.Join(RetryAfter(time.Hour, nil), Postpone(time.Minute, nil))),
		returns(errors.Join(RetryAfter(time.Hour, nil), Reject(nil))))
	onFixture(t, []Handler{h}, nil, func(f *fixture) {
		began := time.Now()
		r := f.outcome(f.accept("1", "x"))
		f.ends(r, dedup.Dead, reasonRejected, 2)
		if took := r.Tasks[0].Ended.Sub(began); took >= time.Hour {
			t.Errorf("took %v", took)
		}
	})
}

func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wait, want time.Duration
	}{{-time.Second, 0}, {0, 0}, {time.Hour, time.Hour}, {math.MaxInt64, longestWait}, {math.MinInt64, 0}} {
		if _, got := classify(RetryAfter(tt.wait, nil)); got != tt.want {
			t.Errorf("%v becomes %v, want %v", tt.wait, got, tt.want)
		}
	}
	if _, got := classify(errBoom); got != 0 {
		t.Errorf("another error waits %v", got)
	}
	if !errors.Is(RetryAfter(time.Second, errBoom), errBoom) {
		t.Error("the cause is missing")
	}
}

func TestPostponedAnswerIs503(t *testing.T) {
	t.Parallel()
	s := serve(t, apiProducer(), nil, Answer("shop", "*", func(context.Context, Event[[]byte]) (Response, error) {
		return Response{}, RetryAfter(90*time.Second, errBoom)
	}))
	g := s.send(req{id: `"k"`})
	wantProblem(t, g, http.StatusServiceUnavailable, codeAnswerFailed)
	if n, err := strconv.Atoi(g.header.Get("Retry-After")); err != nil || n < 90 {
		t.Errorf("Retry-After is %q", g.header.Get("Retry-After"))
	}
}
