package receiver

import (
	"context"
	"encoding/hex"
	"fmt"
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
		Target:   d.target.redacted(d.ep.p.SecretQuery),
		Header:   storedHeader(d.r.Header, d.ep.secretHeaders),
	}
	if d.extractsBody() {
		delete(base.Header, "Content-Encoding")
		setItemType(base.Header)
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

// extractsBody reports whether what is kept of the delivery is no longer what its Content-Encoding says: an item of
// a batch, or what was taken out of its envelope.
func (d *delivery) extractsBody() bool { return d.ep.p.Split != nil || d.ep.p.Payload != nil }

func (d *delivery) entry(it producer.Item, key dedup.Key, payload dedup.Payload) entry {
	p := &d.ep.p
	key.ID = it.ID
	kept := it
	if !d.extractsBody() {
		kept.Body = d.received // it is kept and compared as it came
	}
	payload.Type, payload.Body = it.Type, kept.Body
	payload.Attributes = withProof(it.Attributes, d.Identity, !d.extractsBody())
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
		d.nameByContent(&e, it, o)
	}
	if p.Series != nil {
		if id := p.Series(d.Delivery); id != "" {
			e.claim.Series = dedup.Key{Principal: key.Principal, Endpoint: p.Name, Space: dedup.SpaceSeries, ID: id}
		}
	}
	d.assign(&e, it)
	if p.KeyedByType && e.occurrence != nil && !d.rx.registry.namesType(p.Name, it.Type) {
		e.claim.Occurrence.Slots = slotsOf(e.claim.Key, e.occurrence.Digest, len(e.claim.Tasks) > 0)
	}
	return e
}

// occur names the event by its signed content.
func (d *delivery) nameByContent(e *entry, it producer.Item, o producer.Occurrence) {
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
	on, answer := d.rx.registry.match(d.ep.p.Name, it.Type)
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
	p, at := &d.ep.p, d.target
	scope := p.Name
	if !p.QueryScope {
		return scope
	}
	if d.Identity.Covers("@path") && d.ep.url == nil && at.path != webhooksPath+p.Name {
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

// storedHeader returns the fields that are kept with an event: none that holds a credential, and not more than
// maxHeader bytes, those whose names come first.
func storedHeader(h http.Header, secret []string) http.Header {
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

// setItemType makes the media type that of one event, which is what is kept of a batch: whoever gets it sent on would
// look for a batch in it.
func setItemType(h http.Header) {
	kind, params, _ := strings.Cut(h.Get("Content-Type"), ";")
	if !strings.EqualFold(verify.TrimOWS(kind), producer.MediaCloudEventBatch) {
		return
	}
	if kind = producer.MediaCloudEvent; params != "" {
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
