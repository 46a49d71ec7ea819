package receiver

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoffBounds(t *testing.T) {
	t.Parallel()
	most := func(n int64) int64 { return n - 1 }
	least := func(int64) int64 { return 0 }
	tests := []struct {
		base, limit time.Duration
		n           int
		want        time.Duration
	}{
		{time.Second, 10 * time.Minute, 0, time.Second},
		{time.Second, 10 * time.Minute, 1, 2 * time.Second},
		{time.Second, 10 * time.Minute, 9, 512 * time.Second},
		{time.Second, 10 * time.Minute, 10, 10 * time.Minute},
		{time.Second, 10 * time.Minute, 1 << 30, 10 * time.Minute},
		{time.Second, math.MaxInt64, 1 << 30, math.MaxInt64 - 1},
		{time.Hour, time.Minute, 0, time.Minute},
		{0, time.Minute, 5, 0},
		{time.Second, 0, 5, 0},
	}
	for _, tt := range tests {
		if got := backoff(tt.base, tt.limit, tt.n, most); got != tt.want {
			t.Errorf("backoff(%v, %v, %d) is at most %v, want %v", tt.base, tt.limit, tt.n, got, tt.want)
		}
		if got := backoff(tt.base, tt.limit, tt.n, least); got != 0 {
			t.Errorf("backoff(%v, %v, %d) is at least %v, want 0", tt.base, tt.limit, tt.n, got)
		}
	}
}

func TestBackoffIsFullJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base"))
		limit := time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "limit"))
		n := rapid.IntRange(0, 100).Draw(t, "n")
		most := math.Min(float64(limit), float64(base)*math.Pow(2, float64(n)))
		var asked int64
		got := backoff(base, limit, n,
			func(k int64) int64 { asked = k; return rapid.Int64Range(0, k-1).Draw(t, "random") })
		if got < 0 || float64(got) > most {
			t.Fatalf("%v is outside [0, %v]", got, time.Duration(most))
		}
		if float64(asked-1) != most {
			t.Fatalf("uniform in [0, %v], want [0, %v]", time.Duration(asked-1), time.Duration(most))
		}
	})
}
