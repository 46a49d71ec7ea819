package receiver

import (
	"testing"
	"time"
)

// TestAPausedHandlerDoesNotHang looks at a handler whose context ended during a pause.
func TestAPausedHandlerDoesNotHang(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Hour) // no timer fires during the test
	for _, tc := range []struct {
		name  string
		looks []time.Duration // after at
		hung  int             // the look that finds it hanging; beyond the last is none
	}{
		{"it does not return", []time.Duration{-time.Second, 0}, 1},
		{"a late timer", []time.Duration{hungGrace}, 0},
		{"a pause", []time.Duration{time.Minute, time.Minute + hungGrace/2}, 2},
		{"it does not return after a pause", []time.Duration{time.Minute, time.Minute + hungGrace}, 1},
		{"two pauses", []time.Duration{time.Minute, time.Hour, time.Hour + hungGrace}, 2},
	} {
		w := &watchdog{}
		w.runs = []*leasedRun{{hungAt: at, at: 1}}
		for i, after := range tc.looks {
			if _, hung := w.due(at.Add(after)); (len(hung) == 1) != (i == tc.hung) {
				t.Errorf("%s: look %d finds %d that hang", tc.name, i, len(hung))
			}
		}
		if w.timer != nil {
			w.timer.Stop()
		}
	}
}
