package admission

import (
	"testing"
	"time"
)

func TestBucketFillsSteadily(t *testing.T) {
	t.Parallel()
	q := NewQuota(Rate{Events: 10, Per: 2 * time.Second, Burst: 4}, 0)
	now := time.Unix(1_700_000_000, 0)
	rows := []struct {
		after time.Duration
		n     int
		wait  time.Duration
		left  int
	}{
		{0, 1, 0, 3},
		{0, 3, 0, 0},
		{0, 1, 200 * time.Millisecond, 0}, // a fifth of a second for each
		{100 * time.Millisecond, 1, 100 * time.Millisecond, 0},
		{100 * time.Millisecond, 1, 0, 0},
		{time.Hour, 100, 0, 0}, // a batch beyond the burst costs a burst
		{200 * time.Millisecond, 3, 400 * time.Millisecond, 1},
		{-time.Hour, 1, 0, 0}, // a clock that goes backwards changes nothing
		{0, 1, 200 * time.Millisecond, 0},
	}
	for i, row := range rows {
		now = now.Add(row.after)
		wait, left := q.take(row.n, now)
		if wait.Round(time.Microsecond) != row.wait || left != row.left {
			t.Errorf("row %d: wait %v and %d left, want %v and %d", i, wait, left, row.wait, row.left)
		}
	}
	q.refund(1)
	if wait, _ := q.take(1, now); wait != 0 {
		t.Error("the refund is missing:", wait)
	}
	for range 10 {
		q.refund(4)
	}
	if wait, left := q.take(4, now); wait != 0 || left != 0 {
		t.Error("more than a burst was refunded:", left)
	}
}
