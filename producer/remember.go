package producer

import (
	"slices"
	"strconv"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// Remembers reports whether the events of a verified delivery are to be remembered beyond their window: where the
// signature binds the content and says no time, nothing else tells later that a captured delivery is old. Content that
// is a state (Series) may come back, and a credential that binds nothing proves nothing about content.
func (p *Producer) Remembers(id verify.Identity) bool {
	return !p.Forgets && p.Series == nil && id.SignedAt.IsZero() && (id.Signed != nil || id.Covers("@body") || id.Covers("@items"))
}

// HappenedAt returns when the event of a delivery happened, as EventTime reads it from what is signed; zero where it says
// nothing, nothing that can be read, or the signature does not cover it.
func (p *Producer) HappenedAt(d *Delivery) time.Time {
	if p.EventTime == nil || slices.ContainsFunc(p.EventTime.Consumes(), func(part string) bool { return !d.Identity.Covers(part) }) {
		return time.Time{}
	}
	text, err := p.EventTime.Extract(d)
	if err != nil {
		return time.Time{}
	}
	return parseEventTime(text)
}

// minMilliseconds is the first number that counts milliseconds since 1970 and not seconds: 1973 as milliseconds, the
// year 5138 as seconds.
const minMilliseconds = 100_000_000_000

// parseEventTime reads a time of RFC 3339, or seconds or milliseconds since 1970; zero for anything else.
func parseEventTime(text string) time.Time {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case n <= 0:
			return time.Time{}
		case n >= minMilliseconds:
			return time.UnixMilli(n).UTC()
		}
		return time.Unix(n, 0).UTC()
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05.999999999-0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}
