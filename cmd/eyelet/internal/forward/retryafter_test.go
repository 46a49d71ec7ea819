package forward

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRetryAfterIsTheLowerBound is row R175: seconds, none, a date, and a wait beyond the total
// retry time.
func TestRetryAfterIsTheLowerBound(t *testing.T) {
	t.Parallel()
	date := newClock().Now().Add(45 * time.Second).Format(http.TimeFormat)
	for value, bound := range map[string]time.Duration{
		"30": 30 * time.Second, "0": 0, date: 45 * time.Second, "-1": 0, "+1": 0, "soon": 0, "1.5": 0,
		"7200":                          2 * time.Hour,
		"Mon, 01 Jan 2001 00:00:00 GMT": 0,
	} {
		r := deliver(t, to(t, plain(t, says(503, "Retry-After", value)).URL, nil), "1")
		want(t, r, Transient, 503)
		if r.NotBefore != bound {
			t.Errorf("%q: not before %v, want %v", value, r.NotBefore, bound)
		}
	}
	for _, value := range []string{"315360000", newClock().Now().AddDate(10, 0, 0).Format(http.TimeFormat),
		"99999999999999999999999999"} {
		r := deliver(t, to(t, plain(t, says(503, "Retry-After", value)).URL, nil), "1")
		want(t, r, Terminal, 503)
		if r.Err == nil || !strings.Contains(r.Err.Error(), "beyond the total retry time") {
			t.Errorf("%q: the reason is %v", value, r.Err)
		}
	}
}

func TestTheTotalRetryTimeBeginsWithTheAcceptance(t *testing.T) {
	t.Parallel()
	for age, outcome := range map[time.Duration]Outcome{0: Transient, time.Hour: Transient, 9 * time.Hour: Terminal,
		11 * time.Hour: Transient} {
		target := to(t, plain(t, says(429, "Retry-After", "7200")).URL, func(c *Config) {
			c.TotalRetryTime = 10 * time.Hour
		})
		ev := event("1")
		ev.Accepted = ev.Accepted.Add(-age)
		want(t, target.Deliver(t.Context(), ev), outcome, 429)
	}
}

// TestRetryAfterBeyondTheTotalTimeDoesNotCountAgainstTheTarget: ten such events do not switch it
// off.
func TestRetryAfterBeyondTheTotalTimeDoesNotCountAgainstTheTarget(t *testing.T) {
	t.Parallel()
	target := to(t, plain(t, says(503, "Retry-After", "315360000")).URL, nil)
	for _, id := range ids("e", DefaultTerminalLimit+2) {
		want(t, deliver(t, target, id), Terminal, 503)
	}
}

// TestARetryAfterDefersTheSameEvent: as when a producer retries a relayed delivery.
func TestARetryAfterDefersTheSameEvent(t *testing.T) {
	t.Parallel()
	now := newClock()
	f := plain(t, says(503, "Retry-After", "60"), says(200))
	target := to(t, f.URL, func(c *Config) { c.Now = now.Now })
	want(t, deliver(t, target, "1"), Transient, 503)
	now.add(59 * time.Second)
	if r := deliver(t, target, "1"); r.Outcome != Deferred || r.NotBefore != time.Second {
		t.Errorf("%v, not before %v", r.Outcome, r.NotBefore)
	}
	want(t, deliver(t, target, "another"), Accepted, 200)
	now.add(time.Second)
	want(t, deliver(t, target, "1"), Accepted, 200)
	if n := len(f.requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestHeldEventsAreBounded(t *testing.T) {
	t.Parallel()
	var h holds
	now := newClock().Now()
	for i, id := range ids("e", maxHeld+5) {
		h.hold(id, now.Add(time.Hour+time.Duration(i)*time.Second), now)
	}
	h.hold("", now.Add(time.Hour), now)
	if len(h.until) != maxHeld {
		t.Errorf("%d are held", len(h.until))
	}
	if h.left("e0", now) != 0 || h.left("e5", now) == 0 {
		t.Error("the wait that ends first is not dropped first")
	}
	h.hold("late", now.Add(1000*time.Hour), now.Add(100*time.Hour))
	if len(h.until) != 1 {
		t.Errorf("%d are held after all but one have ended", len(h.until))
	}
}

func TestRetryAfterIsParsed(t *testing.T) {
	t.Parallel()
	now := newClock().Now()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, int64(maxWait/time.Second)).Draw(t, "seconds")
		pad := strings.Repeat("0", rapid.IntRange(0, 30).Draw(t, "zeros"))
		if got := parseRetryAfter([]string{" " + pad + fmt.Sprint(n) + "\t"},
			now); got != time.Duration(n)*time.Second {
			t.Fatalf("%d seconds are %v", n, got)
		}
		layout := rapid.SampledFrom([]string{http.TimeFormat, time.RFC850, time.ANSIC}).Draw(t, "layout")
		at := now.Add(time.Duration(rapid.Int64Range(-1e6, 1e6).Draw(t, "date")) * time.Second)
		text := strings.Replace(at.Format(layout), "UTC", "GMT", 1)
		if got := parseRetryAfter([]string{text}, now); got != max(0, at.Sub(now)) {
			t.Fatalf("%q is %v, want %v", text, got, at.Sub(now))
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "30", "99999999999999999999", "-1", "Sun, 06 Nov 1994 08:49:37 GMT",
		"Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "１２"} {
		f.Add(seed)
	}
	now := newClock().Now()
	f.Fuzz(func(t *testing.T, text string) {
		if got := parseRetryAfter([]string{text, "1"}, now); got < time.Second || got > maxWait {
			t.Errorf("%q is %v", text, got)
		}
		parseSunset([]string{text})
	})
}

// TestSunsetMakesTheNextFailureTerminal is row R179.
func TestSunsetMakesTheNextFailureTerminal(t *testing.T) {
	t.Parallel()
	now := newClock()
	end := now.Now().Add(time.Hour)
	f := plain(t, says(200, "Sunset", end.Format(http.TimeFormat)), says(503), says(503), says(404),
		says(200, "Sunset", end.Format(http.TimeFormat)), says(503), says(200), says(503))
	target := to(t, f.URL, func(c *Config) { c.Now = now.Now })
	want(t, deliver(t, target, "1"), Accepted, 200)
	want(t, deliver(t, target, "2"), Transient, 503)
	now.add(time.Hour)
	r := deliver(t, target, "3")
	want(t, r, Terminal, 503)
	if !strings.Contains(r.Err.Error(), "Sunset") {
		t.Errorf("reason %v", r.Err)
	}
	want(t, deliver(t, target, "4"), Terminal, 404)
	want(t, deliver(t, target, "5"), Accepted, 200) // an acceptance stays an acceptance
	want(t, deliver(t, target, "6"), Terminal, 503)
	want(t, deliver(t, target, "7"), Accepted, 200) // and clears the announcement
	want(t, deliver(t, target, "8"), Transient, 503)
	f.Close()
	want(t, deliver(t, target, "9"), Transient, 0)
}

func TestASunsetInThePastAppliesAtOnce(t *testing.T) {
	t.Parallel()
	past := newClock().Now().Add(-time.Hour).Format(http.TimeFormat)
	want(t, deliver(t, to(t, plain(t, says(503, "Sunset", past)).URL, nil), "1"), Terminal, 503)
	for _, odd := range [][]string{{"Sunset", "yesterday"}, {"Sunset", past, "Sunset", past}} {
		want(t, deliver(t, to(t, plain(t, says(503, odd...)).URL, nil), "1"), Transient, 503)
	}
	f := plain(t, says(200, "Sunset", past))
	target := to(t, f.URL, nil)
	want(t, deliver(t, target, "1"), Accepted, 200)
	f.Close() // an unreachable target does not accept either
	want(t, deliver(t, target, "2"), Terminal, 0)
}
