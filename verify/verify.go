// Package verify answers one question about a request: who signed it, over which bytes, and when?
//
// Most programs need two things from here: a [Scheme] that knows one way of signing, such as [HMAC] or
// [RFC9421], and a [KeySet] that holds the keys. A Scheme is pure: it reads no clock and no network that it
// was not given, so a recorded request verifies the same way for ever. Time is judged in one place,
// [Tolerance.Check].
package verify

import (
	"context"
	"net/http"
	"time"
)

// Scheme verifies one delivery.
//
// Verify looks at the request and answers who signed it. r.URL is absolute, as the producer called it
// (scheme, authority, path and query), and r.RequestURI is the request target as it arrived. The body is
// read only when the scheme asks for it by calling body, which may be called more than once and always
// returns the same bytes; its errors (a body over the limit, a cut connection) are returned as they are.
//
// Every refusal is an *[Error] with a code of the closed set. Verify does not modify r, does not read
// r.Body, may be called concurrently, and never puts a secret, a signature or body bytes in an error.
type Scheme interface {
	Verify(r *http.Request, body func() ([]byte, error)) (Identity, error)
}

// Identity is what a verified request proves about its sender.
type Identity struct {
	// KeyID names the key that verified the request; empty where the scheme has no key names.
	KeyID string
	// Principal is the authenticated identity when the key carries one of its own; empty means that the
	// producer's name is the principal.
	Principal string
	// Label is the label of the signature that verified (RFC 9421 section 4); empty elsewhere.
	Label string
	// SignedAt is the signed time of the signature; zero where the scheme signs none.
	SignedAt time.Time
	// NotBefore is the earliest time at which the credential is good; zero when it names none.
	NotBefore time.Time
	// Expires is the earliest end of the signature, token and certificate; zero when none of them ends.
	Expires time.Time
	// ExpiredCode is the code with which [Tolerance.Check] refuses after Expires. Defaults to token_expired.
	ExpiredCode Code
	// Nonce is the signed nonce; empty when there is none.
	Nonce string
	// Covered lists what the signature binds: lower-case field names, derived components as RFC 9421 spells
	// them ("@method", "@query", "@target-uri"), "@body" where the body is bound, and "@items" where only some members of
	// each item in it are.
	Covered []string
	// Malleable says that other deliveries can have the same signature: what is signed is a canonical form, some
	// members of the body, or a concatenation whose parts have no boundaries. Signed is then the same for all of them.
	Malleable bool
	// Signed is a digest of the signed content. It is nil where the credential does not bind the body, as
	// with bearer tokens, so that nobody takes two messages under one token for a replay.
	Signed []byte
	// Stable is the SHA-256 of the signed content without its time, each variable part with its length before it where
	// there are several: the same for all signatures of one message, whenever they were made. It is nil where the scheme
	// does not know it, and where it would be that of the body.
	Stable []byte
	// Claims is the JSON of a verified token's claims (JWT schemes); nil elsewhere.
	Claims []byte
}

// Covers reports whether the signature binds the named component or field (lower case). What binds "@target-uri" binds
// the parts of the URL too.
func (id Identity) Covers(name string) bool {
	part := name == "@scheme" || name == "@authority" || name == "@path" || name == "@query"
	for _, c := range id.Covered {
		if c == name || part && c == "@target-uri" {
			return true
		}
	}
	return false
}

// Alg names a signature algorithm of the HTTP Signature Algorithms registry (RFC 9421 section 3.3).
type Alg string

// The algorithms that a [Key] can have.
const (
	HMACSHA256      Alg = "hmac-sha256"       // RFC 9421 section 3.3.3; secrets of at least 16 bytes
	Ed25519         Alg = "ed25519"           // RFC 9421 section 3.3.6
	ECDSAP256SHA256 Alg = "ecdsa-p256-sha256" // RFC 9421 section 3.3.4
	ECDSAP384SHA384 Alg = "ecdsa-p384-sha384" // RFC 9421 section 3.3.5
	RSAPSSSHA512    Alg = "rsa-pss-sha512"    // RFC 9421 section 3.3.1; keys of at least 2048 bits
	RSAv15SHA256    Alg = "rsa-v1_5-sha256"   // RFC 9421 section 3.3.2; off unless switched on
)

// KeySet finds the keys that may have signed a request.
//
// Key returns every key with the given id, at least one. An unknown id is an *[Error] with [KeyUnknown]; keys
// that cannot be had at the moment (a JWKS server that is down) are an *[Error] with [KeysUnavailable], which
// is transient: the delivery is answered 503 and must not be lost for our outage. An empty id asks for all
// keys of the set, for signatures that name none.
type KeySet interface {
	Key(ctx context.Context, id string) ([]Key, error)
}

// Default tolerances for signed times; see [Tolerance].
const (
	DefaultPast   = 5 * time.Minute
	DefaultFuture = 60 * time.Second
	// NoLimit switches one side of a [Tolerance] off.
	NoLimit = time.Duration(1<<63 - 1)
)

// Tolerance says how far a signed time may be from now, both ends inclusive.
type Tolerance struct {
	// Past is how old a signature may be. Defaults to [DefaultPast]; [NoLimit] switches the bound off.
	Past time.Duration
	// Future is how far ahead of us the sender's clock may be. Defaults to [DefaultFuture].
	Future time.Duration
}

// WithDefaults returns the tolerance with its zero fields replaced by their defaults.
func (t Tolerance) WithDefaults() Tolerance {
	if t.Past == 0 {
		t.Past = DefaultPast
	}
	if t.Future == 0 {
		t.Future = DefaultFuture
	}
	return t
}

// Check judges the times of a verified identity at now. It returns nil, or an *[Error] with timestamp_too_old,
// timestamp_too_new, token_not_yet_valid, or the identity's ExpiredCode. An identity without times passes.
func (t Tolerance) Check(id Identity, now time.Time) error {
	t = t.WithDefaults()
	if !id.Expires.IsZero() && now.After(id.Expires) {
		code := id.ExpiredCode
		if code == "" {
			code = TokenExpired
		}
		return &Error{Code: code, KeyID: id.KeyID}
	}
	if !id.NotBefore.IsZero() && t.Future != NoLimit && now.Add(t.Future).Before(id.NotBefore) {
		code := TokenNotYetValid
		if id.ExpiredCode == CertExpired { // a certificate outside its dates, at whichever end
			code = CertExpired
		}
		return &Error{Code: code, KeyID: id.KeyID}
	}
	if id.SignedAt.IsZero() {
		return nil
	}
	// Times are compared, not differences: those of far times saturate, and the lowest has no negative.
	if t.Past != NoLimit && id.SignedAt.Before(now.Add(-t.Past)) {
		return &Error{Code: TimestampTooOld, KeyID: id.KeyID}
	}
	if t.Future != NoLimit && id.SignedAt.After(now.Add(t.Future)) {
		return &Error{Code: TimestampTooNew, KeyID: id.KeyID}
	}
	return nil
}
