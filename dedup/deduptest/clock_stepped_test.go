package deduptest_test

import (
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/deduptest"
)

// await waits for a signal.
func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatal(what)
	}
}

func TestASteppedClockFollowsTheMachineWithItsOffset(t *testing.T) {
	t.Parallel()
	c := deduptest.NewSteppedClock()
	for _, off := range []time.Duration{0, time.Hour, -3 * time.Hour, -2 * time.Hour, 0} {
		before := time.Now()
		c.Set(off)
		now := c.Now()
		early, late := now.Before(before.Add(off-time.Minute)), now.After(time.Now().Add(off+time.Minute))
		if early || late {
			t.Errorf("offset %v: %v, the machine has %v", off, now, before)
		}
		if now != now.Round(0) {
			t.Error("it carries a monotonic reading")
		}
	}
	soon, _ := c.Alarm(c.Now().Add(time.Millisecond))
	await(t, soon, "an alarm does not ring by itself")
	past, _ := c.Alarm(c.Now().Add(-time.Hour))
	if !rings(past) {
		t.Error("an alarm of the past does not ring at once")
	}
}

func TestAlarmsOfASteppedClockFollowItsSteps(t *testing.T) {
	t.Parallel()
	c := deduptest.NewSteppedClock()
	start := c.Now()
	first, _ := c.Alarm(start.Add(time.Hour))
	second, _ := c.Alarm(start.Add(3 * time.Hour))
	stopped, stop := c.Alarm(start.Add(time.Hour))
	stop()
	stop() // a second call does nothing
	await(t, c.Asked(), "the alarms are not reported")
	if rings(c.Asked()) {
		t.Error("the alarms are reported twice")
	}
	c.Set(2 * time.Hour)
	if !rings(first) || rings(second) || rings(stopped) {
		t.Error("two hours ahead, not exactly the alarm within them rings")
	}
	near, _ := c.Alarm(c.Now().Add(time.Minute))
	c.Set(-2 * time.Hour)
	later, cancel := c.Alarm(start)
	if rings(near) || rings(later) {
		t.Error("an alarm did not wait for a clock that was set back")
	}
	cancel()
	c.Set(2*time.Hour + 2*time.Minute)
	if !rings(near) || rings(later) || rings(second) {
		t.Error("set forward again, not exactly the waiting alarm rings")
	}
}
