package explain

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
	"github.com/eyelet-dev/eyelet/verify"
)

// timeFindings explains a signed time that is out of tolerance. The signature is proved; the reason
// of the offset is likely.
func (s *search) timeFindings(id verify.Identity) []Finding {
	late := s.own.Tolerance.Check(id, s.d.Now)
	if late == nil {
		return nil
	}
	if !id.Expires.IsZero() && s.d.Now.After(id.Expires) {
		detail := fmt.Sprintf("the signature is good, and it expired %s before the arrival",
			duration.Rough(s.d.Now.Sub(id.Expires)))
		return []Finding{{Cause: expired, Proved: true, Detail: detail}}
	}
	at := id.SignedAt
	if at.IsZero() {
		at = id.NotBefore
	}
	off := s.d.Now.Sub(at)
	where := "before"
	if off < 0 {
		where = "after"
	}
	detail := fmt.Sprintf("the signature is good, and was made %s %s the arrival", duration.Rough(off.Abs()), where)
	if len(s.d.Offsets) > 0 {
		detail += "; others of this producer: " + s.offsets()
	}
	return []Finding{{Cause: s.reason(at, off), Detail: detail}}
}

const year = 365 * 24 * time.Hour

// reason returns the likely reason of an offset.
func (s *search) reason(at time.Time, off time.Duration) Cause {
	sent, err := http.ParseTime(s.d.Request.Header.Get("Date"))
	switch {
	case off.Abs() > 20*year || at.Year() > 9999:
		return timeUnit
	case wholeZone(off):
		return timeZone
	case off < 0:
		return clockSkew
	case err == nil && sent.Sub(at) > time.Minute && s.d.Now.Sub(sent).Abs() < time.Minute:
		return replayed
	}
	return stale
}

// wholeZone reports whether the offset is that of a time zone, give or take some seconds.
func wholeZone(off time.Duration) bool {
	off = off.Abs()
	if off < 25*time.Minute || off > 15*time.Hour {
		return false
	}
	rest := off % (30 * time.Minute)
	return min(rest, 30*time.Minute-rest) <= 5*time.Second
}

// offsets lists the offsets of other deliveries.
func (s *search) offsets() string {
	var all []string
	for _, off := range s.d.Offsets[:min(len(s.d.Offsets), 8)] {
		all = append(all, duration.Rough(off))
	}
	return strings.Join(all, ", ")
}
