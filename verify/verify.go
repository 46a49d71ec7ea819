// Package verify answers one question about a request: who signed it, over which bytes, and when?
//
// Most programs need two things from it: a [Scheme] for one way of signing, such as [HMAC] or
// [RFC9421], and a [KeySet] with the keys. A Scheme is pure: it uses no clock and no network
// that it was not given, so a recorded request always verifies the same way. Only
// [Tolerance.Check] checks times.
package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/internal/duration"
)

// Scheme verifies one delivery.
//
// Verify returns what the request proves about its sender. r.URL is absolute, as the producer
// called it (scheme, authority, path and query), and r.RequestURI is the request target as it
// arrived. The scheme calls body if it needs the body. body may be called more than once and always
// returns the same bytes; Verify returns its errors (over the limit, connection lost) unchanged.
//
// Every refusal is an *[Error] with a code of the closed set. Verify does not modify r, does
// not read r.Body, is safe for concurrent use, and never puts a secret, a signature or body
// bytes in an error.
type Scheme interface {
	Verify(r *http.Request, body func() ([]byte, error)) (Identity, error)
}

// Identity is what a verified request proves about its sender.
type Identity struct {
	KeyID       string    // the key that verified the request; empty if the scheme has no key ids
	Principal   string    // the authenticated identity of the key; empty means the producer's name
	Label       string    // of the verified signature (RFC 9421 section 4); empty for other schemes
	SignedAt    time.Time // the signed time; zero if the scheme signs none
	Created     time.Time // another time of the signature, checked as SignedAt is; zero if there is none
	OwnTime     bool      // SignedAt limits the age of the request and does not identify its message ([Any])
	NotBefore   time.Time // from when the credential is valid; zero if it has no such time
	Expires     time.Time // the earliest expiry of signature, token and certificate; zero if none expires
	ExpiredCode Code      // the code of [Tolerance.Check] after Expires; defaults to token_expired
	Nonce       string    // the signed nonce; empty if there is none
	// Secret is which of the scheme's secrets or keys verified the request, from 1 in the order of
	// the configuration, keys by id in the order of their ids; 0 if the scheme does not know it. It
	// shows when an old secret is no longer used.
	Secret int
	// Covered lists what the signature binds: lower-case field names, derived components as RFC
	// 9421 writes them ("@method", "@query", "@target-uri"), "@body" if the body is bound, and
	// "@items" if only some members of each item in it are.
	Covered []string
	// Malleable means that different deliveries can share a signature, because a canonical
	// form, only some members, or a concatenation without boundaries is signed. Signed is then
	// the same for all of them.
	Malleable bool
	// Signed is a digest of the signed content. It is nil if the credential does not bind the
	// body: with a bearer token, two messages under one token are not a replay.
	Signed []byte
	// Stable is the SHA-256 of the signed content without its time: the same for all signatures of
	// one message, whenever they were made. Several variable parts are each preceded by their
	// length. It is nil if the scheme does not know it, or if it would be the digest of the body.
	Stable []byte
	// Claims is the JSON of the claims of a verified token; nil for other schemes.
	Claims []byte
}

// Timed reports whether the signature has a time that identifies its message.
func (id Identity) Timed() bool { return !id.SignedAt.IsZero() && !id.OwnTime }

// Covers reports whether the signature binds the component or field (lower case). "@target-uri"
// includes the parts of the URL.
func (id Identity) Covers(name string) bool {
	part := name == "@scheme" || name == "@authority" || name == "@path" || name == "@query"
	return slices.Contains(id.Covered, name) || part && slices.Contains(id.Covered, "@target-uri")
}

// Alg names a signature algorithm of the HTTP Signature Algorithms registry (RFC 9421 section 3.3).
type Alg string

// The algorithms of a [Key].
const (
	HMACSHA256      Alg = "hmac-sha256"       // RFC 9421 section 3.3.3; secrets of at least 16 bytes
	Ed25519         Alg = "ed25519"           // RFC 9421 section 3.3.6
	ECDSAP256SHA256 Alg = "ecdsa-p256-sha256" // RFC 9421 section 3.3.4
	ECDSAP384SHA384 Alg = "ecdsa-p384-sha384" // RFC 9421 section 3.3.5
	RSAPSSSHA512    Alg = "rsa-pss-sha512"    // RFC 9421 section 3.3.1; keys of at least 2048 bits
	RSAv15SHA256    Alg = "rsa-v1_5-sha256"   // RFC 9421 section 3.3.2; must be enabled
)

// KeySet finds the keys that may have signed a request.
//
// Key returns every key with the given id, at least one. An unknown id is an *[Error] with
// [KeyUnknown]. Keys that cannot be fetched (a JWKS server is down) are an *[Error] with
// [KeysUnavailable]; it is transient, so the delivery gets a 503 and is sent again. An empty id
// returns all keys of the set, for signatures without a key id.
type KeySet interface {
	Key(ctx context.Context, id string) ([]Key, error)
}

// NoLimit disables one bound of a [Tolerance].
const NoLimit = time.Duration(1<<63 - 1)

// Tolerance is how far a signed time may be from now, both ends inclusive.
type Tolerance struct {
	// Past is how old a signature may be. Defaults to 5 minutes; [NoLimit] disables the bound.
	Past time.Duration `conf:"past,short"`
	// Future is how far the sender's clock may be ahead. Defaults to 60 seconds.
	Future time.Duration `conf:"future"`
	// End is how long after its end a signature still counts. Defaults to none.
	End time.Duration
}

// WithDefaults returns the tolerance with defaults in place of zero fields.
func (t Tolerance) WithDefaults() Tolerance {
	return Tolerance{Past: cmp.Or(t.Past, 5*time.Minute), Future: cmp.Or(t.Future, time.Minute), End: t.End}
}

// Check checks the times of a verified identity at now. It returns nil, or an *[Error] with
// timestamp_too_old, timestamp_too_new, token_not_yet_valid, or the identity's ExpiredCode. An
// identity without times passes.
func (t Tolerance) Check(id Identity, now time.Time) error {
	t = t.WithDefaults()
	if !id.Expires.IsZero() && now.After(id.Expires.Add(t.End)) {
		return &Error{Code: cmp.Or(id.ExpiredCode, TokenExpired), KeyID: id.KeyID}
	}
	if !id.NotBefore.IsZero() && t.Future != NoLimit && now.Add(t.Future).Before(id.NotBefore) {
		code := TokenNotYetValid
		if id.ExpiredCode == CertExpired { // one code for both ends of its validity period
			code = CertExpired
		}
		return &Error{Code: code, KeyID: id.KeyID}
	}
	return cmp.Or(t.check(id.SignedAt, id.KeyID, now), t.check(id.Created, id.KeyID, now))
}

// check checks one time. The zero time passes.
func (t Tolerance) check(at time.Time, keyID string, now time.Time) error {
	if at.IsZero() {
		return nil
	}
	// Times are compared, because a duration between far times saturates, and the lowest
	// duration has no negative.
	if t.Past != NoLimit && at.Before(now.Add(-t.Past)) {
		return &Error{Code: TimestampTooOld, KeyID: keyID,
			Err: fmt.Errorf("signed %s ago, at most %s are allowed",
				duration.Rough(now.Sub(at).Round(time.Second)), duration.Rough(t.Past))}
	}
	if t.Future != NoLimit && at.After(now.Add(t.Future)) {
		return &Error{Code: TimestampTooNew, KeyID: keyID,
			Err: fmt.Errorf("signed %s ahead of the clock here, at most %s are allowed",
				duration.Rough(at.Sub(now).Round(time.Second)), duration.Rough(t.Future))}
	}
	return nil
}
