package receiver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// takeIn is [Receiver.TakeIn] at its endpoint.
func (ep *endpoint) takeIn(ctx context.Context, f producer.Listed, dry bool) (fresh bool, event string, err error) {
	if int64(len(f.Body)) > ep.p.MaxBody {
		return false, "", &verify.Error{Code: verify.EventMalformed, Component: "body",
			Err: verify.Public("it is longer than a delivery may be")}
	}
	d, err := ep.deliveryOf(ctx, f)
	if err != nil {
		return false, "", err
	}
	entries := d.entries(ctx)
	probe := entries[0].claim
	probe.OnlyKnown, probe.Hold = true, false
	decisions, err := ep.rx.claim(ctx, probe)
	if err != nil {
		return false, "", err
	}
	if known := decisions[0]; known.Verdict != dedup.New || dry {
		return known.Verdict == dedup.New, known.Record.Event, nil
	}
	resp, err := d.accept(ctx)
	if err != nil {
		return false, "", err
	}
	if resp.refund {
		d.share.Refund()
	}
	return resp.fresh, resp.event, nil
}

// deliveryOf returns the delivery that an event would have had, without what only its sender knows.
func (ep *endpoint) deliveryOf(ctx context.Context, f producer.Listed) (*delivery, error) {
	d := &delivery{rx: ep.rx, ep: ep, fetched: f.From, happened: f.Time, received: f.Body, verified: ep.rx.cfg.Clock()}
	d.target.path = webhooksPath + ep.p.Name
	d.request = http.Request{
		Method: ep.p.Methods[0], Host: ep.host(), Header: http.Header{"Content-Type": {"application/json"}},
	}
	var err error
	if d.url, err = ep.publicURL(&d.request, d.target); err != nil {
		return nil, fail(codeTargetMalformed, nil)
	}
	d.request.URL, d.request.Body = &d.url, http.NoBody
	d.r = d.request.WithContext(ctx)
	d.Request, d.Body = d.r, f.Body
	d.Identity = verify.Identity{Covered: []string{"@body"}}
	if d.Identity.Principal, _ = ep.p.Principal(); d.Identity.Principal == ep.p.Name {
		d.Identity.Principal = ""
	}
	if scheme, ok := ep.p.Scheme.(verify.Binder); ok && scheme.Binds().Time {
		d.Identity.SignedAt = f.Time // its delivery would have had a signed time, and is not remembered for longer
	}
	it, err := ep.p.ItemOf(&d.Delivery, f)
	if err != nil {
		return nil, err
	}
	d.items, d.id, d.typ = []producer.Item{it}, it.ID, it.Type
	return d, nil
}

// Wait returns after which time a call that failed may succeed, such as one over the rate of its
// producer; 0 if that is not known.
func Wait(err error) time.Duration {
	f, ok := errors.AsType[*failure](err)
	switch {
	case !ok:
		return 0
	case f.code == codeAtCapacity:
		return time.Second
	}
	return f.after
}
