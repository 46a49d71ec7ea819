package forward

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// conclude says what came of an attempt, and keeps what it teaches about the target.
func (t *Target) conclude(ev Event, s seen, now time.Time) Result {
	r := Result{Outcome: Judge(s.status, true), Status: s.status, ContentType: s.contentType, Body: s.body, Err: s.err}
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
	t.learn(func(st *Status) { st.heed(s) })
	if sunset := t.cfg.State.get(t.cfg.Name).Sunset; r.Outcome == Transient && !s.ours && !sunset.IsZero() && !now.Before(sunset) {
		r.Outcome, r.Err = Terminal, fmt.Errorf("the target has ended, as its Sunset of %s said: %w", sunset.Format(time.RFC3339), r.Err)
	}
	t.learn(func(st *Status) { st.count(r, t.cfg.TerminalLimit, now) })
	if r.Outcome == Transient {
		return t.postpone(ev, r, parseRetryAfter(s.retryAfter, now), now)
	}
	return r
}

// heed notes the Sunset of a response. An acceptance without one takes an earlier one back; a failure may come
// from somebody in between, who knows nothing of it.
func (st *Status) heed(s seen) {
	if Judge(s.status, true) == Accepted || !s.sunset.IsZero() {
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
