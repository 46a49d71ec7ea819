package forward

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// maxWait bounds what is read from a Retry-After: a century, more than any total retry time.
const maxWait = 100 * 365 * 24 * time.Hour

// parseRetryAfter returns for how long the lines of a Retry-After field ask to wait (RFC 9110 section
// 10.2.3): delay-seconds or an HTTP-date. Zero, a date that has passed, and what is neither of the two are no
// wait (the draft's section 9.5: 0 says that there is no preference). Of several lines the longest wait counts.
func parseRetryAfter(lines []string, now time.Time) time.Duration {
	var longest time.Duration
	for _, line := range lines {
		longest = max(longest, parseWait(strings.Trim(line, " \t"), now))
	}
	return longest
}

func parseWait(text string, now time.Time) time.Duration {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		return seconds(text)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), maxWait)
}

// seconds reads decimal digits; a number of any length is at most maxWait.
func seconds(digits string) time.Duration {
	var n int64
	for i := range len(digits) {
		if n > math.MaxInt64/10-10 {
			return maxWait
		}
		n = n*10 + int64(digits[i]-'0')
	}
	if n > int64(maxWait/time.Second) {
		return maxWait
	}
	return time.Duration(n) * time.Second
}

// parseSunset returns the time of a Sunset field (RFC 8594 section 3), or the zero time where there is none
// that can be read.
func parseSunset(lines []string) time.Time {
	if len(lines) != 1 {
		return time.Time{}
	}
	at, err := http.ParseTime(strings.Trim(lines[0], " \t"))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}
