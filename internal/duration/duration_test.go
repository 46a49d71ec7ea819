package duration

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "1m30s": 90 * time.Second, "24h": day, "7d": 7 * day, "36500d": maxDays * day,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "7", "d", "1.5d", "-1d", "-1s", "36501d", "876001h", "1d12h"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 500 * time.Millisecond: "500ms", 30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", time.Hour: "1h", 65 * time.Minute: "1h5m", time.Hour + 5*time.Second: "1h0m5s",
		day: "24h",
	} {
		if got := Format(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestParseReadsWhatFormatWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		units := []time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour, day}
		unit := rapid.SampledFrom(units).Draw(t, "unit")
		d := unit * time.Duration(rapid.Int64Range(0, int64(maxDays*day/unit)).Draw(t, "n"))
		if back, err := Parse(Format(d)); err != nil || back != d {
			t.Fatalf("%v is written %s, which is read as %v, %v", d, Format(d), back, err)
		}
	})
}

func TestRough(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 999: "0 s", 120 * time.Microsecond: "120 µs", 4560 * time.Microsecond: "4.5 ms",
		time.Second - 1: "999.9 ms", 1500 * time.Millisecond: "1.5 s", 30 * time.Second: "30 s",
		time.Minute - 1: "59.9 s",
		time.Minute:     "1 min", 5*time.Minute + 3*time.Second: "5 min 3 s", time.Hour - 1: "59 min 59 s",
		2 * time.Hour: "2 h", 2*time.Hour + 59*time.Second: "2 h", 130 * time.Minute: "2 h 10 min",
		2*day - 1: "47 h 59 min", 2 * day: "2 days", 30*day + 5*time.Hour: "30 days 5 h",
		-90 * time.Second: "-1 min 30 s", math.MinInt64: "-106751 days 23 h",
	} {
		if got := Rough(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
