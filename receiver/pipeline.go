package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/internal/sender"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/receiver/internal/deadline"
	"github.com/eyelet-dev/eyelet/verify"
)

// delivery is one request on its way through the pipeline.
type delivery struct {
	producer.Delivery
	rx      *Receiver
	ep      *endpoint
	r       *http.Request // normalized
	request http.Request  // of Delivery, with the public URL and no body
	url     url.URL
	target  target
	body    body
	// permit is what it uses until it is verified, share what it uses of its producer's quota
	// afterwards. An Answer handler that outlasts the delivery takes over its slot.
	permit admission.Permit
	peer   netip.Addr     // the client
	sender sender.Context // of request
	share  admission.Share
	nonce  admission.Share // of the key that signed it
	conn   connRequest
	busy   error // of a slot after reading the body
	// verified is when the delivery was verified, by Config.Clock; zero before.
	verified time.Time
	// received is the verified body with its content coding. Body is without.
	received []byte
	// sent is the received header of the verified request.
	sent http.Header
	// stale is why an authentic delivery is too old to bring a new event. It may still be a
	// duplicate.
	stale error
	// unverified is why the delivery was to be refused, if it passes as unverified.
	unverified error
	// itemsErr is why no events could be extracted. Handshakes need none.
	itemsErr error
	// challenged answers a challenge without a credential.
	challenged *reply
	items      []producer.Item
	id, typ    string // those of the only item, for the log
	// entry, claim and stored are those of the only item.
	entry  [1]entry
	claim  [1]dedup.Claim
	stored reply
	// answered is memory for the body of an acknowledgement.
	answered [96]byte
	// claiming is the context of the claim.
	claiming deadline.Context
	// sameBytes is that of the [Observation].
	sameBytes SameBytes
	// fetched is the host of the API that listed the event, where no request brought it.
	fetched  string
	happened time.Time  // of a fetched event
	span     trace.Span // nil without Config.Tracer
}

// ServeHTTP answers one delivery.
func (ep *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started, rx, ctx := time.Now(), ep.rx, r.Context()
	ctx = withRequestID(ctx, w, r)
	r = verify.Normalize(r)
	d := &delivery{
		rx: rx, ep: ep, r: r, conn: trackRequest(ctx), peer: clientAddr(r, rx.cfg.TrustedProxies),
	}
	d.target, _ = parseTarget(requestTarget(r))
	d.permit = rx.limiter.Admit(ep.p.Name, d.peer, started)
	defer d.permit.Release()
	defer d.conn.end()
	d.body = body{
		from: r.Body, w: w, limit: ep.p.MaxBody, declared: r.ContentLength, permit: &d.permit,
		timeout: rx.cfg.BodyTimeout,
	}
	if rx.cfg.Tracer != nil {
		ctx = startDelivery(ctx, d)
		defer d.span.End()
	}
	var resp *reply
	if rx.inflight.Begin() {
		defer rx.inflight.Done()
		resp = d.receiveSafely(ctx)
	} else {
		resp = rx.problemReply(&ep.p, fail(codeShuttingDown, errShuttingDown))
	}
	d.recordOutcome(resp)
	ep.announceSunset(resp)
	rx.endRequest(w, r, d.body.done)
	d.endRefusals(w, resp)
	resp.send(w)
	if d.span != nil {
		endDelivery(d, resp)
	}
	rx.reportDelivery(ctx, d, resp, time.Since(started))
	d.reportRefused(ctx, w, resp)
	reportUnverified(ctx, d, w, resp)
}

// receiveSafely turns errors and our own panics into problems.
func (d *delivery) receiveSafely(ctx context.Context) (resp *reply) {
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			// The stack holds no payload, but the value might.
			kind := sampledKind{text: "panic while receiving", endpoint: d.ep.p.Name, code: codeInternal}
			d.rx.sampled.write(ctx, slog.LevelError, kind,
				slog.String("value", panicText(v)), slog.String("stack", string(debug.Stack())))
			resp = d.rx.problemReply(&d.ep.p, fail(codeInternal, nil))
		}
	}()
	resp, err := d.receive(ctx)
	if err != nil {
		return d.rx.problemReply(&d.ep.p, err)
	}
	return resp
}

// receive is the path of a delivery. The order matters for safety: nothing that is not
// authenticated touches the store, and identifiers and nonces are recorded only after the
// signature and the digest hold.
func (d *delivery) receive(ctx context.Context) (*reply, error) {
	// 1. Does the head of the request fit this endpoint?
	if err := d.admit(); err != nil {
		return nil, err
	}
	// 2. Which tenant is it for, and which URL did the producer call?
	var err error
	if d.ep, err = d.ep.forTenant(ctx, d); err != nil {
		return nil, err
	}
	if err := d.resolveURL(ctx); err != nil {
		return nil, err
	}
	// 3. Unsigned handshakes, answered only where they are configured.
	if resp, err := d.challenge(); resp != nil || err != nil {
		return resp, err
	}
	// 4. Who signed it? The body is read when the scheme asks for it, under its limits.
	if err := d.authenticate(ctx); err != nil {
		if d.challenged != nil {
			return d.challenged, nil
		}
		return nil, err
	}
	// 5. Which events are in it? A handshake needs no identifier.
	if err := d.extractEvents(); err != nil {
		return nil, enforce(d, err)
	}
	// 6. Is it fresh? A stale delivery can only be a duplicate.
	if err := pass(d, d.checkFreshness()); err != nil {
		return nil, err
	}
	if d.stale != nil {
		if resp, err := d.replayKnown(ctx); resp != nil || err != nil {
			return resp, err
		} else if err := pass(d, d.stale); err != nil {
			return nil, err
		}
	}
	// 7. Signed handshakes.
	if resp, err := d.handshake(ctx); resp != nil || err != nil {
		return resp, err
	}
	if d.itemsErr != nil {
		return nil, enforce(d, d.itemsErr)
	}
	// 8. Is it new? All items are claimed in one durable step.
	// 9. The decisions become the response; an Answer handler runs in between.
	// 10. Workers run the other handlers.
	return d.accept(ctx)
}

// accept claims the events of the delivery within its producer's quota.
func (d *delivery) accept(ctx context.Context) (*reply, error) {
	var ok bool
	if d.share, ok = d.ep.quota.Begin(); !ok {
		return nil, fail(codeAtCapacity, nil)
	}
	defer d.share.Release()
	if wait, left := d.share.Take(len(d.items), time.Now()); wait > 0 { // by the monotonic clock
		return nil, rateExceeded(d.ep.p.Rate, wait, left)
	}
	d.nonce, _ = d.ep.nonces.Of(d.Identity.Principal + " " + d.Identity.KeyID).Begin() // which has no slots
	defer d.nonce.Release()
	if wait, left := d.nonce.Take(1, time.Now()); wait > 0 {
		d.share.Refund()
		return nil, rateExceeded(d.ep.p.NonceRate, wait, left)
	}
	entries := d.entries(ctx)
	if d.unverified != nil {
		if err := admitUnverified(ctx, d, entries); err != nil {
			return nil, err
		}
	}
	if err := checkRoute(ctx, entries); err != nil {
		return nil, err
	}
	if len(entries) == 1 && entries[0].claim.Quarantine != nil {
		return d.quarantine(ctx, &entries[0], entries[0].claim, dedup.Record{})
	}
	if len(entries) == 1 && entries[0].answer != nil {
		return d.answer(ctx, &entries[0])
	}
	decisions, err := d.rx.claimIn(ctx, &d.claiming, d.claims(entries))
	if err != nil {
		return nil, err
	}
	return d.conclude(ctx, entries, decisions)
}

// admit checks the head of the request.
func (d *delivery) admit() error {
	p, r := &d.ep.p, d.r
	if !hostKnown(d.rx.cfg.Hosts, r.Host) {
		return fail(codeHostUnknown, nil)
	}
	if d.ep.retired() {
		return fail(codeEndpointRetired, nil)
	}
	if d.loops() {
		return fail(codeLoopDetected, nil)
	}
	if len(p.AllowedIPs) > 0 && !within(d.peer, p.AllowedIPs) {
		return fail(codeAddressRefused, nil)
	}
	if !slices.Contains(p.Methods, r.Method) {
		if p.Challenge != nil && slices.Contains(p.ChallengeMethods, r.Method) {
			return nil // the other checks are for deliveries
		}
		return d.methodRefused()
	}
	if d.early() && !p.EarlyData {
		return fail(codeEarlyData, nil)
	}
	if !d.ep.takes(r.Header.Get("Content-Type")) {
		return fail(codeMediaType, nil)
	}
	if _, ok := codingOf(r.Header); !ok {
		return &failure{code: codeCoding, header: http.Header{"Accept-Encoding": {codings}}}
	}
	if r.ContentLength > p.MaxBody {
		return fail(codeBodyTooLarge, nil)
	}
	return nil
}

func (d *delivery) methodRefused() error {
	return &failure{code: codeMethod, header: http.Header{"Allow": {d.ep.allow}}}
}

// loops reports whether the delivery already passed through this receiver: its field Via names
// it (RFC 9110 section 7.6.3). An intermediary must not forward a message to itself in an
// infinite loop (section 7.6).
func (d *delivery) loops() bool {
	name := d.rx.cfg.Via
	names := func(line string) bool { return viaContains(line, name) }
	return name != "" && slices.ContainsFunc(d.r.Header["Via"], names)
}

// early reports whether a proxy marked the request as TLS early data. Several values, or others
// than "1", count as "1" (RFC 8470 section 5.1).
func (d *delivery) early() bool { return len(d.r.Header["Early-Data"]) > 0 }

// resolveURL sets the URL that the producer called.
func (d *delivery) resolveURL(ctx context.Context) (err error) {
	if d.target.path == "" {
		return fail(codeTargetMalformed, nil)
	}
	if d.url, err = d.ep.publicURL(d.r, d.target); err != nil {
		return fail(codeTargetMalformed, nil) // the error quotes the URL, which may hold a credential
	}
	d.sender = sender.Context{Context: ctx, Addr: d.peer}
	d.request = *d.r.WithContext(&d.sender) //nolint:contextcheck // it is ctx, with the address
	d.request.URL, d.request.Body = &d.url, http.NoBody
	d.Request = &d.request
	return nil
}

func (d *delivery) challenge() (*reply, error) {
	p := &d.ep.p
	if p.Challenge != nil && slices.Contains(p.ChallengeMethods, d.r.Method) {
		want, err := p.Challenge(d.Request)
		switch {
		case want != nil && err != nil:
			return d.refuseChallenge(want, err), nil
		case err != nil:
			return nil, err
		case want != nil:
			resp := handshakeReply(want)
			d.setAllow(resp)
			return resp, nil
		}
	}
	if !slices.Contains(p.Methods, d.r.Method) {
		return nil, d.methodRefused()
	}
	return nil, nil
}

// refuseChallenge refuses a handshake with the status and fields that its sender expects, and a
// problem as the body. Allow lists the methods of the whole endpoint (RFC 9110 section 15.5.6).
func (d *delivery) refuseChallenge(want *dedup.Response, err error) *reply {
	resp := d.rx.problemReply(&d.ep.p, err)
	maps.Copy(resp.Header, want.Header)
	d.setAllow(resp)
	if want.Status != 0 {
		resp.Status = want.Status
		resp.Body = d.rx.problemBody(problemFor(resp.code), want.Status, err)
	}
	return resp
}

func (d *delivery) setAllow(resp *reply) {
	if resp.Header.Get("Allow") != "" {
		resp.Header.Set("Allow", d.ep.allow)
	}
}

// authenticate waits for a slot, verifies the delivery and reads its body, then returns the
// body's share of the budget.
func (d *delivery) authenticate(ctx context.Context) error {
	defer d.permit.Settle()
	err := d.verify(ctx)
	if err == nil {
		d.Body, err = d.body.read()
	}
	if err == nil {
		d.verified = d.rx.cfg.Clock()
		d.ep.proved(&d.Identity)
		d.conn.authentic()
	} else if refusal, ok := errors.AsType[*verify.Error](err); ok && refusal.Code != verify.KeysUnavailable {
		d.permit.Debit()
	}
	if err = unproven(&d.ep.p, err); err == nil || d.challenged != nil {
		return err
	}
	if err = pass(d, err); err == nil {
		d.Body, err = d.body.read()
	}
	return err
}

// verify runs the scheme. It releases its slot while reading the body, so a slow sender does not
// block others.
func (d *delivery) verify(ctx context.Context) error {
	if d.ep.p.Scheme == nil {
		return nil
	}
	if err := d.permit.Acquire(ctx); err != nil {
		return err
	}
	defer d.permit.Yield()
	identity, content, err := verifyContent(&d.ep.p, d.Request, func() ([]byte, error) {
		if !d.body.done {
			d.busy = d.permit.Paused(ctx, d.body.load)
		}
		return d.body.buf, d.unread()
	}, &d.permit)
	if unread := d.unread(); unread != nil {
		return unread // the scheme may have replaced it
	}
	if d.Identity = identity; content != nil {
		d.body.buf = content
	}
	if err == nil {
		d.sent = d.r.Header
		d.r = asSigned(d.ep.pinned.MediaType, d.r, identity, content != nil)
		d.request.Header = d.r.Header
		if d.ep.pinned.URL && !identity.Covers("@path") {
			d.target.path = webhooksPath + d.ep.p.Name // any path may have led here
		}
	}
	if p := &d.ep.p; p.UnsignedChallenge != nil && withoutCredential(err) {
		d.answerUnsigned(ctx)
	}
	if err != nil && d.body.done && len(d.body.buf) == 0 && d.body.declared < 0 {
		return fmt.Errorf("%w (the body has no declared length and is empty: did middleware read it?)", err)
	}
	return err
}

// withoutCredential reports whether a scheme refused a request because nothing authenticates it.
func withoutCredential(err error) bool {
	switch verify.CodeOf(err) {
	case verify.SignatureMissing, verify.CredentialsMissing, verify.TokenMissing:
		return true
	}
	return false
}

// answerUnsigned answers a small request that is a challenge. It counts as a refused delivery for
// the limits of unverified ones.
func (d *delivery) answerUnsigned(ctx context.Context) {
	if d.r.ContentLength < 0 || d.r.ContentLength > producer.MaxChallengeBody {
		return
	}
	if !d.body.done {
		d.busy = d.permit.Paused(ctx, d.body.load)
	}
	if d.unread() != nil {
		return
	}
	if want := d.ep.p.UnsignedChallenge(d.Request, d.body.buf); want != nil {
		d.challenged = handshakeReply(want)
	}
}

// unread is why the scheme did not get the body.
func (d *delivery) unread() error {
	if d.body.err != nil {
		return d.body.err
	}
	return d.busy
}

// extractEvents finds the events of the delivery. Webhook senders drop events on a 400, so an
// unusable identifier is replaced by a digest of the body where the vendor does not always send
// one.
func (d *delivery) extractEvents() error {
	p := &d.ep.p
	if err := d.checkContent(); err != nil {
		if failureOf(err).code == codeBodyMissing && p.Handshake != nil {
			d.itemsErr = err
			return nil
		}
		return err
	}
	items, err := p.Items(&d.Delivery)
	if err != nil && p.Contract == producer.Webhook && !p.KeyRequired && p.Split == nil {
		anonymous := *p
		anonymous.Key = nil
		items, err = anonymous.Items(&d.Delivery)
	}
	if err != nil && p.Handshake == nil {
		return err
	}
	d.items, d.itemsErr = items, err
	if len(items) == 1 {
		d.id, d.typ = items[0].ID, items[0].Type
	}
	return nil
}

// checkContent removes the content coding of the body, for the extractors. It refuses requests
// with neither a body nor its type: CloudEvents HTTP webhook section 2.1 requires both, and no
// other sender omits both.
func (d *delivery) checkContent() error {
	p := &d.ep.p
	if len(d.Body) == 0 && d.r.Header.Get("Content-Type") == "" && !p.EmptyBody && p.Split == nil &&
		slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, d.r.Method) {
		return fail(codeBodyMissing, nil)
	}
	d.received = d.Body
	plain, err := readableBody(d.Identity, d.r.Header, d.Body, p.MaxBody)
	switch {
	case errors.Is(err, errInflates):
		return fail(codeBodyTooLarge, err)
	case err != nil:
		return &verify.Error{Code: verify.EventMalformed, Component: "content-encoding", Err: err}
	}
	d.Body = plain
	return nil
}

// checkFreshness refuses deliveries that are not fresh. Senders of some presets resend the same
// bytes hours later and drop the event on a 401: such a delivery may still be a duplicate. Early
// data may not, because it could have been captured (RFC 8470 section 3).
func (d *delivery) checkFreshness() error {
	p := &d.ep.p
	if d.unverified != nil {
		return nil //nolint:nilerr // waived
	}
	err := p.Tolerance.Check(d.Identity, d.verified)
	if verify.CodeOf(err) == verify.TimestampTooOld && p.StaleKnown && !d.early() && d.itemsErr == nil {
		d.stale = err
		return nil
	}
	if err != nil {
		return err
	}
	if d.early() && d.Identity.SignedAt.IsZero() {
		return fail(codeEarlyData, nil)
	}
	if p.Nonce != producer.NonceOff && d.Identity.Nonce == "" {
		return &verify.Error{Code: verify.InsufficientCoverage, KeyID: d.Identity.KeyID, Component: "nonce"}
	}
	return nil
}

// replayKnown answers a stale delivery with the stored response, if all its items are known with
// the same payload and have a response. Otherwise there is no reply, and nothing is stored.
func (d *delivery) replayKnown(ctx context.Context) (*reply, error) {
	entries := d.entries(ctx)
	claims := d.claims(entries)
	for i := range claims {
		claims[i].OnlyKnown, claims[i].Hold, claims[i].Aliases, claims[i].Series = true, false, nil, dedup.Key{}
	}
	decisions, err := d.rx.claim(ctx, claims...)
	if err != nil {
		return nil, err
	}
	unknown := func(x dedup.Decision) bool { return x.Verdict != dedup.Known || inFlight(x.Record) }
	if len(decisions) == 0 || slices.ContainsFunc(decisions, unknown) { // an empty batch duplicates nothing
		return nil, nil
	}
	return d.conclude(ctx, entries, decisions)
}

func (d *delivery) handshake(ctx context.Context) (*reply, error) {
	if d.ep.p.Handshake == nil {
		return nil, nil
	}
	want, err := d.ep.p.Handshake(ctx, &d.Delivery)
	if err != nil || want == nil {
		return nil, err
	}
	return handshakeReply(want), nil
}

// recordOutcome credits the peer for a new event. It refunds the rate tokens of duplicates,
// which any client can send after capturing a delivery, and of events that the store could not
// take, which the producer sends again.
func (d *delivery) recordOutcome(resp *reply) {
	if resp.fresh && d.unverified == nil {
		d.permit.Credit(time.Now())
	}
	if resp.refund {
		d.share.Refund()
		d.nonce.Refund()
	}
}

// endRefusals closes a connection after several unauthenticated requests in a row, refused or
// answered as pings and challenges. For HTTP/2, net/http turns the field into GOAWAY.
func (d *delivery) endRefusals(w http.ResponseWriter, resp *reply) {
	unauthentic := resp.Status == http.StatusUnauthorized || resp.Status == http.StatusBadRequest ||
		resp.code == codeHandshake || d.unverified != nil
	if unauthentic && !d.conn.isVerified && d.conn.refused() {
		w.Header().Set("Connection", "close")
	}
}
