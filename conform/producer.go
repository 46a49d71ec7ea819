package conform

import (
	"bytes"
	"context"
	"crypto/sha512"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// producerChecks are those of programs that send deliveries. Each makes the producer send an event.
var producerChecks = map[string]steps{
	"P101": func(ctx context.Context, t *run) error {
		a, err := t.event(ctx, status(http.StatusAccepted))
		switch {
		case err != nil:
			return err
		case a.method != t.p.Method:
			return wrong("it was sent with %s", a.method)
		case len(a.body) > 0 && a.header.Get("Content-Type") == "":
			return wrong("it has no Content-Type")
		}
		return nil
	},
	"P102": func(ctx context.Context, t *run) error {
		_, _, err := t.signedEvent(ctx)
		return err
	},
	"P103": func(ctx context.Context, t *run) error {
		a, proof, err := t.signedEvent(ctx)
		if err != nil {
			return err
		}
		needed := []string{"@method"}
		hasPath := proof.covers("@path") || proof.covers("@request-target")
		if !proof.covers("@target-uri") && (!proof.covers("@authority") || !hasPath) {
			return wrong("neither @target-uri nor @authority with @path is covered")
		}
		if len(a.body) > 0 {
			needed = append(needed, "content-digest")
		}
		if name := t.p.keyField(); name != "" {
			needed = append(needed, strings.ToLower(name))
		}
		for _, name := range needed {
			if !proof.covers(name) {
				return wrong("%s is not covered", name)
			}
		}
		digest, wide := a.header.Get("Content-Digest"), "sha-512=:"+sumOf(sha512.New(), a.body, sha512.Size)+":"
		isRight := strings.Contains(digest, digestOf(a.body)) || strings.Contains(digest, wide)
		return wrongIf(len(a.body) > 0 && !isRight, "Content-Digest is not that of the body: %s", digest)
	},
	"P104": func(ctx context.Context, t *run) error {
		a, proof, err := t.signedEvent(ctx)
		if err != nil {
			return err
		}
		if proof.at.IsZero() {
			return wrong("no time is signed")
		}
		age := a.at.Sub(proof.at)
		isOff := age.Abs() > max(t.p.Tolerance, time.Minute)
		return wrongIf(isOff, "the signed time is %s from that of arrival", age.Round(time.Second))
	},
	"P105": func(ctx context.Context, t *run) error {
		one, err := t.event(ctx, status(http.StatusAccepted))
		if err != nil {
			return err
		}
		two, err := t.event(ctx, status(http.StatusAccepted))
		if err != nil {
			return err
		}
		a, b := t.p.keyOf(one), t.p.keyOf(two)
		switch {
		case a == "" || b == "":
			return wrong("a delivery has no identifier")
		case a == b:
			return wrong("two events have the identifier %s", a)
		case t.facts()["idempotency-key"] && !sfString.MatchString(a):
			return wrong("Idempotency-Key %s is not a structured-field String", a)
		}
		return nil
	},
	"P106": repeated(500, 429, 408, 425),
	"P107": repeated(cut),
	"P108": repeated(http.StatusConflict),
	"P109": func(ctx context.Context, t *run) error {
		for _, inDate := range []bool{false, true} {
			value := "3"
			if inDate {
				value = time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat)
			}
			all, err := t.attempts(ctx, t.o.MaxWait+maxRetryAfter,
				status(http.StatusServiceUnavailable, "Retry-After", value), status(http.StatusAccepted))
			if err != nil {
				return err
			}
			if len(all) < 2 {
				return notJudged("no retry came within %s", t.o.MaxWait)
			}
			least := all[0].at.Add(3 * time.Second)
			if at, err := http.ParseTime(value); err == nil {
				least = at
			}
			if all[1].at.Before(least) {
				return wrong("with Retry-After: %s it came %s too early", value,
					least.Sub(all[1].at).Round(time.Millisecond))
			}
		}
		return nil
	},
	"P110": ends(200, 201, 202, 204),
	"P111": ends(400, 403, 404, 413, 415, 422),
	"P112": func(ctx context.Context, t *run) error {
		if err := ends(http.StatusGone)(ctx, t); err != nil {
			return err
		}
		from := t.sink.expect(status(http.StatusGone))
		if t.trigger(ctx) != nil {
			return nil // it says so
		}
		all := t.sink.wait(ctx, from, ours, 1, t.o.MaxWait)
		return wrongIf(len(all) > 0, "after 410 the next event was sent")
	},
}

// sfString matches a String of RFC 9651.
var sfString = regexp.MustCompile(`^"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])+"$`)

// trigger makes the producer send an event.
func (t *run) trigger(ctx context.Context) error {
	url := t.sink.url + "/hook"
	if t.p.Trigger != "" {
		if _, err := t.command(ctx, t.p.Trigger, "URL="+url); err != nil {
			return notJudged("%v", err)
		}
		return nil
	}
	if t.o.Waiting != nil {
		t.o.Waiting(t.check.number + " " + t.check.title + ": make it send a new event to " + url)
	}
	return nil
}

// maxRetryAfter is the longest Retry-After that the checks send.
const maxRetryAfter = 4 * time.Second

// attempts triggers an event, responds to its attempts in turn, and returns the first, and those
// that come until a second one does, or the wait for it ends.
func (t *run) attempts(ctx context.Context, retry time.Duration, answers ...respond) ([]*arrival, error) {
	from := t.sink.expect(answers...)
	if err := t.trigger(ctx); err != nil {
		return nil, err
	}
	all := t.sink.wait(ctx, from, ours, 1, t.o.MaxWait)
	if len(all) == 0 { // an event with the key of another one is seen now
		all = t.sink.arrivals(from, func(*arrival) bool { return true })
	}
	if len(all) == 0 {
		return nil, notJudged("no delivery came within %s", t.o.MaxWait)
	}
	t.noteArrival(all[0])
	if retry == 0 {
		return all[:1], nil
	}
	all = t.sink.wait(ctx, from, ours, 2, retry)
	for _, a := range all[1:] {
		t.noteArrival(a)
	}
	return all, nil
}

func ours(a *arrival) bool { return a.isOurs }

// event returns a delivery of a new event.
func (t *run) event(ctx context.Context, answer respond) (*arrival, error) {
	all, err := t.attempts(ctx, 0, answer)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// signedEvent returns a delivery of a new event whose signature is valid.
func (t *run) signedEvent(ctx context.Context) (*arrival, *proof, error) {
	a, err := t.event(ctx, status(http.StatusAccepted))
	if err != nil {
		return nil, nil, err
	}
	proof, err := t.proofOf(a, "http", a.host, a.target)
	return a, proof, err
}

// repeated responds once with each outcome, which is transient. A producer that repeats none of
// them, nor a 503, may do so later.
func repeated(codes ...int) steps {
	return func(ctx context.Context, t *run) error {
		var missing []string
		repeats := false
		for _, code := range append(codes, http.StatusServiceUnavailable) {
			all, err := t.attempts(ctx, t.o.MaxWait, status(code), status(http.StatusAccepted))
			switch {
			case err != nil:
				return err
			case len(all) < 2:
				missing = append(missing, outcome(code))
			case t.check.number == "P106" && !bytes.Equal(all[0].body, all[1].body):
				return wrong("after %s it was sent again with another body", outcome(code))
			default:
				repeats = true
			}
		}
		text := "no attempt with the same identifier came after " + strings.Join(missing, ", ")
		switch {
		case missing == nil:
			return nil
		case repeats:
			return wrong("%s", text)
		}
		return t.late("%s", text)
	}
}

// ends responds with statuses that end an event each.
func ends(statuses ...int) steps {
	return func(ctx context.Context, t *run) error {
		for _, code := range statuses {
			all, err := t.attempts(ctx, t.quiet(), status(code))
			if err != nil {
				return err
			}
			if len(all) > 1 {
				return wrong("after %d it was sent again", code)
			}
		}
		return nil
	}
}
