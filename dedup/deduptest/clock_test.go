package deduptest_test

import (
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

func rings(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheClockMovesOnlyWhenAdvancedAndRingsInTime(t *testing.T) {
	t.Parallel()
	c := deduptest.NewClock()
	start := c.Now()
	if !start.Equal(start.Truncate(time.Second)) {
		t.Errorf("it starts at %v", start)
	}
	past, _ := c.Alarm(start)
	soon, _ := c.Alarm(start.Add(time.Minute))
	later, _ := c.Alarm(start.Add(time.Hour))
	stopped, stop := c.Alarm(start.Add(time.Minute))
	stop()
	if !rings(past) || rings(soon) {
		t.Error("before it moves, not exactly the past alarm rings")
	}
	c.Advance(time.Minute)
	if !rings(soon) || rings(later) || rings(stopped) {
		t.Error("after a minute, not exactly the alarm of that minute rings")
	}
	if got := c.Now().Sub(start); got != time.Minute {
		t.Errorf("it moved by %v", got)
	}
	c.Advance(time.Hour)
	if !rings(later) {
		t.Error("the last alarm does not ring")
	}
}
