// Package duration has the two forms of durations in text: [Format] writes a setting, which
// [Parse] reads, and [Rough] says to a reader how long something took, lasts or lies back.
package duration

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// maxDays bounds durations, because a store writes times in nanoseconds.
const maxDays = 36500

// Parse is time.ParseDuration with days (7d), for durations of 0 to 100 years.
func Parse(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n > maxDays {
			return 0, fmt.Errorf("not a number of days: %q", text)
		}
		return time.Duration(n) * day, nil
	}
	t, err := time.ParseDuration(text)
	if err == nil && (t < 0 || t > maxDays*day) {
		err = fmt.Errorf("negative, or too long: %q", text)
	}
	return t, err
}

// Format is Duration.String without trailing zero units: 1h, not 1h0m0s.
func Format(d time.Duration) string {
	text := d.String()
	if d >= time.Minute && d%time.Minute == 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour && d%time.Hour == 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// units are used from a length on.
var units = []struct {
	from, one time.Duration
	name      string
}{
	{2 * day, day, "days"}, {time.Hour, time.Hour, "h"}, {time.Minute, time.Minute, "min"},
	{time.Second, time.Second, "s"}, {time.Millisecond, time.Millisecond, "ms"},
	{time.Microsecond, time.Microsecond, "µs"},
}

// Rough returns the two largest units, such as 2 h 10 min, or below a minute one with a tenth, such
// as 1.5 s, and cuts off the rest.
func Rough(d time.Duration) string {
	if d < 0 {
		return "-" + Rough(d.Abs())
	}
	for i, u := range units {
		switch {
		case d < u.from:
		case d < time.Minute:
			return strconv.FormatFloat(float64(d/(u.one/10))/10, 'f', -1, 64) + " " + u.name
		case d%u.one < units[i+1].one:
			return fmt.Sprintf("%d %s", d/u.one, u.name)
		default:
			return fmt.Sprintf("%d %s %d %s", d/u.one, u.name, d%u.one/units[i+1].one, units[i+1].name)
		}
	}
	return "0 s"
}
