package forward

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
)

// evaluate turns the response into a Result and updates the State.
func (t *Target) evaluate(ev Event, s response, now time.Time) Result {
	r := Result{Outcome: Classify(s.status, true), Status: s.status, ContentType: s.contentType, Body: s.body,
		Err: s.err}
	if r.Outcome != Accepted && !t.cfg.OmitReplies {
		r.Reply = s.reply
	}
	if s.status != 0 && r.Outcome != Accepted && r.Err == nil {
		r.Err = fmt.Errorf("the target answered %d", s.status)
	}
	if ev.Unverified {
		if s.moved != nil { // what follows such a response is for verified events
			r.Outcome, r.Err = Transient, errors.New("the target moved (308)")
		}
		return t.postponed(ev, r, s, now)
	}
	if s.moved != nil {
		t.updateState(func(st *Status) { // the Sunset of the old URL does not apply to the new one
			st.Moved, st.Sunset, st.Terminals = s.moved.String(), time.Time{}, 0
		})
		r.Outcome, r.Err = Transient, errors.New("the target moved (308): the next attempt goes to its new URL")
		return r
	}
	if r.Outcome == Accepted || !s.sunset.IsZero() { // a failure without a Sunset may come from an intermediary
		t.updateState(func(st *Status) { st.Sunset = s.sunset })
	}
	sunset := t.cfg.State.get(t.cfg.Name).Sunset
	if r.Outcome == Transient && !s.ours && !sunset.IsZero() && !now.Before(sunset) {
		end := sunset.Format(time.RFC3339)
		r.Outcome, r.Err = Terminal, fmt.Errorf("the target has ended, by its Sunset of %s: %w", end, r.Err)
	}
	t.updateState(func(st *Status) { st.count(r, t.cfg.TerminalLimit, now) })
	return t.postponed(ev, r, s, now)
}

func (t *Target) postponed(ev Event, r Result, s response, now time.Time) Result {
	if r.Outcome != Transient {
		return r
	}
	return t.postpone(ev, r, parseRetryAfter(s.retryAfter, now), now)
}

// count counts an outcome. 410, and too many consecutive Terminal outcomes, switch the target off
// (sections 9.2.3 and 11.8 of the draft).
func (st *Status) count(r Result, limit int, now time.Time) {
	switch r.Outcome {
	case Accepted:
		st.Terminals = 0
	case Terminal:
		st.Terminals++
		switch {
		case r.Status == http.StatusGone:
			st.switchOff("it answered 410 Gone", now)
		case st.Terminals >= limit:
			st.switchOff(fmt.Sprintf("%d events in a row were refused for good, the last one: %v", st.Terminals, r.Err),
				now)
		}
		if r.Status == http.StatusUnavailableForLegalReasons {
			st.Legal = now.UTC()
		}
	}
}

// postpone applies a Retry-After (section 9.6). One beyond the total retry time is Terminal.
func (t *Target) postpone(ev Event, r Result, wait time.Duration, now time.Time) Result {
	if wait == 0 {
		return r
	}
	left := t.cfg.TotalRetryTime
	if age := now.Sub(ev.Accepted); age > 0 && age < left {
		left -= age
	}
	if wait > left {
		r.Outcome = Terminal
		r.Err = fmt.Errorf("%w with a Retry-After of %s, which is beyond the total retry time", r.Err,
			duration.Rough(wait))
		return r
	}
	r.NotBefore = wait
	t.held.hold(ev.ID, now.Add(wait), now)
	return r
}

// updateState updates the State, which logs a failed write itself.
func (t *Target) updateState(change func(*Status)) { _ = t.cfg.State.update(t.cfg.Name, false, change) }

// Classify maps the status of a response to the outcome of the delivery (section 9.2 of the
// draft). keyed reports that the request had an Idempotency-Key. A redirect is classified only if
// it was not followed. Status 0 means that the response was not complete: the outcome is unknown
// (section 9.3).
//
// A 409 to a keyed request is Transient. The delivery draft defers to the idempotency draft
// (section 9.4), where another request with the key is still being processed, and a repetition
// gets its response later (draft-ietf-httpapi-idempotency-key-header-07 section 2.7).
//
// A 207 reports several outcomes, which are not distinguished: it is neither accepted nor retried.
// A number that is not an HTTP status counts as a server error (RFC 9110 section 15).
func Classify(status int, keyed bool) Outcome {
	switch {
	case status == http.StatusMultiStatus:
		return Terminal
	case status >= 200 && status < 300:
		return Accepted
	case status == http.StatusConflict && keyed:
		return Transient
	case status == http.StatusRequestTimeout, status == http.StatusMisdirectedRequest,
		status == http.StatusTooEarly, status == http.StatusTooManyRequests, status < 200, status >= 500:
		return Transient
	}
	return Terminal
}

// maxWait bounds a Retry-After: a century, more than any total retry time.
const maxWait = 100 * 365 * 24 * time.Hour

// parseRetryAfter returns the wait of a Retry-After field (RFC 9110 section 10.2.3), delay-seconds
// or an HTTP-date. Zero (section 9.5 of the draft: no preference), a past date and malformed
// values mean no wait. Of several lines the longest wait counts.
func parseRetryAfter(lines []string, now time.Time) time.Duration {
	var longest time.Duration
	for _, line := range lines {
		text := strings.Trim(line, " \t")
		if text != "" && strings.Trim(text, "0123456789") == "" {
			n, _ := strconv.ParseInt(text, 10, 64) // the largest number if text is out of range
			longest = max(longest, time.Duration(min(n, int64(maxWait/time.Second)))*time.Second)
		} else if at, err := http.ParseTime(text); err == nil {
			longest = max(longest, min(at.Sub(now), maxWait))
		}
	}
	return longest
}

// parseSunset returns the time of a valid Sunset field (RFC 8594 section 3), else the zero time.
func parseSunset(lines []string) time.Time {
	if len(lines) == 1 {
		if at, err := http.ParseTime(strings.Trim(lines[0], " \t")); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}
