package dedup

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key names an event: the idempotency identifier within the authenticated principal and the
// endpoint. Two keys are equal only if all fields are.
type Key struct {
	// Principal is the authenticated identity.
	Principal string
	// Endpoint is the scope at the receiver: the name of the endpoint, and the signed query if
	// there is one.
	Endpoint string
	// Space separates kinds of identifiers. It is empty for idempotency identifiers, "nonce" or
	// "signed" for aliases, and SpaceQuarantine with a digest for quarantined deliveries.
	Space string
	// ID is the identifier as the producer chose it, without the quotes of a structured field.
	ID string
}

// The key spaces besides the empty one of idempotency identifiers.
const (
	SpaceSeries     = "series" // of [Claim.Series]
	SpaceNonce      = "nonce"
	SpaceSigned     = "signed"
	SpaceQuarantine = "aside:"
	// SpaceSlot is the space of [Occurrence.Slots].
	SpaceSlot = "slot"
	// SpaceOccurrence, followed by the ID of the key, is the space of the names of its occurrences.
	SpaceOccurrence = "occurrence:"
	// SpaceSent is the space of unsigned identifiers. One of them may name several events.
	SpaceSent = "sent"
	// SpaceFence is the space of the notes of fences ([Record.FenceOf]).
	SpaceFence = "fence"
	// SpaceHandler is the space of the notes about handlers that are paused.
	SpaceHandler = "handler"
	// SpaceTarget is the space of the notes about the targets to which receivers forward events.
	SpaceTarget = "target"
	// SpaceTenant is the space of the notes of how often a tenant was deleted.
	SpaceTenant = "tenant"
	// SpaceReconcile is the space of the notes of package reconcile.
	SpaceReconcile = "reconcile"
	// SpaceMonitor is the space of the notes about producers whose unverified deliveries are
	// accepted.
	SpaceMonitor = "monitor"
)

// Hash returns a uniform digest of the key. The length of every part is hashed with it, so
// moving bytes from one part to the next changes the digest.
func (k Key) Hash() [32]byte {
	var stack [256]byte
	b := stack[:0]
	for _, part := range [...]string{k.Principal, k.Endpoint, k.Space, k.ID} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// Fingerprint is a digest of the first payload of a key. The zero value means none and never
// conflicts.
type Fingerprint [16]byte

// FingerprintOf returns the first half of a SHA-256. It leaves 2^128 attempts for another payload
// with the digest of a given one.
func FingerprintOf(digest [32]byte) Fingerprint { return Fingerprint(digest[:16]) }

// conflicts reports whether two fingerprints are of different payloads.
func (f Fingerprint) conflicts(with Fingerprint) bool {
	none := Fingerprint{}
	return f != none && with != none && f != with
}
