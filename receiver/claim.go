package receiver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/deadline"
	"github.com/eyelet-dev/eyelet/verify"
)

const (
	maxReplayed   = 16           // stored replays of signed bytes under other identifiers, for one event
	maxHeader     = 64 << 10     // bytes of the stored header fields of a delivery
	fastClock     = time.Hour    // that the clock of a sender is ahead at most
	maxTypes      = 9            // types under which handlers of several types get the same signed content
	noteNoHandler = "no handler" // marks events without a handler
	maxListed     = 5            // handlers that a note names
)

// entry is one item of a delivery, ready to be claimed.
type entry struct {
	claim dedup.Claim
	// occurrence is how the signed content names the event; nil for events with an identifier.
	occurrence *producer.Occurrence
	answer     *Handler // nil unless an Answer handler matches
	unmet      []string // handlers whose conditions keep the event from having any
	parts      claimParts
}

// claimParts are what the claim of an entry usually points to.
type claimParts struct {
	sighting   producer.Occurrence
	occurrence dedup.Occurrence
	former     dedup.Former
	names      [2]dedup.Key
	scopes     [1]dedup.Key
	remember   dedup.Remember
	aliases    [2]dedup.Key
	tasks      [1]dedup.NewTask
}

func (d *delivery) claims(entries []entry) []dedup.Claim {
	claims := d.claim[:0]
	for i := range entries {
		claims = append(claims, entries[i].claim)
	}
	return claims
}

// claim takes one durable step. A producer that hangs up does not cancel it, because its outcome
// would be unknown.
func (rx *Receiver) claim(ctx context.Context, claims ...dedup.Claim) ([]dedup.Decision, error) {
	return rx.claimIn(ctx, new(deadline.Context), claims)
}

// claimIn is claim with memory for a context.
func (rx *Receiver) claimIn(ctx context.Context, c *deadline.Context, claims []dedup.Claim) ([]dedup.Decision, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	var decisions []dedup.Decision
	var err error
	if rx.cfg.Tracer == nil {
		decisions, err = rx.cfg.Store.Claim(rx.storing.In(ctx, c), claims...)
	} else {
		decisions, err = claimInSpan(ctx, rx, claims)
	}
	if err != nil {
		return nil, storeFailure(err)
	}
	return decisions, nil
}

// entries turns the items of the delivery into claims.
func (d *delivery) entries(ctx context.Context) []entry {
	entries := d.entry[:]
	if len(d.items) != 1 {
		entries = make([]entry, len(d.items))
	}
	base := dedup.Payload{
		Producer: d.ep.p.Name, Endpoint: d.ep.p.Name, Method: d.r.Method,
		Target: d.target.redacted(d.ep.p.SecretQuery), Header: storedHeader(d.r.Header, d.ep.secretHeaders),
	}
	if d.extractsBody() {
		delete(base.Header, "Content-Encoding")
		setItemType(base.Header)
	}
	if raw, ok := d.ep.p.Key.(producer.RawExtractor); ok && d.ep.p.Split == nil {
		base.KeyField = raw.Raw(&d.Delivery)
	}
	key := dedup.Key{Principal: cmp.Or(d.Identity.Principal, d.ep.p.Name), Endpoint: d.scope()}
	for i, it := range d.items {
		d.fill(ctx, &entries[i], it, key, base)
	}
	return entries
}

// extractsBody reports whether only a part of the body is stored, an item of a batch or the
// content of an envelope, to which Content-Encoding does not apply.
func (d *delivery) extractsBody() bool {
	return d.ep.p.Split != nil || d.ep.p.Payload != nil
}

// fill sets the entry of an item.
func (d *delivery) fill(ctx context.Context, e *entry, it producer.Item, key dedup.Key, payload dedup.Payload) {
	p := &d.ep.p
	key.ID = it.ID
	kept, form := it, ""
	payload.Type, payload.Body = it.Type, it.Body
	if !d.extractsBody() {
		payload.Body = d.received
	}
	if it.FromForm { // the JSON in it is compared
		form = p.FormMember
	} else {
		kept.Body = payload.Body
	}
	payload.Attributes = withProof(it.Attributes, d.Identity, !d.extractsBody(), [...]string{
		form, sampledTrace(d.span), d.ep.tenantName(), d.fetched, string(refusedAs(d)),
	})
	e.claim = dedup.Claim{
		Key: key, Payload: payload, Window: p.Window, DropBody: p.DropBody, Note: it.Note,
		// Else several items share the header, or the description of the producer has the body.
		GivesPayload: len(d.items) == 1 && !d.extractsBody(),
	}
	if d.unverified != nil {
		nameUnverified(d, e, it)
	} else {
		d.name(e, it, kept, key)
	}
	d.assign(ctx, e, it)
	if it.Err != nil {
		e.claim = d.quarantineClaim(e, reasonMalformed, "")
		e.claim.Key.Space = dedup.SpaceQuarantine + reasonMalformed
		return
	}
	if p.KeyedByType != nil && e.occurrence != nil {
		d.slots(e, it.Type)
	}
}

// name names the event, and what is left of it beyond its window.
func (d *delivery) name(e *entry, it, kept producer.Item, key dedup.Key) {
	p := &d.ep.p
	var byContent bool
	e.parts.sighting, byContent = p.OccurrenceOf(&d.Delivery, it)
	e.claim.Aliases = d.aliases(e.parts.aliases[:0], key, byContent)
	d.remember(e)
	if byContent {
		d.nameByContent(e, it)
	}
	d.nameReduced(e)
	d.compare(e, it, kept, key)
	if p.Series != nil {
		if id := p.Series(&d.Delivery); id != "" {
			e.claim.Series = dedup.Key{Principal: key.Principal, Endpoint: p.Name, Space: dedup.SpaceSeries, ID: id}
		}
	}
}

// compare sets what must be equal in other deliveries of the event. Malleable content has no
// fingerprint, because its key is the same for several bodies.
func (d *delivery) compare(e *entry, it, kept producer.Item, key dedup.Key) {
	c, f := &e.claim, &e.parts.former
	f.Fingerprint = d.fingerprint(kept)
	if e.occurrence == nil || !d.Identity.Malleable {
		c.Fingerprint = f.Fingerprint
	}
	if d.ep.p.Split != nil {
		return
	}
	if f.Fingerprint == (dedup.Fingerprint{}) {
		f.Fingerprint = dedup.FingerprintOf(producer.FingerprintBody(&d.Delivery, kept))
	}
	if d.formerNames(e, it, key); len(f.Names)+len(f.Contents) > 0 {
		c.Former, f.Delivery = f, d
	}
}

// formerNames sets the names that the event has if another configuration of the producer named it.
// key has the identifier, or the digest of content where none was sent.
func (d *delivery) formerNames(e *entry, it producer.Item, key dedup.Key) {
	it.Unnamed = it.Unnamed || d.ep.former.byBody
	f, own := &e.parts.former, e.claim.Key
	f.Names, f.Contents = append(e.parts.names[:0], f.Names...), nil
	add := func(to []dedup.Key, k dedup.Key, space, id string) []dedup.Key {
		if k.Space, k.ID = space, id; k == own || slices.Contains(to, k) {
			return to
		}
		return append(to, k)
	}
	same, named := d.contents(e, it)
	for _, k := range d.formerScopes(e.parts.scopes[:0], own, key) {
		switch {
		case it.Unnamed && e.occurrence == nil:
			f.Names = add(f.Names, k, "", own.ID)
		case e.occurrence == nil:
			f.Names = add(add(f.Names, k, "", own.ID), k, dedup.SpaceSent, own.ID)
		default:
			f.Contents = add(f.Contents, k, "", own.ID)
			if !it.Unnamed {
				f.Names = add(f.Names, k, "", it.ID)
			}
			if !it.Unnamed && d.bodyNames(e.occurrence) {
				f.Names = add(f.Names, k, dedup.SpaceSent, it.ID)
			}
		}
		for _, id := range same {
			if e.occurrence != nil || !it.Unnamed {
				f.Contents = add(f.Contents, k, "", id)
			} else {
				f.Names = add(f.Names, k, "", id)
			}
		}
		if named != "" {
			f.Names = add(f.Names, k, "", named)
		}
	}
}

// formerScopes appends keys with the principals and endpoints that the event may have: those of the
// claim, of its identifier, and of other configurations.
func (d *delivery) formerScopes(to []dedup.Key, own, key dedup.Key) []dedup.Key {
	endpoints := [...]string{own.Endpoint, key.Endpoint, own.Endpoint, own.Endpoint}
	if d.target.query != "" || d.ep.place(d.target) != webhooksPath+d.ep.p.Name {
		endpoints[2], endpoints[3] = d.ep.p.Name, d.ep.scopeOf(d.target, true, true)
	}
	for i, endpoint := range endpoints {
		if slices.Contains(endpoints[:i], endpoint) {
			continue
		}
		to = append(to, dedup.Key{Principal: own.Principal, Endpoint: endpoint})
		for _, principal := range d.ep.former.principals {
			to = append(to, dedup.Key{Principal: cmp.Or(principal, d.ep.p.Name), Endpoint: endpoint})
		}
	}
	return to
}

// bodyNames reports whether the body alone decides the content of an occurrence. If another record
// has the same body and sending, another configuration named it.
func (d *delivery) bodyNames(o *producer.Occurrence) bool {
	other := func(part string) bool { return part != "@body" && part != d.ep.former.timeField }
	return d.ep.p.KeyedByType == nil && (o == nil || !o.Members) && !slices.ContainsFunc(d.Identity.Covered, other)
}

// contents returns other identifiers of the content that names the event: same if only the body
// counts, in whatever form, and one in which the name of the sending counts too.
func (d *delivery) contents(e *entry, it producer.Item) (same []string, named string) {
	p, o, forms := &d.ep.p, e.occurrence, d.ep.former.forms
	if o == nil && !it.Unnamed && d.mayBeOlder() {
		return p.BodyIDs(&d.Delivery, it.Type, forms), ""
	}
	if o == nil && (!it.Unnamed || p.ClassOf(d.Identity) == producer.ClassIDSigned) || o != nil && o.Members {
		return nil, ""
	}
	switch body := d.bodyNames(o) || d.ep.former.byBody; {
	case body && d.Identity.Malleable:
		return p.BodyIDs(&d.Delivery, it.Type, forms), ""
	case body && len(forms) > 0:
		return p.BodyIDs(&d.Delivery, it.Type, forms)[1:], ""
	case !body && o != nil && !it.Unnamed:
		return nil, p.BodyIDs(&d.Delivery, it.Type, nil)[0]
	}
	return nil, ""
}

// mayBeOlder reports whether the signature may be of before the receiver had its configuration, and
// the delivery have another identifier since.
func (d *delivery) mayBeOlder() bool {
	id := d.Identity
	return id.Timed() && id.Signed != nil && id.SignedAt.Sub(d.rx.configured) < fastClock &&
		d.ep.p.SameSigned != producer.SameSignedOff && !d.signsKey()
}

// SameScope implements [dedup.FormerDelivery].
func (d *delivery) SameScope(r dedup.Record) bool {
	if !d.ep.p.QueryScope {
		return true
	}
	path, query := d.Identity.Covers("@path"), d.Identity.Covers("@query")
	scope := func(shown string) string {
		at, _ := parseTarget(shown)
		return d.ep.scopeOf(at, path, query)
	}
	return scope(r.Payload.Target) == scope(d.target.redacted(d.ep.p.SecretQuery))
}

// SameContent implements [dedup.FormerDelivery].
func (d *delivery) SameContent(r dedup.Record) bool { return producer.NamesBody(r.Key.ID, d.Body) }

// SameSignature implements [dedup.FormerDelivery]. A later signature is of another event, unless
// the sender's clock was ahead when it made this one. What the record's request claims can only add
// to what is refused.
func (d *delivery) SameSignature(r dedup.Record) bool {
	at := d.Identity.SignedAt
	stored := &http.Request{Method: r.Payload.Method, URL: &url.URL{}, Header: r.Payload.Header}
	return !at.After(r.Accepted) || slices.ContainsFunc(verify.ClaimedIn(d.ep.p.Scheme, stored, nil),
		func(c verify.Claimed) bool { return c.SignedAt.Equal(at) })
}

// nameByContent names the event by its signed content.
func (d *delivery) nameByContent(e *entry, it producer.Item) {
	c, o := &e.claim, &e.parts.sighting
	e.occurrence, c.Key.ID = o, o.ID
	if d.Identity.Malleable {
		// Bytes can be moved between the query and the body. The digest covers both.
		c.Key.Endpoint = d.ep.p.Name
	}
	if !it.Unnamed {
		c.Payload.VendorID = it.ID
	}
	if c.Remember != nil && o.Repeats.Within == 0 { // else content does not repeat after its window
		c.Remember.Most = o.Repeats.Max
	}
	e.parts.occurrence = dedup.Occurrence{Name: o.Name, Max: o.Repeats.Max, Within: o.Repeats.Within}
	c.Occurrence = &e.parts.occurrence
}

// nameReduced adds the names of what may be left of an event whose identifier is read from fields.
// Where one of several signatures does not cover such a field (RFC 9421 section 3.2), a client can
// remove it and the signatures that do. The rest has the same signature base, and the content of a
// known event.
func (d *delivery) nameReduced(e *entry) {
	c, id := &e.claim, d.Identity
	missing := func(part string) bool { return part[0] != '@' && len(d.r.Header.Values(part)) == 0 }
	scheme, signs := d.ep.p.Scheme.(*verify.RFC9421)
	if !signs || d.fetched != "" || len(d.items) != 1 || e.occurrence != nil && e.occurrence.Repeats.Max > 0 {
		return
	}
	some := slices.ContainsFunc(d.ep.keyParts, missing)
	if !some && strings.Count(strings.Join(d.r.Header["Signature-Input"], ""), "=(") < 2 {
		return
	}
	sent, leaves := *d.Request, false
	sent.Header = d.sent
	for _, one := range verify.ClaimedIn(scheme, &sent, nil) {
		removable := func(part string) bool { return part[0] != '@' && !slices.Contains(one.Covered, part) }
		other := one.Label != id.Label
		if !other && !some || other && !slices.ContainsFunc(d.ep.keyParts, removable) {
			continue
		}
		leaves = leaves || other
		name := dedup.Key{Principal: c.Key.Principal, Endpoint: d.ep.p.Name, Space: dedup.SpaceSigned}
		name.ID = fmt.Sprintf("%x", sha256.Sum256(scheme.SignatureBase(&sent, one.Label)))
		if !slices.Contains(c.Aliases, name) {
			c.Aliases = append(c.Aliases, name)
		}
	}
	d.nameContent(e, leaves, some && !slices.ContainsFunc(d.ep.keyParts, func(part string) bool {
		return part[0] != '@' && !missing(part)
	}))
}

// nameContent names the content of a message of which a part may be left, or that may be one.
func (d *delivery) nameContent(e *entry, leaves, left bool) {
	c, content := &e.claim, d.Identity.Stable
	if content == nil {
		sum := sha256.Sum256(d.received)
		content = sum[:]
	}
	name := dedup.Key{Principal: c.Key.Principal, Endpoint: d.ep.p.Name, Space: dedup.SpaceSent}
	name.ID = fmt.Sprintf("%x;reduced", content)
	trace := dedup.Traced{Key: name, Most: 1}
	switch {
	case left:
		e.parts.former.Names = append(e.parts.former.Names, name)
	case leaves:
		trace.Most = math.MaxUint8 // other events may have the content
	default:
		return
	}
	if leaves {
		c.Aliases = append(c.Aliases, name)
	}
	if c.Remember != nil {
		c.Remember.Also = append(c.Remember.Also, trace)
	}
}

// slots bounds the types that no handler names, separately for those that run and those that do
// not. A type that the sender does not send has the slot of the first type only, which one that a
// handler names takes if it is free.
func (d *delivery) slots(e *entry, typ string) {
	key, o, n := e.claim.Key, e.claim.Occurrence, maxTypes
	if o.Spare = d.rx.registry.namesType(d.ep.p.Name, typ); o.Spare || !d.ep.p.KeyedByType.MatchString(typ) {
		n = 1
	}
	for i := range n {
		key.Space, key.ID = dedup.SpaceSlot, fmt.Sprintf("%s;%t;%d", e.occurrence.Digest, len(e.claim.Tasks) > 0, i)
		o.Slots = append(o.Slots, key)
	}
}

// assign adds a task per matching handler. A matching Answer handler makes the claim synchronous.
func (d *delivery) assign(ctx context.Context, e *entry, it producer.Item) {
	on, answer, unmet := d.match(it)
	if answer != nil {
		e.answer = answer
		e.claim.Tasks = []dedup.NewTask{{Handler: answer.name}}
		e.claim.Hold, e.claim.Lease = true, d.rx.cfg.Lease
		return
	}
	e.claim.Response, e.claim.Tasks = d.ep.acceptance(it.Type), e.parts.tasks[:0]
	for _, h := range on {
		if d.unverified == nil || h.unverified {
			e.claim.Tasks = append(e.claim.Tasks, d.task(ctx, h, it))
		}
	}
	if len(e.claim.Tasks) == 0 {
		e.unmet = unmet
		e.claim.Note = noteNoHandler
		if len(unmet) > 0 {
			e.claim.Note += "; conditions not met: " + listed(unmet)
		}
		if it.Note != "" {
			e.claim.Note += "; " + it.Note
		}
	}
}

// match returns the handlers of an item, and the names of those whose conditions do not hold.
func (d *delivery) match(it producer.Item) (on []*Handler, answer *Handler, unmet []string) {
	var view *producer.Delivery
	on, answer = d.rx.registry.match(d.ep.p.Name, it.Type, func(h *Handler) bool {
		if view == nil {
			view = itemView(&d.Delivery, it)
		}
		holds := h.when.Holds(view, it.Type)
		if !holds {
			unmet = append(unmet, h.name)
		}
		return holds
	})
	return on, answer, unmet
}

// listed returns the first names, and how many there are besides.
func listed(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// lane is the lane of a handler's task. If the lane cannot be read, the event runs unordered.
func (d *delivery) lane(h *Handler, it producer.Item) string {
	lane, err := h.laneOf(&d.Delivery, it, d.ep.tenantName()) // tenants do not wait for each other
	if err != nil {
		d.rx.log.Warn("an event has no usable lane", "endpoint", d.ep.p.Name, "handler", h.name, "id", it.ID)
		return ""
	}
	if lane != "" && d.unverified != nil {
		lane += unverifiedSpace // no other lane has it
	}
	return lane
}

// task is the task of a handler for an item. Without a lane it has no version.
func (d *delivery) task(ctx context.Context, h *Handler, it producer.Item) dedup.NewTask {
	task := dedup.NewTask{Handler: h.name, Lane: d.lane(h, it)}
	if h.newest == nil || task.Lane == "" {
		return task
	}
	warn := func(text string) {
		d.rx.sampled.write(ctx, slog.LevelWarn, sampledKind{text: text, endpoint: d.ep.p.Name},
			slog.String("handler", h.name), slog.String("id", it.ID))
	}
	version, err := h.versionOf(&d.Delivery, it)
	if err != nil {
		warn("an event has no usable version")
		return task
	}
	if task.Version = version; h.isAhead(version, d.rx.cfg.Clock) {
		warn("an event has a version in the future, and makes no other stale")
	}
	return task
}

// scope is where identifiers are unique: the endpoint, and the other parts of the URL that the
// signature binds, octet for octet or as ScopeQuery has them. A client without a key can change
// neither, unless the signature is malleable: see nameByContent.
func (d *delivery) scope() string {
	if !d.ep.p.QueryScope {
		return d.ep.p.Name
	}
	return d.ep.scopeOf(d.target, d.Identity.Covers("@path"), d.Identity.Covers("@query"))
}

// aliases are the other names of an event: its nonce where nonces are unique, and the signed
// bytes where they do not bind the identifier, unless its content names it. They detect a captured
// delivery that is sent under another identifier. They are appended to out.
func (d *delivery) aliases(out []dedup.Key, key dedup.Key, byContent bool) []dedup.Key {
	p := &d.ep.p
	if len(d.items) != 1 {
		return nil // the signed bytes are those of all items
	}
	add := func(space, id string) {
		out = append(out, dedup.Key{Principal: key.Principal, Endpoint: p.Name, Space: space, ID: id})
	}
	if p.Nonce == producer.NonceUnique {
		add(dedup.SpaceNonce, d.Identity.Nonce)
	}
	if !byContent && p.SameSigned != producer.SameSignedOff && d.Identity.Signed != nil && !d.bindsKey() {
		add(dedup.SpaceSigned, d.signedBytes())
	}
	return out
}

// signedBytes names what the signature covers. If that is the body and a field with the time only,
// the name is the same for every scheme that signs them.
func (d *delivery) signedBytes() string {
	id := d.Identity
	if id.Timed() && d.ep.former.timeField != "" && d.bodyNames(nil) {
		content := id.Stable
		if content == nil {
			sum := sha256.Sum256(d.Body)
			content = sum[:]
		}
		return fmt.Sprintf("%x;%d", content, id.SignedAt.UnixNano())
	}
	return string(hex.AppendEncode(make([]byte, 0, 128), id.Signed))
}

// fingerprint is compared when the identifier is used again. Only signed identifiers may do
// without, as those of a batch are, less what LooseBinary reads: under an unsigned one, a captured
// delivery would count as that event and get its response.
func (d *delivery) fingerprint(it producer.Item) dedup.Fingerprint {
	digest, p := d.ep.p.Fingerprint(&d.Delivery, it), &d.ep.p
	signed := d.signsKey() || p.Split != nil && !p.LooseBinary && d.Identity.Covers("@body")
	if digest == ([32]byte{}) && d.Identity.Signed != nil && !signed {
		digest = producer.FingerprintBody(&d.Delivery, it)
	}
	return dedup.FingerprintOf(digest)
}

// bindsKey reports whether identifier and signed bytes determine each other. A malleable
// signature fits several bodies, which conflict with each other. So does one that leaves open
// whether the body is coded.
func (d *delivery) bindsKey() bool {
	return d.signsKey() && !d.Identity.Malleable &&
		(d.Identity.Covers("content-encoding") || !mayBeCoded(d.r.Header, d.received))
}

// signsKey reports whether the signature covers everything that the identifier is read from.
func (d *delivery) signsKey() bool {
	if d.ep.p.Split != nil {
		return false // it may read fields too, as the binary mode of CloudEvents does
	}
	unsigned := func(part string) bool { return !d.Identity.Covers(part) }
	return d.Identity.Covers("@body") && !slices.ContainsFunc(d.ep.keyParts, unsigned)
}

// storedHeader returns the fields that are stored with an event: without credentials, and at
// most maxHeader bytes in the order of their names.
func storedHeader(h http.Header, secret []string) http.Header {
	kept := make(http.Header, len(h))
	all := make([]string, 0, len(h)+2) // most fields have one value
	size := 0
	for name, values := range h {
		if !slices.ContainsFunc(secret, func(s string) bool { return strings.EqualFold(s, name) }) {
			from := len(all)
			all = append(all, values...)
			kept[name] = all[from:len(all):len(all)]
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

// setItemType replaces a batch media type with the single-event one, because items are stored
// one by one.
func setItemType(h http.Header) {
	kind, params, _ := strings.Cut(h.Get("Content-Type"), ";")
	if !strings.EqualFold(verify.TrimOWS(kind), producer.MediaCloudEventBatch) {
		return
	}
	if kind = producer.MediaCloudEvent; params != "" {
		kind += ";" + params
	}
	h["Content-Type"] = []string{kind} // h shares its values with the request
}

func fieldSize(name string, values []string) (size int) {
	for _, value := range values {
		size += len(name) + len(value)
	}
	return size
}
