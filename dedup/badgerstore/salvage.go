package badgerstore

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// salvaged is what is left of an event one of whose values is damaged.
type salvaged struct {
	event *record.Event // the event as it was claimed, when that is good
	state bool          // the state is good
	rec   dedup.Record  // the state; without a good one the first, and without an event a guess
	claim dedup.Claim   // key, aliases and what the event is, as far as they are known
}

// salvage reads what is left at a place. The state is good or not used. The event, when it is damaged, is read as far
// as its key proves itself: it must hash to where it is. Damage is most often in the payload, so that it does.
func salvage(txn *badger.Txn, p record.Place) (left salvaged) {
	key := p.Key()
	value, err := readValue(txn, key)
	if err == nil && value != nil {
		var first dedup.Record
		if fix, err := record.DecodeEvent(key, value, &first); err == nil && fix.Describe(p, &first) == nil {
			left.event, left.rec = &fix, first
			left.known(&first)
		} else if fix, err := record.DecodeEvent(key, record.Reseal(key, value), &first); err == nil && fix.Describe(p, &first) == nil && record.HashOf(first.Key) == p.Hash {
			left.rec = first
			left.known(&first)
		}
	}
	if p.Older != 0 || left.event != nil {
		return left
	}
	stateKey := p.Hash.Key(record.FamilyState)
	var state dedup.Record
	if value, err := readValue(txn, stateKey); err == nil && value != nil {
		if _, _, err := record.DecodeState(stateKey, value, &state); err == nil {
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
