package badgerstore

import (
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// prepared is a claim after the work that needs no decision.
type prepared struct {
	claim  dedup.Claim
	hash   record.Hash
	names  []dedup.Key    // of the claim
	hashes []record.Hash  // of the names
	few    [3]record.Hash // memory for them
	task   [1]dedup.Task  // memory for that of the decision
	tasks  []dedup.Task   // memory for those of a worker
	name   record.Name    // of its occurrence, if it is the first one
	event  record.Event
	body   record.Body // a large one
}

// setNames hashes the names of the claim.
func (p *prepared) setNames() {
	p.names = p.claim.Names()
	p.hashes = p.few[:0]
	for _, k := range p.names {
		p.hashes = append(p.hashes, record.HashOf(k))
	}
	if o := p.claim.Occurrence; o != nil && o.Name != "" {
		p.name = p.hashes[len(p.claim.Aliases)].Name() // that of Claim.Named follows the aliases
	}
}

// settled returns the claim with the names of its occurrence among its aliases.
func (p *prepared) settled() dedup.Claim {
	c := p.claim
	if c.Occurrence != nil {
		c.Aliases, c.Occurrence = p.names, nil
		if c.Series != (dedup.Key{}) {
			c.Aliases = p.names[:len(p.names)-1]
		}
	}
	return c
}

// hashOf returns the hash of a key, which is computed already if it is one of the claim.
func (p *prepared) hashOf(k dedup.Key) record.Hash {
	if k == p.claim.Key {
		return p.hash
	}
	if i := slices.Index(p.names, k); i >= 0 {
		return p.hashes[i]
	}
	return record.HashOf(k)
}

// encode encodes the event, and a large body.
func (p *prepared) encode() {
	kind := record.BodyInline
	switch body := p.claim.Payload.Body; {
	case p.claim.OnlyKnown: // nothing of it is stored
		kind = record.BodyDropped
	case len(body) > record.InlineMost:
		kind, p.body = record.BodyApart, record.NewBody(body)
	}
	c := p.settled()
	p.event = record.NewEvent(&c, kind)
}

// resolved returns the claim as it is decided: an occurrence may get another key or more aliases.
func (p *prepared) resolved(c *dedup.Claim) *prepared {
	names := len(c.Aliases)
	if c.Series != (dedup.Key{}) {
		names++
	}
	if c.Key == p.claim.Key && names == len(p.names) {
		return p
	}
	q := &prepared{claim: *c, hash: record.HashOf(c.Key), body: p.body}
	q.setNames()
	q.event = record.NewEvent(c, p.event.Kind)
	return q
}
