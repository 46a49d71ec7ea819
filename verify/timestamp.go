package verify

import (
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/words"
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
func (u TimeUnit) MarshalText() ([]byte, error) { return words.Of(u, timeUnits) }

// UnmarshalText reads s, ms or rfc3339.
func (u *TimeUnit) UnmarshalText(text []byte) error { return words.Read(u, text, timeUnits) }

// Digits returns the number of digits of a time between 2001 and 2286, 0 for a date-time.
func (u TimeUnit) Digits() int {
	switch u {
	case RFC3339:
		return 0
	case Milliseconds:
		return len("1795000000000")
	}
	return len("1795000000")
}

func (u TimeUnit) read(text string) (time.Time, bool) {
	if u == RFC3339 {
		return parseDateTime(text)
	}
	n, ok := parseDigits(text)
	switch {
	case !ok:
		return time.Time{}, false
	case u == Milliseconds:
		return time.UnixMilli(n), true
	}
	return time.Unix(n, 0), true
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

// parseDigits reads a time since 1970 in decimal digits.
func parseDigits(s string) (n int64, ok bool) {
	if s == "" || len(s) > maxTimestamp {
		return 0, false
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}
