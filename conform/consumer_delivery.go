package conform

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// deliveryChecks are those of what a producer relies on, and of CloudEvents.
var deliveryChecks = map[string]steps{
	"C608": batch,
	"C609": mixedBatch,
	"C611": handshake,
	"C701": func(ctx context.Context, t *run) error {
		const takes = 1500 * time.Millisecond
		a, err := t.accepted(ctx, t.waiting(takes))
		return cmp.Or(err, wrongIf(a.took >= takes, "%s after %s", a, a.took.Round(time.Millisecond)))
	},
	"C702": func(ctx context.Context, t *run) error {
		const takes = 600 * time.Millisecond
		d := t.waiting(takes)
		if _, err := t.accepted(ctx, d); err != nil {
			return err
		}
		if a := t.send(ctx, d.again()); !t.accepts(a) {
			return wrong("while it is handled: %s", a)
		}
		time.Sleep(takes)
		return t.once(ctx, d.id)
	},
	"C703": known(func(ctx context.Context, t *run, d *delivery, _ *answer) error {
		other, err := t.conflict(d).as(t.p.with(t.p.Other))
		if err != nil {
			return err
		}
		return twice(ctx, t, "of another producer", other)
	}),
	"C704": known(func(ctx context.Context, t *run, d *delivery, _ *answer) error {
		u, err := url.Parse(t.p.OtherURL)
		if err != nil || u.Port() != t.url.Port() {
			return notJudged("other_url %s is not that of an endpoint at the port of the URL: %v", t.p.OtherURL, err)
		}
		other := t.conflict(d)
		other.target, other.host = u.RequestURI(), u.Host
		return twice(ctx, t, "at another endpoint", other.sign())
	}),
	"C705": func(ctx context.Context, t *run) error {
		for _, one := range attemptsOf(t, "C705") {
			d := one.make(t)
			a := t.send(ctx, d)
			isBroken := a.status >= 500 && a.status != http.StatusServiceUnavailable
			if isBroken || a.is(http.StatusRequestTimeout, http.StatusTooEarly) {
				return wrong("%s, which a producer repeats", a)
			}
			if a.isRefusal() {
				if err := unhandled(ctx, t, a.String(), d.id); err != nil {
					return err
				}
			}
		}
		return nil
	},
	"C706": func(ctx context.Context, t *run) error {
		t.mu.Lock()
		ids := t.refused
		t.mu.Unlock()
		if len(ids) == 0 {
			return notJudged("no event was refused")
		}
		time.Sleep(t.p.Settle / 4)
		for _, id := range ids {
			if n, err := t.effectsOf(ctx, id); err != nil || n > 0 {
				return cmp.Or(err, wrong("the event %s was refused, and handled", id))
			}
		}
		return nil
	},
	"C707": func(ctx context.Context, t *run) error {
		if !slices.ContainsFunc(t.answers(), t.accepts) {
			return notJudged("no event was accepted before")
		}
		_, err := t.accepted(ctx, t.delivery())
		return wrongIf(err != nil, "%v", err)
	},
}

// batchOf returns a batch of events.
func batchOf(t *run, events ...*delivery) *delivery {
	var bodies [][]byte
	for _, d := range events {
		bodies = append(bodies, d.body)
	}
	b := t.unsigned().set("Content-Type", t.p.Batch)
	b.body = append(append([]byte("["), bytes.Join(bodies, []byte(","))...), ']')
	return b.sign()
}

func batch(ctx context.Context, t *run) error {
	a, b, c := t.delivery(), t.delivery(), t.delivery()
	for _, events := range [][]*delivery{{a, b}, {b, c}} {
		if got := t.send(ctx, batchOf(t, events...)); !t.accepts(got) {
			return wrong("a batch got %s", got)
		}
	}
	for _, d := range []*delivery{a, b, c} {
		if err := exactly(ctx, t, 1, "the event "+d.id, d.id); err != nil {
			return err
		}
	}
	return nil
}

func mixedBatch(ctx context.Context, t *run) error {
	good, bad := t.delivery(), t.unsigned()
	if _, err := t.accepted(ctx, batchOf(t, good)); err != nil {
		return err
	}
	good = t.delivery()
	a := t.send(ctx, batchOf(t, good, bad.edit("type", "")))
	wanted := 0
	if t.accepts(a) {
		wanted = 1
	}
	n, err := t.settled(ctx, good.id, 1)
	if err != nil || n != wanted {
		return cmp.Or(err, wrong("the batch got %s, and its good event was handled %d times", a, n))
	}
	return unhandled(ctx, t, "the malformed event", bad.id)
}

func handshake(ctx context.Context, t *run) error {
	d := t.delivery().add("WebHook-Request-Origin", "conform.example").add("WebHook-Request-Rate", "120")
	d.method, d.body = http.MethodOptions, nil
	a := t.send(ctx, d)
	origin := a.field("WebHook-Allowed-Origin")
	switch {
	case origin == "" && a.field("WebHook-Allowed-Rate") != "":
		return wrong("a rate without an origin")
	case origin == "":
		return notApplicable("it grants no OPTIONS: %s", a)
	case origin != "*" && origin != "conform.example":
		return wrong("WebHook-Allowed-Origin: %s", origin)
	case a.field("WebHook-Allowed-Rate") == "":
		return wrong("no WebHook-Allowed-Rate")
	}
	return nil
}
