package receiver

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/verify"
)

// maxReplayed is how many repetitions of signed bytes under other identifiers are kept for one event.
const maxReplayed = 16

// maxHeader bounds the header fields that are kept of a delivery, in bytes.
const maxHeader = 64 << 10

// noteNoHandler marks events that nobody takes.
const noteNoHandler = "no handler"

// entry is one item of a delivery, ready to be claimed.
type entry struct {
	claim dedup.Claim
	// occurrence is how the signed content names the event; nil where something else does.
	occurrence *producer.Occurrence
	answer     *Handler // the handler that answers it; nil for On handlers and for nobody
}

func claimsOf(entries []entry) []dedup.Claim {
	claims := make([]dedup.Claim, len(entries))
	for i := range entries {
		claims[i] = entries[i].claim
	}
	return claims
}

// claim takes one durable step. A producer that hangs up does not cancel it: its outcome would be unknown.
func (rx *Receiver) claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rx.cfg.StoreTimeout)
	defer cancel()
	decisions, err := rx.cfg.Store.Claim(ctx, claims...)
	if err != nil {
		return nil, storeFailure(err)
	}
	return decisions, nil
}

// entries turns the items of the delivery into claims.
func (d *delivery) entries() []entry {
	entries := make([]entry, len(d.items))
	base := dedup.Payload{
		Producer: d.ep.p.Name,
		Endpoint: d.ep.p.Name,
		Method:   d.r.Method,
		Target:   d.at.redacted(d.ep.p.SecretQuery),
		Header:   keptHeader(d.r.Header, d.ep.secretHeaders),
	}
	if d.uncoded() {
		delete(base.Header, "Content-Encoding")
		tellItem(base.Header)
	}
	if raw, ok := d.ep.p.Key.(producer.RawExtractor); ok && d.ep.p.Split == nil {
		base.KeyField = raw.Raw(d.Delivery)
	}
	key := dedup.Key{Principal: d.Identity.Principal, Endpoint: d.scope()}
	if key.Principal == "" {
		key.Principal = d.ep.p.Name
	}
	for i, it := range d.items {
		entries[i] = d.entry(it, key, base)
	}
	return entries
}

func (d *delivery) entry(it producer.Item, key dedup.Key, payload dedup.Payload) entry {
	p := &d.ep.p
	key.ID = it.ID
	kept := it
	if !d.uncoded() {
		kept.Body = d.received // it is kept and compared as it came
	}
	payload.Type, payload.Body = it.Type, kept.Body
	payload.Attributes = proven(it.Attributes, d.Identity, !d.uncoded())
	e := entry{claim: dedup.Claim{
		Key:         key,
		Aliases:     d.aliases(key),
		Fingerprint: d.fingerprint(kept),
		Payload:     payload,
		Window:      p.Window,
		DropBody:    p.DropBody,
		Note:        it.Note,
		Remember:    d.remember(),
	}}
	if o, ok := p.OccurrenceOf(d.Delivery, it); ok {
		d.occur(&e, it, o)
	}
	if p.Series != nil {
		if id := p.Series(d.Delivery); id != "" {
			e.claim.Series = dedup.Key{Principal: key.Principal, Endpoint: p.Name, Space: dedup.SpaceSeries, ID: id}
		}
	}
	d.assign(&e, it)
	if p.KeyedByType && e.occurrence != nil && !d.rx.book.named(p.Name, it.Type) {
		e.claim.Occurrence.Slots = slotsOf(e.claim.Key, e.occurrence.Digest, len(e.claim.Tasks) > 0)
	}
	return e
}

// occur names the event by its signed content.
func (d *delivery) occur(e *entry, it producer.Item, o producer.Occurrence) {
	c := &e.claim
	e.occurrence = &o
	c.Key.ID, c.Fingerprint = o.ID, dedup.Fingerprint{} // content of one key is the same by definition
	former := &dedup.Former{}
	c.Aliases = slices.DeleteFunc(c.Aliases, func(k dedup.Key) bool {
		if k.Space == dedup.SpaceSigned {
			former.Alias = k
		}
		return k.Space == dedup.SpaceSigned
	})
	if !it.Unnamed {
		c.Payload.VendorID, former.ID = it.ID, it.ID
	}
	if d.ep.p.KeyedByType {
		former.Type = it.Type
	}
	if c.Remember != nil && o.Repeats.Within == 0 { // content that repeats only for a time does not after its window
		c.Remember.Most = o.Repeats.Max
	}
	c.Occurrence = &dedup.Occurrence{Name: o.Name, Max: o.Repeats.Max, Within: o.Repeats.Within, Former: former}
}

// maxTypes is under how many types handlers of several types get the same signed content.
const maxTypes = 9

// slotsOf bounds the types that are not named by a handler, those that run apart from those that do not.
func slotsOf(key dedup.Key, digest string, runs bool) []dedup.Key {
	slots := make([]dedup.Key, maxTypes)
	for i := range slots {
		slots[i] = dedup.Key{
			Principal: key.Principal, Endpoint: key.Endpoint, Space: dedup.SpaceSlot, ID: fmt.Sprintf("%s;%t;%d", digest, runs, i),
		}
	}
	return slots
}

// assign gives the entry to its handlers. It is they who decide between an answer now and one later.
func (d *delivery) assign(e *entry, it producer.Item) {
	on, answer := d.rx.book.pick(d.ep.p.Name, it.Type)
	if answer != nil {
		e.answer = answer
		e.claim.Tasks = []dedup.NewTask{{Handler: answer.name}}
		e.claim.Hold, e.claim.Lease = true, d.rx.cfg.Lease
		return
	}
	e.claim.Response = d.ep.accepted
	for _, h := range on {
		e.claim.Tasks = append(e.claim.Tasks, dedup.NewTask{Handler: h.name, Lane: d.lane(h, it)})
	}
	if len(on) == 0 {
		e.claim.Note = noteNoHandler
		if it.Note != "" {
			e.claim.Note += "; " + it.Note
		}
	}
}

// lane is the lane of a handler's task. An item whose lane cannot be read is in none: it was accepted, and
// order is no reason to lose it.
func (d *delivery) lane(h *Handler, it producer.Item) string {
	lane, err := h.laneOf(d.Delivery, it)
	if err != nil {
		d.rx.log.Warn("an event has no usable lane", "endpoint", d.ep.p.Name, "handler", h.name, "id", it.ID)
		return ""
	}
	return lane
}

// scope is what identifiers are unique in: the endpoint, and what else of the URL the signature binds, octet
// for octet. A stranger can change neither.
func (d *delivery) scope() string {
	p, at := &d.ep.p, d.at
	scope := p.Name
	if !p.QueryScope {
		return scope
	}
	if d.Identity.Covers("@path") && d.ep.whole == nil && at.path != webhooksPath+p.Name {
		scope += at.path
	}
	if d.Identity.Covers("@query") {
		if query := at.without(p.ScopeIgnores); query != "" {
			scope += "?" + query
		}
	}
	return scope
}

// aliases are the other names of an event: its nonce, where nonces are unique, and the signed bytes, where
// they do not bind the identifier, so that a captured delivery under another identifier is recognised.
func (d *delivery) aliases(key dedup.Key) []dedup.Key {
	p := &d.ep.p
	if len(d.items) != 1 {
		return nil // the signed bytes are those of all items
	}
	var out []dedup.Key
	if p.Nonce == producer.NonceUnique {
		out = append(out, dedup.Key{Principal: key.Principal, Endpoint: p.Name, Space: dedup.SpaceNonce, ID: d.Identity.Nonce})
	}
	if p.SameSigned != producer.SameSignedOff && d.Identity.Signed != nil && !d.bindsKey() {
		out = append(out, dedup.Key{
			Principal: key.Principal, Endpoint: p.Name, Space: dedup.SpaceSigned, ID: hex.EncodeToString(d.Identity.Signed),
		})
	}
	return out
}

// fingerprint is what is compared when the identifier comes again. That nothing need be is so only for identifiers
// that are signed: under another one, a captured delivery would be taken for that event and get its answer.
func (d *delivery) fingerprint(it producer.Item) [32]byte {
	digest := d.ep.p.Fingerprint(d.Delivery, it)
	if digest == ([32]byte{}) && d.Identity.Signed != nil && !d.signsKey() {
		return producer.FingerprintBody(d.Delivery, it)
	}
	return digest
}

// bindsKey reports whether an identifier stands for certain signed bytes, and they for it. Where one signature has
// many bodies it does not: they conflict with each other.
func (d *delivery) bindsKey() bool { return d.signsKey() && !d.Identity.Malleable }

// signsKey reports whether the signature certainly binds whatever the identifier is read from.
func (d *delivery) signsKey() bool {
	if d.ep.p.Split != nil {
		return false // it may read fields as well, as the binary mode of CloudEvents does
	}
	for _, part := range d.ep.keyParts {
		if !d.Identity.Covers(part) {
			return false
		}
	}
	return d.Identity.Covers("@body")
}

// conclude turns decisions into the answer.
func (d *delivery) conclude(ctx context.Context, entries []entry, decisions []dedup.Decision) (*reply, error) {
	if len(decisions) == 1 {
		return d.concludeOne(ctx, entries[0], decisions[0])
	}
	fresh, known := 0, 0
	var asides []dedup.Claim
	var originals []dedup.Record
	for i, decision := range decisions {
		switch {
		case decision.Verdict == dedup.New:
			fresh++
		case decision.Verdict == dedup.Known && inFlight(decision.Record):
			return nil, fail(codeInFlight, nil)
		case decision.Verdict == dedup.Known:
			known++
		case decision.Verdict == dedup.Conflict:
			asides = append(asides, d.aside(entries[i], reasonConflict, decision.Record.Event, 0))
			originals = append(originals, decision.Record)
		case beyond(decision.Verdict) != "":
			asides = append(asides, d.aside(entries[i], beyond(decision.Verdict), decision.Record.Event, maxReplayed))
			originals = append(originals, decision.Record)
		case decision.Verdict == dedup.Superseded:
			asides = append(asides, d.aside(entries[i], reasonSuperseded, decision.Record.Event, maxReplayed))
			originals = append(originals, decision.Record)
		}
	}
	kept, err := d.rx.claim(ctx, asides...)
	if err != nil {
		return nil, err
	}
	for i := range kept {
		d.warnAside(ctx, asides[i], kept[i], originals[i])
	}
	answer := batchReply(&d.ep.p, len(entries))
	switch {
	case fresh > 0:
	case len(decisions) == 0:
		answer.code = codeNothing
	case known == len(decisions):
		answer.code = codeRepeated
		answer.header.Set(replayedField, "true")
	default:
		answer.code = codeAside
	}
	return answer, nil
}

func (d *delivery) concludeOne(ctx context.Context, e entry, decision dedup.Decision) (*reply, error) {
	p := &d.ep.p
	switch decision.Verdict {
	case dedup.New:
		d.noteNew(ctx, e, decision)
		return storedReply(p, decision.Record, false), nil
	case dedup.Known:
		if d.namedByContent(e) {
			d.sameBytes = sameKnown
		}
		if e.answer == nil && resumable(decision.Record) {
			return d.resume(ctx, e, decision.Record)
		}
		if inFlight(decision.Record) {
			return nil, fail(codeInFlight, nil)
		}
		return storedReply(p, decision.Record, true), nil
	case dedup.Conflict:
		if p.Contract == producer.API {
			return nil, fail(codeKeyReused, nil)
		}
		return d.keepConflict(ctx, e, decision.Record)
	case dedup.Aliased:
		if decision.Alias.Space == dedup.SpaceNonce {
			return nil, &verify.Error{Code: verify.NonceReused, KeyID: d.Identity.KeyID}
		}
		return d.replayed(ctx, e, decision.Record)
	case dedup.Superseded:
		if p.Contract == producer.API {
			return nil, d.refuseReplayed()
		}
		return d.keepAside(ctx, e, d.aside(e, reasonSuperseded, decision.Record.Event, maxReplayed), decision.Record)
	case dedup.Repeated:
		return d.repeated(ctx, e, decision.Record)
	case dedup.Seen, dedup.TooOld:
		return d.keepBeyond(ctx, e, decision)
	}
	return nil, fail(codeInternal, nil)
}

// noteNew logs what is unusual about a new event that its signed content names, and notes it for the metrics.
func (d *delivery) noteNew(ctx context.Context, e entry, decision dedup.Decision) {
	rec := decision.Record
	if e.occurrence == nil {
		return
	}
	if len(rec.Tasks) > 0 && rec.Tasks[0].Attempt > 1 { // an event that goes on
		d.sameBytes = sameKnown
		return
	}
	attrs := []slog.Attr{
		slog.String("event", rec.Event), slog.String("vendor_id", e.claim.Payload.VendorID), slog.String("type", e.claim.Payload.Type),
	}
	if rec.Key.ID != e.occurrence.ID {
		d.sameBytes = sameAgain
		d.rx.sampled.write(ctx, slog.LevelInfo, sampledKind{text: "another occurrence of known content", endpoint: d.ep.p.Name},
			append(attrs, slog.String("id", rec.Key.ID))...)
	}
	if decision.Reused != "" {
		d.idReused = true
		d.rx.sampled.write(ctx, slog.LevelInfo, sampledKind{text: "the identifier came before with other content", endpoint: d.ep.p.Name},
			append(attrs, slog.String("other", decision.Reused))...)
	}
}

// The values of [Observation.SameBytes].
const (
	sameKnown       = "known"
	sameAgain       = "again"
	sameQuarantined = "quarantined"
	sameRefused     = "refused"
)

// namedByContent reports whether the event is named by a digest of what was signed.
func (d *delivery) namedByContent(e entry) bool {
	return e.occurrence != nil || d.ep.p.ClassOf(d.Identity) == producer.ClassUnnamed
}

// refuseReplayed refuses a delivery because its signed bytes came before.
func (d *delivery) refuseReplayed() error {
	d.sameBytes = sameRefused
	return fail(codeReplayed, nil)
}

// repeated deals with signed content that came before under another identifier, and is not to be taken for another
// event. It never gets the answer of the event that it repeats.
func (d *delivery) repeated(ctx context.Context, e entry, of dedup.Record) (*reply, error) {
	p := &d.ep.p
	if p.Contract == producer.API || p.SameSignedOf(of.Payload.Type) == producer.SameSignedRefuse {
		return nil, d.refuseReplayed()
	}
	c := d.aside(e, reasonSameBytes, of.Event, maxReplayed)
	c.Key.Space, c.Key.ID = dedup.SpaceQuarantine+reasonSameBytes, e.occurrence.ID+";same_bytes;"+e.occurrence.Name
	c.Quarantine.Share = !e.occurrence.Members
	return d.keepAside(ctx, e, c, of)
}

// replayed deals with signed bytes that came before, under another identifier, as the event of.
func (d *delivery) replayed(ctx context.Context, e entry, of dedup.Record) (*reply, error) {
	if s := d.ep.p.SameSigned; s != producer.SameSignedAside && s != producer.SameSignedRun || d.ep.p.Contract == producer.API {
		return nil, d.refuseReplayed()
	}
	return d.keepAside(ctx, e, d.aside(e, reasonReplayed, of.Event, maxReplayed), of)
}

// keepConflict quarantines another payload under a known identifier. There is no bound on how many, because each
// may be an event of the producer; so bytes that were signed for a known event are not among them, or
// an attacker who captured a few deliveries could fill the store with them under each other's identifiers.
func (d *delivery) keepConflict(ctx context.Context, e entry, of dedup.Record) (*reply, error) {
	conflict := d.aside(e, reasonConflict, of.Event, 0)
	probe := conflict
	probe.OnlyKnown = true
	probe.Aliases = slices.DeleteFunc(slices.Clone(e.claim.Aliases), func(k dedup.Key) bool { return k.Space != dedup.SpaceSigned })
	if len(probe.Aliases) > 0 {
		decisions, err := d.rx.claim(ctx, probe)
		if err != nil {
			return nil, err
		}
		if decisions[0].Verdict == dedup.Aliased {
			return d.replayed(ctx, e, decisions[0].Record)
		}
	}
	return d.keepAside(ctx, e, conflict, of)
}

// aside is the claim that quarantines a delivery, once for each identifier and payload.
func (d *delivery) aside(e entry, reason, of string, most int) dedup.Claim {
	c := e.claim
	c.Key.Space = dedup.SpaceQuarantine + hex.EncodeToString(c.Fingerprint[:])
	c.Aliases, c.Occurrence, c.Series, c.Remember, c.Hold, c.Lease = nil, nil, dedup.Key{}, nil, false, 0
	c.Response = d.ep.accepted
	c.Quarantine = &dedup.Quarantine{Reason: reason, Of: of, Max: most}
	return c
}

// keepAside quarantines a delivery. Where an Answer handler would have answered, the answer is empty: a body would be
// taken for the handler's.
func (d *delivery) keepAside(ctx context.Context, e entry, c dedup.Claim, of dedup.Record) (*reply, error) {
	decisions, err := d.rx.claim(ctx, c)
	if err != nil {
		return nil, err
	}
	d.warnAside(ctx, c, decisions[0], of)
	switch c.Quarantine.Reason {
	case reasonSameBytes, reasonReplayed:
		d.sameBytes = sameQuarantined
	case reasonSuperseded, reasonSeenBefore:
		if d.namedByContent(e) {
			d.sameBytes = sameQuarantined
		}
	}
	answer := asideReply(&d.ep.p)
	if e.answer != nil {
		answer.body = nil
	}
	if decisions[0].Verdict == dedup.New {
		answer.event = decisions[0].Record.Event
	}
	return answer, nil
}

// warnAside says that a delivery is quarantined, with what tells it from its original. Beyond the bound it is only
// counted, and has no event of its own.
func (d *delivery) warnAside(ctx context.Context, c dedup.Claim, decision dedup.Decision, of dedup.Record) {
	event := ""
	if decision.Record.Event != of.Event {
		event = decision.Record.Event
	}
	d.rx.sampled.write(ctx, slog.LevelWarn, sampledKind{text: "delivery quarantined", endpoint: d.ep.p.Name, reason: c.Quarantine.Reason},
		slog.String("event", event), slog.String("original", of.Event),
		slog.String("vendor_id", vendorID(&c.Payload, c.Key.ID)), slog.String("original_vendor_id", vendorID(&of.Payload, of.Key.ID)),
		slog.String("type", c.Payload.Type))
}

// vendorID is the identifier that the sender gave to an event.
func vendorID(p *dedup.Payload, id string) string { return cmp.Or(p.VendorID, id) }

// keptHeader returns the fields that are kept with an event: none that holds a credential, and not more than
// maxHeader bytes, those whose names come first.
func keptHeader(h http.Header, secret []string) http.Header {
	kept := make(http.Header, len(h))
	room := make([]string, 0, len(h)+2) // for all values; mostly there is one of each
	size := 0
	for name, values := range h {
		if !isSecret(name, secret) {
			from := len(room)
			room = append(room, values...)
			kept[name] = room[from:len(room):len(room)]
			size += fieldSize(name, values)
		}
	}
	if size <= maxHeader {
		return kept
	}
	size = 0
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if size += fieldSize(name, kept[name]); size > maxHeader {
			delete(kept, name)
		}
	}
	return kept
}

// The media types of CloudEvents in JSON (HTTP protocol binding sections 3.2 and 3.3).
const (
	cloudEventBatch = "application/cloudevents-batch+json"
	cloudEventOne   = "application/cloudevents+json"
)

// tellItem makes the media type that of one event, which is what is kept of a batch: whoever gets it sent on would
// look for a batch in it.
func tellItem(h http.Header) {
	kind, params, _ := strings.Cut(h.Get("Content-Type"), ";")
	if !strings.EqualFold(verify.TrimOWS(kind), cloudEventBatch) {
		return
	}
	if kind = cloudEventOne; params != "" {
		kind += ";" + params
	}
	h["Content-Type"] = []string{kind} // the values are the request's
}

func isSecret(name string, secret []string) bool {
	for _, s := range secret {
		if strings.EqualFold(s, name) {
			return true
		}
	}
	return false
}

func fieldSize(name string, values []string) (size int) {
	for _, value := range values {
		size += len(name) + len(value)
	}
	return size
}

func joined(list []string) string { return strings.Join(list, ", ") }
