package receiver

import (
	"context"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

// The reasons why deliveries are quarantined; the last two come from what is remembered beyond the window.
const (
	reasonConflict   = "conflict"        // another payload under a known identifier
	reasonReplayed   = "replayed"        // signed bytes, time included, that came before under another identifier
	reasonSameBytes  = "same_bytes"      // signed content without a time that came before under another identifier
	reasonSuperseded = "superseded"      // content of a series that was replaced by newer content
	reasonSeenBefore = "seen_before"     // the event was accepted, and its outcome is no longer kept
	reasonTooOld     = "too_old_to_tell" // it happened before the days that are remembered
)

// remember is what a claim asks the store to remember beyond its window; nil for nothing.
func (d *delivery) remember() *dedup.Remember {
	if !d.ep.p.Remembers(d.Identity) {
		return nil
	}
	return &dedup.Remember{Time: d.ep.p.HappenedAt(d.Delivery)}
}

// beyond is the reason why an event is not run that the store does not take for new.
func beyond(v dedup.Verdict) string {
	switch v {
	case dedup.Seen:
		return reasonSeenBefore
	case dedup.TooOld:
		return reasonTooOld
	}
	return ""
}

// keepBeyond quarantines an event that was accepted before its window ended, or may have been, with its body: that of the
// event before is gone. Under the API contract it is refused, because a 2xx would say that it is processed.
func (d *delivery) keepBeyond(ctx context.Context, e entry, decision dedup.Decision) (*reply, error) {
	if d.ep.p.Contract == producer.API {
		if decision.Verdict == dedup.Seen && d.namedByContent(e) {
			return nil, d.refuseReplayed()
		}
		return nil, fail(codeReplayed, nil)
	}
	return d.keepAside(ctx, e, d.aside(e, beyond(decision.Verdict), decision.Record.Event, maxReplayed), decision.Record)
}
