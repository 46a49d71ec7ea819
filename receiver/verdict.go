package receiver

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// The reasons why deliveries are quarantined. Seen before and too old come from what
// is remembered beyond the window.
const (
	reasonConflict   = "conflict"        // another payload under a known identifier
	reasonReplayed   = "replayed"        // signed bytes, with a time, known under another identifier
	reasonSameBytes  = "same_bytes"      // signed content without a time, known under another identifier
	reasonSuperseded = "superseded"      // older content of a series
	reasonSeenBefore = "seen_before"     // an accepted event whose outcome is no longer stored
	reasonTooOld     = "too_old_to_tell" // an event from before the remembered days
	reasonMalformed  = "malformed"       // an item of a batch that cannot be used
)

// remember sets what the store remembers of the event beyond its window, if anything.
func (d *delivery) remember(e *entry) {
	if d.ep.p.Remembers(d.Identity) {
		e.parts.remember.Time = d.ep.p.HappenedAt(&d.Delivery)
		if e.parts.remember.Time.IsZero() {
			e.parts.remember.Time = d.happened
		}
		e.claim.Remember = &e.parts.remember
	}
}

// quarantineReasons are the reasons for which items with a verdict are quarantined.
var quarantineReasons = map[dedup.Verdict]string{
	dedup.Conflict: reasonConflict, dedup.Superseded: reasonSuperseded,
	dedup.Seen: reasonSeenBefore, dedup.TooOld: reasonTooOld,
}

// quarantineForgotten quarantines an event that was, or may have been, accepted before its
// window ended. The API contract refuses it: a 2xx would mean that it is processed.
func (d *delivery) quarantineForgotten(ctx context.Context, e *entry, decision dedup.Decision) (*reply, error) {
	if d.ep.p.Contract == producer.API {
		if decision.Verdict == dedup.Seen && d.namedByContent(e) {
			return nil, d.refuseReplayed()
		}
		return nil, fail(codeSignatureReused, nil)
	}
	c := d.quarantineClaim(e, quarantineReasons[decision.Verdict], decision.Record.Event)
	return d.quarantine(ctx, e, c, decision.Record)
}

// conclude turns decisions into the reply. A batch resumes the runs of an earlier configuration's
// Answer handler that ended without a response: the sender may send their events in batches only.
func (d *delivery) conclude(ctx context.Context, entries []entry, decisions []dedup.Decision) (*reply, error) {
	if len(decisions) == 1 {
		return d.concludeOne(ctx, &entries[0], decisions[0])
	}
	fresh, known, malformed := 0, 0, 0
	var quarantined []dedup.Claim
	var originals []dedup.Record
	for i, decision := range decisions {
		switch {
		case decision.Verdict == dedup.New && entries[i].claim.Quarantine != nil:
			malformed++
			d.logQuarantine(ctx, entries[i].claim, decision, dedup.Record{})
		case decision.Verdict == dedup.New:
			d.logUnmet(ctx, &entries[i], decision)
			fresh++
		case decision.Verdict == dedup.Known && resumable(decision.Record):
			resp, err := d.resume(ctx, &entries[i], decision.Record)
			if err != nil || resp.err != nil || transient(resp.Status) {
				return resp, err
			}
			fresh++
		case decision.Verdict == dedup.Known && inFlight(decision.Record):
			return nil, fail(codeInFlight, nil)
		case decision.Verdict == dedup.Known:
			known++
		case quarantineReasons[decision.Verdict] != "":
			reason := quarantineReasons[decision.Verdict]
			quarantined = append(quarantined, d.quarantineClaim(&entries[i], reason, decision.Record.Event))
			originals = append(originals, decision.Record)
		}
	}
	kept, err := d.rx.claim(ctx, quarantined...)
	if err != nil {
		return nil, err
	}
	for i := range kept {
		d.logQuarantine(ctx, quarantined[i], kept[i], originals[i])
	}
	body := fmt.Appendf(nil, "{\"events\":%d,\"status\":\"accepted\"}\n", len(entries))
	if n := len(quarantined) + malformed; n > 0 {
		body = fmt.Appendf(nil, "{\"events\":%d,\"quarantined\":%d,\"status\":\"accepted\"}\n", len(entries), n)
	}
	resp := acceptanceReply(&d.ep.p, "", codeAccepted, body)
	resp.fresh, resp.refund = fresh > 0, fresh == 0
	switch {
	case fresh > 0:
	case len(decisions) == 0:
		resp.code = codeEmptyBatch
	case known == len(decisions):
		resp.code = codeRepeated
		resp.replayed = true
	default:
		resp.code = codeQuarantined
	}
	return resp, nil
}

func (d *delivery) concludeOne(ctx context.Context, e *entry, decision dedup.Decision) (*reply, error) {
	p := &d.ep.p
	switch decision.Verdict {
	case dedup.New:
		d.logNew(ctx, e, decision)
		d.stored = storedReply(d.answered[:], p, &decision.Record, false)
		return &d.stored, nil
	case dedup.Known:
		if d.namedByContent(e) {
			d.sameBytes = SameKnown
		}
		if e.answer == nil && resumable(decision.Record) {
			return d.resume(ctx, e, decision.Record)
		}
		if inFlight(decision.Record) {
			return nil, fail(codeInFlight, nil)
		}
		d.stored = storedReply(d.answered[:], p, &decision.Record, true)
		return &d.stored, nil
	case dedup.Conflict:
		if p.Contract == producer.API {
			return nil, fail(codeKeyReused, nil)
		}
		return d.quarantineConflict(ctx, e, decision.Record)
	case dedup.Aliased:
		if decision.Alias.Space == dedup.SpaceNonce {
			return nil, &verify.Error{Code: verify.NonceReused, KeyID: d.Identity.KeyID}
		}
		return d.quarantineReplayed(ctx, e, decision.Record)
	case dedup.Superseded:
		if p.Contract == producer.API {
			return nil, d.refuseReplayed()
		}
		return d.quarantine(ctx, e, d.quarantineClaim(e, reasonSuperseded, decision.Record.Event), decision.Record)
	case dedup.Repeated:
		return d.quarantineRepeated(ctx, e, decision.Record)
	case dedup.Seen, dedup.TooOld:
		return d.quarantineForgotten(ctx, e, decision)
	}
	return nil, fail(codeInternal, nil)
}

// logNew logs what is unusual about a new event that its signed content names, for the metrics too.
func (d *delivery) logNew(ctx context.Context, e *entry, decision dedup.Decision) {
	rec := decision.Record
	d.logUnmet(ctx, e, decision)
	if e.occurrence == nil {
		return
	}
	if len(rec.Tasks) > 0 && rec.Tasks[0].Attempt > 1 { // a later run of the event
		d.sameBytes = SameKnown
		return
	}
	if rec.Key.ID != e.occurrence.ID {
		d.sameBytes = SameAgain
		kind := sampledKind{text: "another occurrence of known content", endpoint: d.ep.p.Name}
		d.rx.sampled.write(ctx, slog.LevelInfo, kind,
			slog.String("event", rec.Event), slog.String("vendor_id", e.claim.Payload.VendorID),
			slog.String("type", e.claim.Payload.Type), slog.String("id", rec.Key.ID))
	}
}

// logUnmet logs a new event that has no handler because of conditions.
func (d *delivery) logUnmet(ctx context.Context, e *entry, decision dedup.Decision) {
	if len(e.unmet) > 0 {
		kind := sampledKind{text: "an event met no condition of a handler", endpoint: d.ep.p.Name}
		d.rx.sampled.write(ctx, slog.LevelInfo, kind, slog.String("event", decision.Record.Event),
			slog.String("type", e.claim.Payload.Type), slog.String("handlers", listed(e.unmet)))
	}
}

// namedByContent reports whether a digest of the signed content names the event.
func (d *delivery) namedByContent(e *entry) bool {
	return e.occurrence != nil || d.ep.p.ClassOf(d.Identity) == producer.ClassUnnamed
}

// refuseReplayed refuses a delivery with known signed bytes.
func (d *delivery) refuseReplayed() error {
	d.sameBytes = SameRefused
	return fail(codeSignatureReused, nil)
}

// quarantineRepeated quarantines or refuses signed content that is known under another
// identifier and is not another event. It never gets the response of the event that it repeats.
func (d *delivery) quarantineRepeated(ctx context.Context, e *entry, of dedup.Record) (*reply, error) {
	p := &d.ep.p
	if p.Contract == producer.API || p.SameSignedOf(of.Payload.Type) == producer.SameSignedRefuse {
		return nil, d.refuseReplayed()
	}
	c := d.quarantineClaim(e, reasonSameBytes, of.Event)
	c.Key.Space, c.Key.ID = dedup.SpaceQuarantine+reasonSameBytes, e.occurrence.ID+";same_bytes;"+e.occurrence.Name
	return d.quarantine(ctx, e, c, of)
}

// quarantineReplayed quarantines or refuses signed bytes that are known from the record of under
// another identifier.
func (d *delivery) quarantineReplayed(ctx context.Context, e *entry, of dedup.Record) (*reply, error) {
	s := d.ep.p.SameSigned
	if s != producer.SameSignedQuarantine && s != producer.SameSignedRun || d.ep.p.Contract == producer.API {
		return nil, d.refuseReplayed()
	}
	return d.quarantine(ctx, e, d.quarantineClaim(e, reasonReplayed, of.Event), of)
}

// quarantineConflict quarantines another payload under a known identifier. Their number is not
// bounded, because each may be an event of the producer. It excludes bytes that were signed for
// a known event, else an attacker who captured a few deliveries could fill the store with them
// under each other's identifiers.
func (d *delivery) quarantineConflict(ctx context.Context, e *entry, of dedup.Record) (*reply, error) {
	conflict := d.quarantineClaim(e, reasonConflict, of.Event)
	probe := conflict
	probe.OnlyKnown = true
	notSigned := func(k dedup.Key) bool { return k.Space != dedup.SpaceSigned }
	probe.Aliases = slices.DeleteFunc(slices.Clone(e.claim.Aliases), notSigned)
	if len(probe.Aliases) > 0 {
		decisions, err := d.rx.claim(ctx, probe)
		if err != nil {
			return nil, err
		}
		if decisions[0].Verdict == dedup.Aliased {
			return d.quarantineReplayed(ctx, e, decisions[0].Record)
		}
	}
	return d.quarantine(ctx, e, conflict, of)
}

// quarantineClaim is the claim that quarantines a delivery, once for each identifier and payload.
func (d *delivery) quarantineClaim(e *entry, reason, of string) dedup.Claim {
	c := e.claim
	c.Key.Space = dedup.SpaceQuarantine + hex.EncodeToString(c.Fingerprint[:])
	c.Former = nil
	c.Aliases, c.Occurrence, c.Series, c.Remember, c.Hold, c.Lease = nil, nil, dedup.Key{}, nil, false, 0
	c.Response = d.ep.acceptance(c.Payload.Type)
	c.Quarantine = &dedup.Quarantine{Reason: reason, Of: of, Max: maxReplayed}
	if reason == reasonConflict {
		c.Quarantine.Max = 0
	}
	return c
}

// quarantine quarantines a delivery. Its reply reveals nothing about the original event. The
// body is empty where an Answer handler would have answered: the sender would take it for that
// of the handler.
func (d *delivery) quarantine(ctx context.Context, e *entry, c dedup.Claim, of dedup.Record) (*reply, error) {
	decisions, err := d.rx.claim(ctx, c)
	if err != nil {
		return nil, err
	}
	d.logQuarantine(ctx, c, decisions[0], of)
	switch c.Quarantine.Reason {
	case reasonSameBytes, reasonReplayed:
		d.sameBytes = SameQuarantined
	case reasonSuperseded, reasonSeenBefore:
		if d.namedByContent(e) {
			d.sameBytes = SameQuarantined
		}
	}
	resp := acceptanceReply(&d.ep.p, c.Payload.Type, codeQuarantined, acknowledgement(nil, "", "quarantined"))
	resp.refund = true
	if e.answer != nil {
		resp.Body = nil
	}
	if decisions[0].Verdict == dedup.New {
		resp.event = decisions[0].Record.Event
	}
	return resp, nil
}

// logQuarantine logs a quarantined delivery and its original. Beyond the bound it has no event
// of its own.
func (d *delivery) logQuarantine(ctx context.Context, c dedup.Claim, decision dedup.Decision, of dedup.Record) {
	event := ""
	if decision.Record.Event != of.Event {
		event = decision.Record.Event
	}
	kind := sampledKind{text: "delivery quarantined", endpoint: d.ep.p.Name, reason: c.Quarantine.Reason}
	d.rx.sampled.write(ctx, slog.LevelWarn, kind,
		slog.String("event", event), slog.String("original", of.Event),
		slog.String("vendor_id", vendorID(&c.Payload, c.Key.ID)),
		slog.String("original_vendor_id", vendorID(&of.Payload, of.Key.ID)),
		slog.String("type", c.Payload.Type), slog.String("note", c.Note))
}

// vendorID is the identifier that the sender chose.
func vendorID(p *dedup.Payload, id string) string { return cmp.Or(p.VendorID, id) }
