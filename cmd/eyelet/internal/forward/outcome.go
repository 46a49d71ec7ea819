package forward

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// evaluate says what came of an attempt, and keeps what it teaches about the target.
func (t *Target) evaluate(ev Event, s response, now time.Time) Result {
	r := Result{Outcome: Classify(s.status, true), Status: s.status, ContentType: s.contentType, Body: s.body, Err: s.err}
	if s.status != 0 && r.Outcome != Accepted && r.Err == nil {
		r.Err = fmt.Errorf("the target answered %d", s.status)
	}
	if s.moved != nil {
		t.learn(func(st *Status) { // what the old URL said does not hold for the new one
			st.Moved, st.Sunset, st.Terminals = s.moved.String(), time.Time{}, 0
		})
		r.Outcome, r.Err = Transient, errors.New("the target moved (308): the next attempt goes to its new URL")
		return r
	}
	t.learn(func(st *Status) { st.recordSunset(s) })
	if sunset := t.cfg.State.get(t.cfg.Name).Sunset; r.Outcome == Transient && !s.ours && !sunset.IsZero() && !now.Before(sunset) {
		r.Outcome, r.Err = Terminal, fmt.Errorf("the target has ended, as its Sunset of %s said: %w", sunset.Format(time.RFC3339), r.Err)
	}
	t.learn(func(st *Status) { st.count(r, t.cfg.TerminalLimit, now) })
	if r.Outcome == Transient {
		return t.postpone(ev, r, parseRetryAfter(s.retryAfter, now), now)
	}
	return r
}

// recordSunset notes the Sunset of a response. An acceptance without one takes an earlier one back; a failure may come
// from somebody in between, who knows nothing of it.
func (st *Status) recordSunset(s response) {
	if Classify(s.status, true) == Accepted || !s.sunset.IsZero() {
		st.Sunset = s.sunset
	}
}

// count notes an outcome: 410, and too many Terminal ones in a row, switch the target off (sections 9.2.3 and
// 11.8 of the draft).
func (st *Status) count(r Result, limit int, now time.Time) {
	switch r.Outcome {
	case Accepted:
		st.Terminals = 0
	case Terminal:
		st.Terminals++
		switch {
		case r.Status == http.StatusGone:
			st.switchOff("it answered 410: it is gone", now)
		case st.Terminals >= limit:
			st.switchOff(fmt.Sprintf("%d events in a row were refused for good, the last one so: %v", st.Terminals, r.Err), now)
		}
		if r.Status == http.StatusUnavailableForLegalReasons {
			st.Legal = now.UTC()
		}
	}
}

// postpone makes the target's Retry-After the lower bound of the next attempt (section 9.6). A wait that ends
// after the total retry time ends the event instead.
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
		r.Err = fmt.Errorf("%w, and wants to be left alone for %v, which is beyond the total retry time", r.Err, wait)
		return r
	}
	r.NotBefore = wait
	t.held.hold(ev.ID, now.Add(wait), now)
	return r
}

// learn changes what is known about the target. That it may not reach the disk is logged by the state.
func (t *Target) learn(change func(*Status)) { _ = t.cfg.State.update(t.cfg.Name, change) }

// Classify maps the status of a whole response to a delivery to its outcome, as section 9.2 of the draft has it. keyed says
// that the request carried an Idempotency-Key. Redirects are judged here only when they are not followed. A status of 0
// means that no whole response came, so that the outcome is unknown (section 9.3).
//
// A 409 to a keyed request is Transient: the delivery draft leaves the processing of the field to the idempotency draft
// (section 9.4), by which another delivery of the event is being answered, and the same request gets that answer later
// (draft-ietf-httpapi-idempotency-key-header-07 section 2.7).
//
// A 207 reports several outcomes, none of which can be told apart here. It is neither accepted nor sent again. What is not a
// status of HTTP counts as a failure of the server (RFC 9110 section 15).
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
