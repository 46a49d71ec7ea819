package series

import (
	"math/bits"
	"time"
)

// histogram counts durations: 8 buckets for each power of two of microseconds, up to 71 minutes.
type histogram [240]uint32

// Quantiles are the buckets of the median and of the 95th percentile.
type Quantiles [2]uint8

func (h *histogram) add(d time.Duration) { h[bucket(d)]++ }

func (h *histogram) addAll(more *histogram) {
	for i, n := range more {
		h[i] += n
	}
}

func bucket(d time.Duration) uint8 {
	us := uint64(min(max(0, d.Microseconds()), 1<<32-1)) //nolint:gosec // not negative
	e := max(0, bits.Len64(us)-4)
	return uint8(e<<3 + int(us>>e)) //nolint:gosec // at most 28*8+15
}

// duration returns the middle of a bucket, which is within 6.25 % of all that is in it.
func duration(bucket uint8) time.Duration {
	if bucket < 16 {
		return time.Duration(bucket) * time.Microsecond
	}
	e := bucket>>3 - 1
	return time.Duration(2*(bucket&7+8)+1) << (e - 1) * time.Microsecond
}

// quantiles returns the quantiles; ok is false if there was no duration.
func (h *histogram) quantiles() (q Quantiles, ok bool) {
	total := uint64(0)
	for _, n := range h {
		total += uint64(n)
	}
	for i, percent := range []uint64{50, 95} {
		rank, seen := (total*percent+99)/100, uint64(0)
		for b, n := range h {
			if seen += uint64(n); seen >= rank {
				q[i] = uint8(b) //nolint:gosec // the index of a bucket
				break
			}
		}
	}
	return q, total > 0
}

// P50 is the median, within 7 %.
func (q Quantiles) P50() time.Duration { return duration(q[0]) }

// P95 is the 95th percentile, within 7 %.
func (q Quantiles) P95() time.Duration { return duration(q[1]) }
