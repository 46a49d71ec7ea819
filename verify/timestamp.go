package verify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TimeUnit is the form of a signed time.
type TimeUnit int

// The forms of a signed time.
const (
	Seconds      TimeUnit = iota // since 1970
	Milliseconds                 // since 1970
	// RFC3339 is a date-time in UTC with capital letters, such as 2026-11-22T20:16:00.5Z.
	RFC3339
)

var timeUnits = []string{"s", "ms", "rfc3339"}

// MarshalText returns s, ms or rfc3339.
func (u TimeUnit) MarshalText() ([]byte, error) {
	if u < 0 || int(u) >= len(timeUnits) {
		return nil, fmt.Errorf("there is no timestamp unit %d", int(u))
	}
	return []byte(timeUnits[u]), nil
}

// UnmarshalText reads s, ms or rfc3339.
func (u *TimeUnit) UnmarshalText(text []byte) error {
	i := slices.Index(timeUnits, string(text))
	if i < 0 {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(timeUnits, ", "))
	}
	*u = TimeUnit(i)
	return nil
}

// unit is that of a number.
func (u TimeUnit) unit() time.Duration {
	if u == Milliseconds {
		return time.Millisecond
	}
	return time.Second
}

// Digits returns the number of digits of a time between 2001 and 2286, 0 for a date-time.
func (u TimeUnit) Digits() int {
	if u == RFC3339 {
		return 0
	}
	return len(strconv.FormatInt(int64(1e18/u.unit()), 10))
}

func (u TimeUnit) read(text string) (time.Time, bool) {
	if u == RFC3339 {
		return parseDateTime(text)
	}
	return parseTimestamp(text, u.unit())
}

// format writes a time as read reads it.
func (u TimeUnit) format(at time.Time) string {
	switch u {
	case RFC3339:
		return at.UTC().Format(time.RFC3339)
	case Milliseconds:
		return strconv.FormatInt(at.UnixMilli(), 10)
	}
	return strconv.FormatInt(at.Unix(), 10)
}

// maxDateTime is the length of a date-time with nanoseconds.
const maxDateTime = len("2006-01-02T15:04:05.999999999Z")

// parseDateTime reads a date-time in UTC. Only digits may be where RFC 3339 has them, so that the
// text has one T, two colons and one Z at known places.
func parseDateTime(s string) (time.Time, bool) {
	const form = "0000-00-00T00:00:00"
	if len(s) <= len(form) || len(s) > maxDateTime {
		return time.Time{}, false
	}
	for i := range len(form) {
		if form[i] == '0' && !isDigit(s[i]) {
			return time.Time{}, false
		}
	}
	at, err := time.Parse("2006-01-02T15:04:05.999999999Z", s)
	return at, err == nil && !strings.Contains(s, ",") // which time.Parse reads as a full stop
}

// maxTimestamp is the most digits of a time since 1970.
const maxTimestamp = 15

// parseTimestamp reads a time since 1970 in decimal digits.
func parseTimestamp(s string, unit time.Duration) (time.Time, bool) {
	if s == "" || len(s) > maxTimestamp {
		return time.Time{}, false
	}
	var n int64
	for i := range len(s) {
		if !isDigit(s[i]) {
			return time.Time{}, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	if unit == time.Millisecond {
		return time.UnixMilli(n), true
	}
	return time.Unix(n, 0), true
}
