package verify

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is the check that refused a request. The set is closed: receivers map codes to statuses in
// one table.
type Code string

// The codes. Each names the first check that failed.
const (
	SignatureMissing     Code = "signature_missing"      // no signature was sent
	SignatureMalformed   Code = "signature_malformed"    // sent, but without a usable entry
	SignatureMismatch    Code = "signature_mismatch"     // well formed, but not made with our key over these bytes
	AlgorithmNotAllowed  Code = "algorithm_not_allowed"  // the configuration does not list the algorithm
	AlgorithmMismatch    Code = "algorithm_mismatch"     // the named algorithm is not the key's (RFC 9421 section 3.2)
	VersionUnsupported   Code = "version_unsupported"    // the signature version is not accepted
	InsufficientCoverage Code = "insufficient_coverage"  // a component that must be signed is not
	ComponentUnsupported Code = "component_unsupported"  // a component or parameter that must not be covered
	AmbiguousField       Code = "ambiguous_field"        // a field that must have one line has several
	DigestMissing        Code = "digest_missing"         // a body without a usable Content-Digest (RFC 9530)
	DigestMismatch       Code = "digest_mismatch"        // the body does not match the Content-Digest
	BodyHashMismatch     Code = "body_hash_mismatch"     // the body does not match its signed hash, or has none
	TimestampMissing     Code = "timestamp_missing"      // the scheme requires a signed time
	TimestampMalformed   Code = "timestamp_malformed"    // the signed time cannot be parsed
	TimestampTooOld      Code = "timestamp_too_old"      // signed longer ago than the tolerance allows
	TimestampTooNew      Code = "timestamp_too_new"      // signed further ahead than the tolerance allows
	NonceReused          Code = "nonce_reused"           // the nonce was used for another event
	KeyUnknown           Code = "key_unknown"            // no key with this id is configured
	KeysUnavailable      Code = "keys_unavailable"       // keys cannot be fetched; transient
	IDMissing            Code = "id_missing"             // a required idempotency key is missing
	CredentialsMissing   Code = "credentials_missing"    // no shared credential was sent
	CredentialsMismatch  Code = "credentials_mismatch"   // the shared credential is wrong
	TokenMissing         Code = "token_missing"          // no bearer token was sent
	TokenMalformed       Code = "token_malformed"        // not a token of the expected form
	TokenExpired         Code = "token_expired"          // the token or signature has expired
	TokenNotYetValid     Code = "token_not_yet_valid"    // the token is not valid yet
	AudienceMismatch     Code = "audience_mismatch"      // the token is for another audience
	IssuerMismatch       Code = "issuer_mismatch"        // the token is from another issuer
	SubjectMismatch      Code = "subject_mismatch"       // the token is for another subject
	CertURLUntrusted     Code = "cert_url_untrusted"     // the certificate address is not the vendor's
	CertUntrusted        Code = "cert_untrusted"         // the certificate has no chain to a trusted root
	CertExpired          Code = "cert_expired"           // the certificate is outside its validity period
	TopicUnexpected      Code = "topic_unexpected"       // the topic is not on the allow-list
	ChallengeUnexpected  Code = "challenge_unexpected"   // the subscription was not requested
	EventMalformed       Code = "event_malformed"        // the verified body is not an event of the expected form
	MediaTypeUnsupported Code = "media_type_unsupported" // the producer does not send this media type
)

// Error is the refusal of a request. Its text has the code, the key and the component, and
// never a secret, a signature or bytes of the body.
type Error struct {
	Code       Code          // the check that failed
	KeyID      string        // the key that the request names, if any
	Component  string        // the field or component at fault, if any
	RetryAfter time.Duration // when keys may be available again (keys_unavailable); 0 is unknown
	Err        error         // the private cause, for the log
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

// Public is a cause that the sender may see, such as a limit or the expected form of a value.
// It never quotes the request. Receivers add it to their response.
type Public string

// Error implements error.
func (p Public) Error() string { return string(p) }

// truncate bounds what a sender can write into the log.
func truncate(s string) string {
	if len(s) > 128 {
		return s[:125] + "..."
	}
	return s
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error with the same code, as in errors.Is(err,
// &verify.Error{Code: verify.KeyUnknown}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the *Error in err, or "" if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// orDefault returns the list, or the default for an empty one.
func orDefault[T any](list []T, byDefault ...T) []T {
	if len(list) == 0 {
		return byDefault
	}
	return list
}

// errorList collects the errors of a description.
type errorList []error

func (l *errorList) addIf(wrong bool, format string, args ...any) {
	if wrong {
		*l = append(*l, fmt.Errorf(format, args...))
	}
}
