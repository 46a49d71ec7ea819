package verify

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code says which check refused a request. The set is closed: receivers map codes to statuses in one table.
type Code string

// The codes. Each names the first check that failed.
const (
	SignatureMissing     Code = "signature_missing"      // nothing that could be a signature was sent
	SignatureMalformed   Code = "signature_malformed"    // sent, but no usable entry could be parsed
	SignatureMismatch    Code = "signature_mismatch"     // well formed, but not made with our key over these bytes
	AlgorithmNotAllowed  Code = "algorithm_not_allowed"  // an algorithm that the configuration does not list
	AlgorithmMismatch    Code = "algorithm_mismatch"     // the algorithm named is not the key's (RFC 9421 section 3.2)
	VersionUnsupported   Code = "version_unsupported"    // a signature version that is not accepted
	InsufficientCoverage Code = "insufficient_coverage"  // the signature leaves out a component that must be signed
	ComponentUnsupported Code = "component_unsupported"  // a component or parameter that must not be covered
	AmbiguousField       Code = "ambiguous_field"        // a field that must stand on one line stands on several
	DigestMissing        Code = "digest_missing"         // a body without a usable Content-Digest (RFC 9530)
	DigestMismatch       Code = "digest_mismatch"        // the body is not the one that the Content-Digest describes
	BodyHashMismatch     Code = "body_hash_mismatch"     // the body is not the one that a signed hash describes, or none does
	TimestampMissing     Code = "timestamp_missing"      // the signed time that the scheme demands was not sent
	TimestampMalformed   Code = "timestamp_malformed"    // the signed time is no time
	TimestampTooOld      Code = "timestamp_too_old"      // signed longer ago than the tolerance
	TimestampTooNew      Code = "timestamp_too_new"      // signed further ahead than the tolerance
	NonceReused          Code = "nonce_reused"           // a nonce that was used for another event
	KeyUnknown           Code = "key_unknown"            // no key of this id is configured
	KeysUnavailable      Code = "keys_unavailable"       // keys cannot be had at the moment; transient
	IDMissing            Code = "id_missing"             // no idempotency identifier where one is demanded
	CredentialsMissing   Code = "credentials_missing"    // no shared credential was sent
	CredentialsMismatch  Code = "credentials_mismatch"   // a shared credential that is not ours
	TokenMissing         Code = "token_missing"          // no bearer token was sent
	TokenMalformed       Code = "token_malformed"        // not a token of the expected form
	TokenExpired         Code = "token_expired"          // the token or signature has ended
	TokenNotYetValid     Code = "token_not_yet_valid"    // the token's time has not come
	AudienceMismatch     Code = "audience_mismatch"      // the token is for somebody else
	IssuerMismatch       Code = "issuer_mismatch"        // the token is from somebody else
	SubjectMismatch      Code = "subject_mismatch"       // the token is about somebody else
	CertURLUntrusted     Code = "cert_url_untrusted"     // a certificate address that is not the vendor's
	CertUntrusted        Code = "cert_untrusted"         // a certificate without a chain to a trusted root
	CertExpired          Code = "cert_expired"           // a certificate outside its dates
	TopicUnexpected      Code = "topic_unexpected"       // a topic that is not on the allow-list
	ChallengeUnexpected  Code = "challenge_unexpected"   // a subscription challenge that nobody asked for
	EventMalformed       Code = "event_malformed"        // a verified body that is not the event it should be
	MediaTypeUnsupported Code = "media_type_unsupported" // a media type that the producer does not send
)

// Error is the refusal of a request. Its text names the code, the key and the component, and never a secret,
// a signature, or bytes of the body.
type Error struct {
	// Code says which check failed.
	Code Code
	// KeyID is the key that the request named, when it named one.
	KeyID string
	// Component is the field or component at fault, when there is one.
	Component string
	// RetryAfter is how long to wait before keys may be there again (keys_unavailable); zero says nothing.
	RetryAfter time.Duration
	// Err is the private cause, for the log.
	Err error
}

// Error describes the refusal for the log.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(string(e.Code), "_", " "))
	if e.Component != "" {
		fmt.Fprintf(&b, ": %q", truncate(e.Component))
	}
	if e.KeyID != "" {
		fmt.Fprintf(&b, " (key %q)", truncate(e.KeyID))
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Public is a cause of a refusal that the sender may be told, such as a limit or the form that a value must have. It is in words
// of ours and holds nothing of the request. Receivers add it to what they answer.
type Public string

// Error implements error.
func (p Public) Error() string { return string(p) }

// truncate bounds what the sender can write into our log.
func truncate(s string) string {
	if len(s) > 128 {
		return s[:125] + "..."
	}
	return s
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error with the same code and nothing else set, so that
// errors.Is(err, &verify.Error{Code: verify.KeyUnknown}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the refusal in err, or "" when err holds none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
