package dedup_test

import (
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func TestDaysAreInUTC(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 5*60*60)
	for at, want := range map[time.Time]dedup.Day{
		time.Unix(0, 0):                                  0,
		time.Unix(86_399, 0):                             0,
		time.Unix(86_400, 0):                             1,
		time.Date(2026, 3, 1, 4, 59, 59, 0, zone):        20_512,
		time.Date(2026, 3, 1, 5, 0, 0, 0, zone):          20_513,
		time.Unix(-1, 0):                                 0,
		time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC):      1<<16 - 1,
		time.Date(2026, 3, 1, 23, 59, 59, 999, time.UTC): 20_513,
	} {
		if got := dedup.DayOf(at); got != want {
			t.Errorf("%v is day %d, want %d", at, got, want)
		}
	}
	if got := dedup.Day(20_513).Start(); !got.Equal(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("day 20513 starts at %v", got)
	}
}

func TestTheOldestDaysAreForgottenFirst(t *testing.T) {
	t.Parallel()
	keep := dedup.Retention{Max: 10}.WithDefaults()
	for _, c := range []struct {
		counts map[dedup.Day]int64
		want   dedup.Day
	}{
		{nil, 0},
		{map[dedup.Day]int64{100: 10}, 0},
		{map[dedup.Day]int64{100: 11}, 0}, // today is never forgotten
		{map[dedup.Day]int64{99: 1, 100: 11}, 100},
		{map[dedup.Day]int64{90: 5, 99: 5}, 0},
		{map[dedup.Day]int64{90: 5, 99: 5, 100: 1}, 91},
		{map[dedup.Day]int64{90: 5, 95: 3, 99: 5, 100: 3}, 96},
		{map[dedup.Day]int64{1: 20, 90: 10}, 2},
	} {
		if got := keep.Evict(c.counts, 100); got != c.want {
			t.Errorf("%v: the first day is %d, want %d", c.counts, got, c.want)
		}
	}
}

func TestADayIsForgottenAfterItsRetention(t *testing.T) {
	t.Parallel()
	keep := dedup.Retention{}.WithDefaults()
	day := dedup.Day(20_000)
	at := func(after int) time.Time {
		return (day + dedup.Day(after)).Start().Add(12 * time.Hour) //nolint:gosec // small
	}
	for _, c := range []struct {
		evicted dedup.Day
		after   int
		want    dedup.Day
	}{
		{0, 0, 0}, {0, 90, 0}, {0, 91, day + 1}, {0, 200, day + 110},
		{day + 5, 10, day + 5}, {day + 5, 91, day + 5}, {day + 5, 100, day + 10},
	} {
		if got := keep.First(day, c.evicted, at(c.after)); got != c.want {
			t.Errorf("after %d days, evicted %d: the first day is %d, want %d", c.after, c.evicted, got, c.want)
		}
	}
}

func TestACountDoesNotOverflow(t *testing.T) {
	t.Parallel()
	var trace dedup.Trace
	for range 300 {
		trace = trace.Again(5, 0)
	}
	if trace != (dedup.Trace{Day: 5, Count: 255}) {
		t.Errorf("%+v", trace)
	}
	if got := trace.Again(9, 6); got != (dedup.Trace{Day: 9, Count: 1}) {
		t.Errorf("after the day was forgotten: %+v", got)
	}
}
