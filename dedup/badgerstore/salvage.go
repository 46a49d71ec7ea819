package badgerstore

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
)

// salvaged is what is left of an event one of whose values is damaged.
type salvaged struct {
	fix   *fixed       // the event as it was claimed, when that is good
	state bool         // the state is good
	rec   dedup.Record // the state; without a good one the first, and without an event a guess
	claim dedup.Claim  // key, aliases and what the event is, as far as they are known
}

// salvage reads what is left at a place. The state is good or not used. The event, when it is damaged, is read as far
// as its key proves itself: it must hash to where it is. Damage is most often in the payload, so that it does.
func salvage(txn *badger.Txn, p place) (left salvaged) {
	key := p.key()
	value, err := readValue(txn, key)
	if err == nil && value != nil {
		var first dedup.Record
		if fix, err := decodeEvent(key, value, &first); err == nil && fix.describe(p, &first) == nil {
			left.fix, left.rec = &fix, first
			left.known(&first)
		} else if fix, err := decodeEvent(key, resealed(key, value), &first); err == nil && fix.describe(p, &first) == nil && hashOf(first.Key) == p.hash {
			left.rec = first
			left.known(&first)
		}
	}
	if p.older != 0 || left.fix != nil {
		return left
	}
	stateKey := p.hash.key(familyState)
	var state dedup.Record
	if value, err := readValue(txn, stateKey); err == nil && value != nil {
		if _, _, err := decodeState(stateKey, value, &state); err == nil {
			left.state, left.rec = true, state
		}
	}
	return left
}

func (left *salvaged) known(r *dedup.Record) {
	left.claim = dedup.Claim{Key: r.Key, Aliases: r.Aliases, Payload: dedup.Payload{
		Producer: r.Payload.Producer, Endpoint: r.Payload.Endpoint, Type: r.Payload.Type,
	}}
}

// resealed returns the value with version and checksum put right, so that it can be taken apart.
func resealed(key, value []byte) []byte {
	if len(value) < 1+sumSize {
		return value
	}
	b := make([]byte, len(value)-sumSize, len(value))
	copy(b, value)
	b[0] = codecVersion
	return seal(key, b)
}
