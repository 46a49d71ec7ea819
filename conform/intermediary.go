package conform

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"
)

// maxQuiet is how long the kit waits at most for a request that must not come.
const maxQuiet = 3 * time.Second

func (t *run) quiet() time.Duration { return min(maxQuiet, t.o.MaxWait) }

// intermediaryChecks are those of programs that receive deliveries and send them on.
var intermediaryChecks = map[string]steps{
	"I101": arrives(func(_ *run, d *delivery, a *arrival) error {
		return wrongIf(!bytes.Equal(a.body, d.body), "the target got another body: %s", short(string(a.body)))
	}),
	"I102": arrives(func(_ *run, _ *delivery, a *arrival) error {
		return wrongIf(a.header.Get("Via") == "", "the target got no Via")
	}),
	"I103": arrives(func(_ *run, d *delivery, a *arrival) error {
		sent := d.lines("Idempotency-Key")[0]
		got := a.header.Get("Idempotency-Key")
		return wrongIf(got != sent, "the target got Idempotency-Key %q, not %q", got, sent)
	}),
	"I104": func(ctx context.Context, t *run) error {
		d := t.delivery().set("Connection", "X-Conform-Hop").set("X-Conform-Hop", "1")
		_, a, err := t.relayed(ctx, d)
		if err == nil && a.header.Get("X-Conform-Hop") != "" {
			err = wrong("the target got X-Conform-Hop")
		}
		return err
	},
	"I105": func(ctx context.Context, t *run) error {
		_, a, _, err := t.answered(ctx, status(http.StatusServiceUnavailable, "Retry-After", "77"))
		isSame := a.field("Retry-After") == "77"
		return cmp.Or(err, wrongIf(isSame, "the producer got the target's Retry-After: 77"))
	},
	"I106": retried(408, 421, 425, 429, 500, 502, 503, 504, 511),
	"I107": multiStatus,
	"I108": retried(cut),
	"I109": func(ctx context.Context, t *run) error {
		for _, code := range []int{400, 404, 413, 415, 422} {
			d, _, _, err := t.answered(ctx, status(code))
			if err != nil {
				return err
			}
			if len(t.sink.wait(ctx, 0, d.arrived, 2, t.quiet())) > 1 {
				return wrong("after %d the target got the event again", code)
			}
		}
		return nil
	},
	"I110": func(ctx context.Context, t *run) error {
		const wait = 3 * time.Second
		d := t.delivery()
		t.sink.script(d.id, status(http.StatusServiceUnavailable, "Retry-After", "3"), status(http.StatusAccepted))
		a := t.send(ctx, d)
		all := t.sink.wait(ctx, 0, d.arrived, 2, t.o.MaxWait+maxRetryAfter)
		switch {
		case !t.accepts(a):
			return notJudged("the producer must retry: it got %s", a)
		case len(all) < 2:
			return t.late("accepted upstream, but not sent again")
		case all[1].at.Sub(all[0].at) < wait:
			return wrong("sent again after %s, before the 3 s of Retry-After",
				all[1].at.Sub(all[0].at).Round(time.Millisecond))
		}
		return nil
	},
	"I111": func(ctx context.Context, t *run) error {
		elsewhere := status(http.StatusTemporaryRedirect, "Location", t.sink.url+"/conform-307")
		if _, _, _, err := t.answered(ctx, elsewhere); err != nil {
			return err
		}
		_, a, err := t.relayed(ctx, t.delivery())
		if err == nil && a.target == "/conform-307" {
			err = wrong("the event after a 307 was sent to its Location")
		}
		return err
	},
	"I115": permanent,
	"I112": func(ctx context.Context, t *run) error {
		_, a, err := t.relayed(ctx, t.delivery())
		if err != nil {
			return err
		}
		via := a.header.Get("Via")
		if via == "" {
			return notJudged("it has no name: the target got no Via")
		}
		d := t.delivery().set("Via", via)
		back := t.send(ctx, d)
		isSentOn := len(t.sink.wait(ctx, 0, d.arrived, 1, t.quiet())) > 0
		return wrongIf(isSentOn, "a delivery with its own name in Via got %s and was sent on", back)
	},
	"I113": arrives(func(t *run, _ *delivery, a *arrival) error {
		_, err := t.proofOf(a, t.url.Scheme, t.url.Host, t.url.RequestURI())
		if err != nil {
			_, err = t.proofOf(a, "http", a.host, a.target)
		}
		isSigned := a.header.Get("Signature") != ""
		return wrongIf(isSigned && err != nil, "the target got a signature that is not valid: %v", err)
	}),
	"I114": arrives(func(_ *run, d *delivery, a *arrival) error {
		return wrongIf(a.has(string(d.secret)), "the target got the producer's token")
	}),
}

// late is what did not come in the time that its user says. The default time says nothing.
func (t *run) late(format string, a ...any) error {
	text := fmt.Sprintf(format, a...) + " within " + t.o.MaxWait.String()
	if t.o.isPatient {
		return notJudged("%s: --max-wait says when it must come", text)
	}
	return wrong("%s", text)
}

// arrives is the run of a check of a delivery as the target gets it.
func arrives(compare func(t *run, d *delivery, a *arrival) error) steps {
	return func(ctx context.Context, t *run) error {
		d, a, err := t.relayed(ctx, t.delivery())
		if err != nil {
			return err
		}
		return compare(t, d, a)
	}
}

// arrived reports whether an arrival is of the event of a delivery.
func (d *delivery) arrived(a *arrival) bool { return a.has(d.id) }

// relayed sends a delivery that must be accepted, and returns it as the target got it.
func (t *run) relayed(ctx context.Context, d *delivery) (*delivery, *arrival, error) {
	if _, err := t.accepted(ctx, d); err != nil {
		return d, nil, err
	}
	all := t.sink.wait(ctx, 0, d.arrived, 1, t.o.MaxWait)
	if len(all) == 0 {
		return d, nil, t.late("it was accepted, but did not reach the target")
	}
	t.noteArrival(all[0])
	return d, all[0], nil
}

// answered sends a delivery that the target answers as given at first, and later accepts. It
// returns the delivery, its response, and the first request to the target.
func (t *run) answered(ctx context.Context, answer respond) (*delivery, *answer, *arrival, error) {
	d := t.delivery()
	t.sink.script(d.id, answer, status(http.StatusAccepted))
	a := t.send(ctx, d)
	all := t.sink.wait(ctx, 0, d.arrived, 1, t.o.MaxWait)
	if len(all) == 0 {
		return d, a, nil, notJudged("the delivery did not reach the target")
	}
	return d, a, all[0], nil
}

// noteArrival keeps an arrival for the report, without credentials: they may not be those of the
// profile.
func (t *run) noteArrival(a *arrival) {
	t.keep(Exchange{Request: credentialField.ReplaceAllString(a.text(), "$1: [credential]")})
}

// multiStatus lets the target take its time for a 207. Only an intermediary that waits for it can
// be seen to take it for a success: another one gives the event up, or is done with it.
func multiStatus(ctx context.Context, t *run) error {
	const pause = 500 * time.Millisecond
	began := time.Now()
	d, a, first, err := t.answered(ctx, func(w http.ResponseWriter) {
		time.Sleep(pause)
		w.WriteHeader(http.StatusMultiStatus)
	})
	switch {
	case err != nil:
		return err
	case !t.accepts(a):
		return nil
	case len(t.sink.wait(ctx, 0, d.arrived, 2, t.quiet())) > 1:
		return nil
	case began.Add(a.took).Before(first.at.Add(pause / 2)): // not both times are exact
		return notJudged("the event was accepted before: whether it is given up or done cannot be seen")
	}
	return wrong("207 of the target was accepted upstream")
}

// permanent moves the target for good, and then back to where it was.
func permanent(ctx context.Context, t *run) error {
	_, first, err := t.relayed(ctx, t.delivery())
	if err != nil {
		return err
	}
	for _, target := range []string{first.target + "-308", first.target} {
		d, a, _, err := t.answered(ctx, status(http.StatusPermanentRedirect, "Location", t.sink.url+target))
		if err != nil {
			return err
		}
		all := t.sink.wait(ctx, 0, d.arrived, 2, t.o.MaxWait)
		switch isMoved := len(all) > 1 && all[1].target == target; {
		case !t.accepts(a) && !isMoved:
			return notApplicable("the producer is told, and must repeat the event: it got %s", a)
		case !isMoved:
			return t.late("accepted upstream, but not sent to the Location of a 308")
		}
		if _, next, err := t.relayed(ctx, t.delivery()); err != nil || next.target != target {
			return cmp.Or(err, wrong("the event after a 308 was not sent to its Location"))
		}
	}
	return nil
}

// retried lets the target respond once with each failure. The intermediary may report that
// upstream, or must send the event again, with the same key.
func retried(codes ...int) steps {
	return func(ctx context.Context, t *run) error {
		for _, code := range codes {
			d, a, _, err := t.answered(ctx, status(code))
			if err != nil {
				return err
			}
			if !t.accepts(a) {
				continue
			}
			all := t.sink.wait(ctx, 0, d.arrived, 2, t.o.MaxWait)
			if len(all) < 2 {
				return t.late("%s of the target was accepted upstream, and not retried", outcome(code))
			}
			if one, two := t.p.keyOf(all[0]), t.p.keyOf(all[1]); one != two {
				return wrong("the retry after %s has the identifier %q, the first attempt %q", outcome(code), two, one)
			}
		}
		return nil
	}
}
