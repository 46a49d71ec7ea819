package receiver

import (
	"math"
	"time"
)

// backoff is full jitter: uniform in [0, min(limit, base*2^n)], where n counts the failures before this one
// (draft-mayankpanke-event-delivery-semantics-01 section 9.6). random(k) is uniform in [0, k).
func backoff(base, limit time.Duration, n int, random func(int64) int64) time.Duration {
	limit = min(limit, math.MaxInt64-1)
	most := min(base, limit)
	for ; n > 0 && most < limit; n-- {
		if most > limit/2 {
			most = limit
			break
		}
		most *= 2
	}
	if most <= 0 {
		return 0
	}
	return time.Duration(random(int64(most) + 1))
}
