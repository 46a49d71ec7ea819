package receiver

import (
	"cmp"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/receiver/internal/admission"
	"github.com/eyelet-dev/eyelet/verify"
)

// The codes of the receiver's own failures. Those of verification are in package verify.
const (
	codeNotFound          verify.Code = "not_found"
	codeHostUnknown       verify.Code = "host_unknown"
	codeEndpointRetired   verify.Code = "endpoint_retired"
	codeAddressRefused    verify.Code = "address_refused"
	codeLoopDetected      verify.Code = "loop_detected"
	codeDigestMalformed   verify.Code = "digest_malformed"
	codeDigestUnsupported verify.Code = "digest_unsupported"
	codeDigestInvalid     verify.Code = "digest_invalid"
	codeMethod            verify.Code = "method_not_allowed"
	codeTargetMalformed   verify.Code = "target_malformed"
	codeEarlyData         verify.Code = "early_data"
	codeMediaType                     = verify.MediaTypeUnsupported
	codeBodyTooLarge      verify.Code = "body_too_large"
	codeCoding            verify.Code = "content_coding_unsupported"
	codeBodyMissing       verify.Code = "body_missing"
	codeRateLimited       verify.Code = "rate_limited"
	codeAtCapacity        verify.Code = "at_capacity"
	codeBatchTooLarge     verify.Code = "batch_too_large"
	codeBodyTimeout       verify.Code = "body_timeout"
	codeBodyCut           verify.Code = "body_incomplete"
	codeBodyConsumed      verify.Code = "body_consumed"
	codeBusy              verify.Code = "busy"
	codeUnverifiedQuota   verify.Code = "unverified_quota"
	codeKeyReused         verify.Code = "idempotency_key_reused"
	codeSignatureReused   verify.Code = "signature_reused"
	codeInFlight          verify.Code = "in_flight"
	codeRejected          verify.Code = "rejected"
	codeRefusedByTarget   verify.Code = "target_refused"
	codeUndecodable       verify.Code = "undecodable"
	codeAnswerFailed      verify.Code = "answer_failed"
	codeAnswerTimeout     verify.Code = "answer_timeout"
	codePostponed         verify.Code = "answer_postponed"
	codeUnbound           verify.Code = "handler_unbound"
	codeStore             verify.Code = "store_unavailable"
	codeShuttingDown      verify.Code = "shutting_down"
	codeStarting          verify.Code = "starting"
	codeInternal          verify.Code = "internal_error"

	// Two public codes replace others: responses must not reveal which keys exist, and the
	// draft has its own name for the identifier.
	codeSignatureInvalid verify.Code = "signature_invalid"
	codeKeyMissing       verify.Code = "idempotency_key_missing"
)

// problem is one row of the table of failures: the status and text of a response. The policy
// page prints the rows; Code is the anchor.
type problem struct {
	Code verify.Code
	// Type is the registered problem type. Defaults to the anchor of Code in the policy.
	Type   string
	Status int
	Title  string
	Detail string
	// Retryable marks transient failures: the same delivery may succeed later. They carry
	// Retry-After.
	Retryable bool
	// CloseConn marks failures after which the connection cannot be used again.
	CloseConn bool
	// NameComponent adds the offending component to the detail, to help honest senders.
	NameComponent bool
	// Refunds marks failures whose events do not count against the producer's rate.
	Refunds bool
}

// The problem types of draft-ietf-httpapi-ratelimit-headers-11.
const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

	// Those of draft-ietf-httpapi-digest-fields-problem-types-06.
	unsupportedDigests = "https://iana.org/assignments/http-problem-types#digest-unsupported-algorithms"
	invalidDigests     = "https://iana.org/assignments/http-problem-types#digest-invalid-values"
	mismatchingDigests = "https://iana.org/assignments/http-problem-types#digest-mismatching-values"
)

// problems maps failures to responses. The status of in_flight depends on the producer, and under
// the webhook contract a 400 of a scheme is a 401, see unproven.
// What is not an error for webhook senders (another payload under a known key, known signed
// bytes) is not here: conclude decides it.
//
// A failure has a retryable status if and only if a retry may succeed: senders drop events on a
// wrong 4xx.
var problems = []problem{
	{Code: codeNotFound, Status: 404, Title: "No such endpoint",
		Detail: "Nothing receives deliveries at this path. Paths are compared octet for octet."},
	{Code: codeHostUnknown, Status: 421, Title: "Unknown host",
		Detail: "This receiver does not serve the requested host."},
	{Code: codeEndpointRetired, Status: 410, Title: "Endpoint retired",
		Detail: "This endpoint has ended, as its responses announced in the field Sunset. Stop sending to it."},
	{Code: codeAddressRefused, Status: 403, Title: "Address not allowed",
		Detail: "Deliveries to this endpoint are accepted from agreed addresses only."},
	{Code: codeLoopDetected, Status: 400, Title: "Loop detected",
		Detail: "The field Via names this receiver, so the delivery is in a loop. Retrying does not help."},
	{Code: codeMethod, Status: 405, Title: "Method not allowed",
		Detail: "The Allow field lists the methods of this endpoint."},
	{Code: codeTargetMalformed, Status: 400, Title: "Malformed request target",
		Detail: "The request target has no path, or is not a URL."},
	{Code: codeEarlyData, Status: 425, Title: "Too early",
		Detail: "The request came as TLS early data, which can be replayed. Send it again after the handshake."},
	{Code: codeMediaType, Status: 415, Title: "Unsupported media type",
		Detail: "The Accept-Post field lists the media types of this endpoint."},
	{Code: codeCoding, Status: 415, Title: "Unsupported content coding",
		Detail: "The Accept-Encoding field lists the content codings, of which a body has at most one."},
	{Code: codeBodyTooLarge, Status: 413, Title: "Body too large", CloseConn: true,
		Detail: "The body, or what it decodes to, is larger than the limit in the policy."},
	{Code: codeBodyMissing, Status: 400, Title: "Body missing",
		Detail: "The request has neither a body nor a Content-Type."},
	{Code: codeBatchTooLarge, Status: 413, Title: "Batch too large",
		Detail: "The batch cannot be stored in one step. Send smaller batches."},
	{Code: codeBodyTimeout, Status: 408, Title: "Body timeout", CloseConn: true,
		Detail: "The body did not arrive in time. Nothing was stored."},
	{Code: codeBodyCut, Status: 400, Title: "Body incomplete", CloseConn: true,
		Detail: "The body ended early or is not framed correctly. Nothing was stored."},
	{Code: codeBodyConsumed, Status: 503, Title: "Body consumed", Retryable: true,
		Detail: "Code that runs before the receiver read or replaced the body: exclude it from this path."},
	{Code: codeBusy, Type: reducedCapacity, Status: 503, Title: "Busy", Retryable: true, CloseConn: true,
		Detail: "Too many deliveries are arriving at once."},
	{Code: codeUnverifiedQuota, Status: 503, Title: "Too many unverified deliveries", Retryable: true,
		Detail: "Deliveries that do not verify are accepted within a rate and a daily quota, which is used up."},

	{Code: codeSignatureInvalid, Status: 401, Title: "Signature not valid",
		Detail: "The signature was not made over this request with a key of this producer."},
	{Code: verify.SignatureMissing, Status: 401, Title: "Signature missing",
		Detail: "Deliveries to this endpoint are signed; this one is not."},
	{Code: verify.SignatureMalformed, Status: 400, Title: "Signature malformed",
		Detail: "The signature fields do not parse."},
	{Code: verify.AlgorithmNotAllowed, Status: 401, Title: "Algorithm not allowed",
		Detail: "The signature names an algorithm that this endpoint does not accept."},
	{Code: verify.VersionUnsupported, Status: 401, Title: "Signature version not supported",
		Detail: "None of the signatures is of a version that this endpoint accepts."},
	{Code: verify.InsufficientCoverage, Status: 401, Title: "Signature covers too little", NameComponent: true,
		Detail: "The signature does not cover a required component."},
	{Code: verify.ComponentUnsupported, Status: 400, Title: "Component not supported", NameComponent: true,
		Detail: "The signature covers a component that this endpoint does not accept."},
	{Code: verify.AmbiguousField, Status: 400, Title: "Ambiguous request", NameComponent: true,
		Detail: "A field or parameter that must occur once occurs more than once."},
	{Code: verify.DigestMissing, Status: 401, Title: "Content-Digest missing",
		Detail: "The signature must cover a Content-Digest of the body with sha-256 or sha-512."},
	{Code: codeDigestMalformed, Status: 400, Title: "Content-Digest malformed",
		Detail: "The field Content-Digest is not a dictionary of byte sequences (RFC 9530 section 2)."},
	{Code: codeDigestUnsupported, Type: unsupportedDigests, Status: 400, Title: "Unsupported Hashing Algorithms",
		Detail: "Content-Digest has none of the accepted algorithms, which Want-Content-Digest lists."},
	{Code: codeDigestInvalid, Type: invalidDigests, Status: 400, Title: "Invalid Digest Values",
		Detail: "A digest in Content-Digest does not have the length of its algorithm."},
	{Code: verify.DigestMismatch, Type: mismatchingDigests, Status: 401, Title: "Content-Digest does not match",
		Detail: "The body is not the one that Content-Digest describes."},
	{Code: verify.BodyHashMismatch, Status: 401, Title: "Body hash does not match",
		Detail: "The body is not the one that the signed hash describes."},
	{Code: verify.TimestampMissing, Status: 401, Title: "Signed time missing",
		Detail: "The signature must include the time at which it was made."},
	{Code: verify.TimestampMalformed, Status: 400, Title: "Signed time malformed",
		Detail: "The signed time cannot be parsed."},
	{Code: verify.TimestampTooOld, Status: 401, Title: "Signature too old",
		Detail: "The delivery was signed too long ago. Sign it again."},
	{Code: verify.TimestampTooNew, Status: 401, Title: "Signature from the future",
		Detail: "The signed time is too far in the future."},
	{Code: verify.NonceReused, Status: 401, Title: "Nonce used before", Refunds: true,
		Detail: "The nonce was used with another event."},
	{Code: codeSignatureReused, Status: 401, Title: "Signature used before", Refunds: true,
		Detail: "The same signed bytes were received under another identifier, or their response is no longer stored."},
	{Code: verify.KeysUnavailable, Status: 503, Title: "Keys not available", Retryable: true,
		Detail: "The keys of the producer are not available at the moment."},
	{Code: verify.CredentialsMissing, Status: 401, Title: "Credentials missing",
		Detail: "Deliveries to this endpoint carry credentials; this one does not."},
	{Code: verify.CredentialsMismatch, Status: 401, Title: "Credentials not valid",
		Detail: "The credentials are not those of this endpoint."},
	{Code: verify.TokenMissing, Status: 401, Title: "Token missing",
		Detail: "Deliveries to this endpoint carry a token; this one does not."},
	{Code: verify.TokenMalformed, Status: 401, Title: "Token malformed",
		Detail: "The token is not of the expected form."},
	{Code: verify.TokenExpired, Status: 401, Title: "Expired", Detail: "The signature or token has expired."},
	{Code: verify.TokenNotYetValid, Status: 401, Title: "Not valid yet", Detail: "The token is not valid yet."},
	{Code: verify.AudienceMismatch, Status: 401, Title: "Wrong audience",
		Detail: "The token or delivery is for another receiver."},
	{Code: verify.IssuerMismatch, Status: 401, Title: "Wrong token issuer",
		Detail: "The token's issuer is not this endpoint's."},
	{Code: verify.SubjectMismatch, Status: 401, Title: "Wrong token subject",
		Detail: "The token's subject is not this endpoint's."},
	{Code: verify.CertURLUntrusted, Status: 401, Title: "Certificate address not trusted",
		Detail: "The certificate's address is not the vendor's."},
	{Code: verify.CertUntrusted, Status: 401, Title: "Certificate not trusted",
		Detail: "The certificate has no chain to a trusted root."},
	{Code: verify.CertExpired, Status: 401, Title: "Certificate not valid now",
		Detail: "The certificate has expired or is not valid yet."},
	{Code: verify.TopicUnexpected, Status: 403, Title: "Topic not expected",
		Detail: "The topic is not on the list of this endpoint."},
	{Code: verify.ChallengeUnexpected, Status: 403, Title: "Challenge not expected",
		Detail: "The endpoint does not answer this challenge: nothing expects it."},

	{Code: codeKeyMissing, Status: 400, Title: "Idempotency key missing", NameComponent: true,
		Detail: "Deliveries to this endpoint must identify their event, as the policy describes."},
	{Code: verify.EventMalformed, Status: 400, Title: "Event malformed", NameComponent: true,
		Detail: "The body is not an event of the form that this endpoint expects."},
	{Code: codeKeyReused, Status: 422, Title: "Idempotency key used for another payload", Refunds: true,
		Detail: "The key was used with another payload, which stays as accepted."},
	{Code: codeInFlight, Status: 409, Title: "Delivery in progress", Retryable: true, Refunds: true,
		Detail: "The first delivery of this event is still being processed. Retry later for its response."},
	{Code: codeRejected, Status: 422, Title: "Event rejected",
		Detail: "The event was understood and will not be processed."},
	{Code: codeRefusedByTarget, Status: 422, Title: "Refused by the target",
		Detail: "The receiver to which the event was forwarded refused it finally."},
	{Code: codeUndecodable, Status: 422, Title: "Payload not understood",
		Detail: "The payload does not have the form that this endpoint processes."},
	{Code: codeAnswerFailed, Status: 503, Title: "Not processed", Retryable: true,
		Detail: "The event could not be processed now. It can be sent again."},
	{Code: codeAnswerTimeout, Status: 503, Title: "Not processed in time", Retryable: true,
		Detail: "Processing continues. Send the event again for its result."},
	{Code: codePostponed, Status: 503, Title: "Not processed yet", Retryable: true,
		Detail: "The event cannot be processed before Retry-After."},
	{Code: codeUnbound, Status: 503, Title: "Not processed here", Retryable: true, Refunds: true,
		Detail: "The application does not process these events at this address yet. Nothing was stored."},
	{Code: codeRateLimited, Type: quotaExceeded, Status: 429, Title: "Too many events", Retryable: true,
		Detail: "The producer exceeds its rate in the policy. Nothing was stored."},
	{Code: codeAtCapacity, Type: reducedCapacity, Status: 503, Title: "Too many deliveries at once", Retryable: true,
		Detail: "The producer has as many concurrent deliveries as the policy allows. Nothing was stored."},
	{Code: codeStore, Status: 503, Title: "Not stored", Retryable: true, Refunds: true,
		Detail: "Events cannot be stored at the moment."},
	{Code: codeStarting, Status: 503, Title: "Starting", Retryable: true, CloseConn: true,
		Detail: "The receiver is starting. Nothing was read."},
	{Code: codeShuttingDown, Status: 503, Title: "Shutting down", Retryable: true, CloseConn: true,
		Detail: "The receiver is restarting."},
	{Code: codeInternal, Status: 500, Title: "Internal error",
		Detail: "The receiver failed. Whether the event was stored is unknown."},
}

// publicCode hides codes that would reveal which keys exist.
func publicCode(code verify.Code) verify.Code {
	switch code {
	case verify.KeyUnknown, verify.SignatureMismatch, verify.AlgorithmMismatch:
		return codeSignatureInvalid
	case verify.IDMissing:
		return codeKeyMissing
	}
	return code
}

// problemFor returns the row of a code. Unknown codes become internal_error.
func problemFor(code verify.Code) problem {
	code = publicCode(code)
	for i := range problems {
		if problems[i].Code == code {
			return problems[i]
		}
	}
	return problemFor(codeInternal)
}

// failure is an error with its code.
type failure struct {
	code   verify.Code
	err    error         // the private cause
	status int           // replaces that of its row, if not zero
	after  time.Duration // lower bound of Retry-After; zero leaves it to the configuration
	header http.Header   // fields that this failure adds
}

func (f *failure) Error() string { return because(string(f.code), f.err) }
func (f *failure) Unwrap() error { return f.err }

func fail(code verify.Code, err error) *failure { return &failure{code: code, err: err} }

// unproven is the failure of a delivery that a scheme refused. Vendors test an endpoint with a
// signature that is not valid, which need not even decode, and expect 401.
func unproven(p *producer.Producer, err error) error {
	refusal, ok := errors.AsType[*verify.Error](err)
	if !ok || p.Contract != producer.Webhook || problemFor(codeOf(refusal)).Status != http.StatusBadRequest {
		return err
	}
	return &failure{code: codeOf(refusal), err: err, status: http.StatusUnauthorized}
}

// failureOf returns the failure of any error. Unexpected errors are internal_error.
func failureOf(err error) *failure {
	if own, ok := errors.AsType[*failure](err); ok {
		return own
	}
	if refusal, ok := errors.AsType[*verify.Error](err); ok {
		return &failure{code: codeOf(refusal), err: err, after: refusal.RetryAfter}
	}
	if unavailable, ok := errors.AsType[*dedup.ErrUnavailable](err); ok {
		return &failure{code: codeStore, err: err, after: unavailable.RetryAfter}
	}
	switch {
	case errors.Is(err, admission.ErrBusy):
		return fail(codeBusy, err)
	case errors.Is(err, dedup.ErrTooLarge):
		return fail(codeBatchTooLarge, err)
	}
	return fail(codeInternal, err)
}

// codeOf is the code of a refusal. A Content-Digest that no body can match has a code of its
// own: the producer is at fault, and no third party changed the body.
func codeOf(refusal *verify.Error) verify.Code {
	switch {
	case errors.Is(refusal.Err, verify.ErrDigestSyntax):
		return codeDigestMalformed
	case errors.Is(refusal.Err, verify.ErrDigestUnsupported):
		return codeDigestUnsupported
	case errors.Is(refusal.Err, verify.ErrDigestLength):
		return codeDigestInvalid
	}
	return refusal.Code
}

// quotaPolicy names the one policy of every producer with a rate, in the RateLimit fields.
const quotaPolicy = "default"

// rateExceeded is the failure of a delivery over the rate. Its RateLimit fields are those of
// draft-ietf-httpapi-ratelimit-headers-11: t is when the delivery would fit, and Retry-After is
// not before it.
func rateExceeded(rate producer.Rate, wait time.Duration, left int) *failure {
	return &failure{code: codeRateLimited, after: wait, header: http.Header{
		"Ratelimit-Policy": {fmt.Sprintf("%q;q=%d;w=%d", quotaPolicy, rate.Events, rate.Per/time.Second)},
		"Ratelimit":        {fmt.Sprintf("%q;r=%d;t=%d", quotaPolicy, left, (wait+time.Second-1)/time.Second)},
	}}
}

// storeFailure is the failure of an error of the store. After an unexpected error the outcome is
// unknown: 503, and the sender's retry gets it.
func storeFailure(err error) *failure {
	if errors.Is(err, dedup.ErrLeaseLost) { // another delivery has the event by now
		return fail(codeInFlight, err)
	}
	if f := failureOf(err); f.code != codeInternal || errors.Is(err, dedup.ErrInvalid) {
		return f
	}
	return fail(codeStore, err)
}

// refusalResponse is the problem for a refusal of a handler, with the handler's detail.
func (rx *Receiver) refusalResponse(p *producer.Producer, r *Response) *Response {
	code := codeRejected
	if r.Refusal.ByTarget {
		code = codeRefusedByTarget
	}
	row, header := problemFor(code), rx.problemReply(p, fail(code, nil)).Header
	row.Status, row.Detail = cmp.Or(r.Status, row.Status), cmp.Or(r.Refusal.Detail, row.Detail)
	return &Response{Status: row.Status, Header: header, Body: rx.problemBody(row, row.Status, nil)}
}

func (rx *Receiver) problemReply(p *producer.Producer, err error) *reply {
	f := failureOf(err)
	row := problemFor(f.code)
	status := row.Status
	if row.Code == codeInFlight {
		status = p.InFlight
	}
	status = cmp.Or(f.status, status)
	header := http.Header{
		"Content-Type":  {"application/problem+json"},
		"Cache-Control": {"no-store"},
		"Link":          {"<" + rx.policyURL + `>; rel="describedby"`},
	}
	maps.Copy(header, f.header)
	switch row.Code {
	case codeMediaType:
		taken := strings.Join(p.AcceptedMediaTypes(), ", ")
		header.Set("Accept-Post", taken)
		header.Set("Accept", taken)
	case verify.DigestMissing, codeDigestUnsupported:
		header.Set("Want-Content-Digest", "sha-256=10, sha-512=3") // RFC 9530 section 4
	}
	if row.Retryable {
		header.Set("Retry-After", rx.retryAfter(f.after))
	}
	if row.CloseConn {
		header.Set("Connection", "close")
	}
	if status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", p.Authenticate)
		if s, ok := p.Scheme.(interface{ AcceptSignature() string }); ok && s.AcceptSignature() != "" {
			wanted := s.AcceptSignature()
			if p.Nonce != producer.NonceOff {
				// An offer (RFC 9421 section 5.1), not stored: a producer may make its own.
				wanted += `;nonce="` + crand.Text() + `"`
			}
			header.Set("Accept-Signature", wanted)
		}
	}
	return &reply{
		Response: dedup.Response{Status: status, Header: header, Body: rx.problemBody(row, status, err)},
		code:     f.code, err: err, refund: row.Refunds,
	}
}

// problemBody is the problem details object (RFC 9457 section 3). Nothing in it comes from the
// private cause.
func (rx *Receiver) problemBody(row problem, status int, err error) []byte {
	detail := row.Detail
	if refusal, ok := errors.AsType[*verify.Error](err); ok && row.NameComponent && refusal.Component != "" {
		detail += fmt.Sprintf(" It is about %q.", refusal.Component)
	}
	if reason, ok := errors.AsType[verify.Public](err); ok {
		detail += " Reason: " + string(reason) + "."
	}
	var violated []string
	if row.Type == quotaExceeded {
		violated = []string{quotaPolicy}
	}
	body, _ := json.Marshal(struct { // strings and numbers always marshal
		Type   string      `json:"type"`
		Title  string      `json:"title"`
		Status int         `json:"status"`
		Code   verify.Code `json:"code"`
		Detail string      `json:"detail"`
		// Violated names the policies of the field RateLimit-Policy that the producer exceeded.
		Violated []string `json:"violated-policies,omitempty"`
		digestProblem
	}{
		rx.typeOf(row), row.Title, status, row.Code, strings.ToValidUTF8(detail, "?"), violated,
		digestProblemOf(err),
	})
	return append(body, '\n')
}

// typeOf is the type of a problem: the registered one, or an anchor in the policy.
func (rx *Receiver) typeOf(row problem) string {
	if row.Type != "" {
		return row.Type
	}
	return rx.policyURL + "#" + string(row.Code)
}

// retryAfter is delay-seconds (RFC 9110 section 10.2.3), at least 1. It is jittered, so that
// senders which were refused together do not come back together: the configured time ±50 %, or
// up to half more than a lower bound.
func (rx *Receiver) retryAfter(least time.Duration) string {
	d := rx.cfg.RetryAfter/2 + rand.N(rx.cfg.RetryAfter+1)
	if least > 0 {
		d = least + rand.N(least/2+1)
	}
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

// digestProblem holds the members that the problem types for digests add
// (draft-ietf-httpapi-digest-fields-problem-types-06).
type digestProblem struct {
	Unsupported []digestFault `json:"unsupported-algorithms,omitempty"`
	Invalid     []digestFault `json:"invalid-digests,omitempty"`
}

type digestFault struct {
	Algorithm string `json:"algorithm"`
	Header    string `json:"header"`
	Reason    string `json:"reason,omitempty"`
}

// digestProblemOf returns the members for a refusal; none if it is not about digests.
func digestProblemOf(err error) (p digestProblem) {
	cause, ok := errors.AsType[*verify.DigestError](err)
	if !ok {
		return p
	}
	for _, algorithm := range cause.Algorithms {
		if errors.Is(cause, verify.ErrDigestUnsupported) {
			p.Unsupported = append(p.Unsupported, digestFault{Algorithm: algorithm, Header: "Content-Digest"})
		} else {
			p.Invalid = append(p.Invalid, digestFault{algorithm, "Content-Digest", cause.Error()})
		}
	}
	return p
}
