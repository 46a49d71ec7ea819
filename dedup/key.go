package dedup

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key names an event: the idempotency identifier within the authenticated principal and the endpoint.
// Two keys are the same only when all fields are.
type Key struct {
	// Principal is the authenticated identity.
	Principal string
	// Endpoint is the scope at the receiver: the endpoint's name, and the signed query where one was sent.
	Endpoint string
	// Space keeps identifiers of different kinds apart. Empty for idempotency identifiers; "nonce" and
	// "signed" for aliases; SpaceQuarantine and a digest for deliveries kept aside.
	Space string
	// ID is the identifier itself, as the producer chose it (without the quotes of a structured field).
	ID string
}

// The key spaces beside that of the idempotency identifiers. SpaceSeries is that of [Claim.Series].
const (
	SpaceSeries     = "series"
	SpaceNonce      = "nonce"
	SpaceSigned     = "signed"
	SpaceQuarantine = "aside:"
	// SpaceSlot is that of [Occurrence.Slots].
	SpaceSlot = "slot"
	// SpaceOccurrence, with the key's ID behind it, is that of the names of occurrences.
	SpaceOccurrence = "occurrence:"
	// SpaceSent is that of identifiers that are not signed. What they name need not be one event.
	SpaceSent = "sent"
)

// Hash returns a uniform digest of the key. Every part is hashed behind its length, so no two different keys
// meet by moving bytes from one part to the next.
func (k Key) Hash() [32]byte {
	var stack [256]byte
	b := stack[:0]
	for _, part := range [...]string{k.Principal, k.Endpoint, k.Space, k.ID} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// named is the alias by which an occurrence of the content is found under its name.
func (k Key) named(name string) Key {
	k.Space, k.ID = SpaceOccurrence+k.ID, name
	return k
}

// length returns the bytes of the key's parts.
func (k Key) length() int { return len(k.Principal) + len(k.Endpoint) + len(k.Space) + len(k.ID) }

// Fingerprint is a digest of the payload that a key was first seen with. The zero fingerprint means "none":
// it conflicts with nothing.
type Fingerprint [32]byte
