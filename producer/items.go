package producer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Items returns the events of a verified delivery: one, or the items of a batch. An item
// without an identifier gets a digest, unless KeyRequired is set: of the signed content, or of
// the item's body and its position in the batch.
//
// Errors are *verify.Error: id_missing, ambiguous_field, event_malformed or
// media_type_unsupported. They are permanent, 4xx: no retry succeeds.
func (p *Producer) Items(d *Delivery) ([]Item, error) {
	d.looseBinary, d.formMember = p.LooseBinary, p.FormMember
	items, err := p.split(d)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if err := p.clamp(&items[i]); err != nil {
			return nil, err
		}
		if items[i].ID == "" && p.KeyRequired {
			return nil, p.missingID(d)
		}
		if items[i].ID == "" {
			items[i].Unnamed = true
			items[i].ID = p.digestFor(d, items[i], i)
			continue
		}
		if p.KeyFormat == nil {
			continue
		}
		if err := p.KeyFormat.Check(items[i].ID); err != nil {
			return nil, malformed(component(p.Key, "id"), err)
		}
	}
	return items, nil
}

// digestFor returns the identifier of an item that has none: the digest of the signed content
// where that identifies events, and else of the item's body and position.
func (p *Producer) digestFor(d *Delivery, it Item, position int) string {
	class, body := p.ClassOf(d.Identity), it.Body
	if it.FromForm {
		body = d.Body
	}
	if p.Split != nil || p.Payload != nil || class == ClassIDSigned || class == ClassUnsigned {
		return positionID(body, position)
	}
	return contentID(d)
}

// missingID is the error for a delivery without an identifier. If the identifier is a member of
// the body and the body is not JSON, the event is malformed.
func (p *Producer) missingID(d *Delivery) error {
	if _, member := p.Key.(jsonMember); member && d.document().err != nil {
		return malformed("body", d.document().err)
	}
	return &verify.Error{Code: verify.IDMissing, Component: component(p.Key, "id")}
}

func (p *Producer) split(d *Delivery) ([]Item, error) {
	if p.Split != nil {
		items, err := p.Split(d)
		return items, withCode(err)
	}
	var it Item
	var err error
	it.Body, it.FromForm = d.event()
	if p.Payload != nil {
		it.Body, err = p.Payload(d)
	}
	if err == nil && p.Key != nil {
		it.ID, err = p.Key.Extract(d)
	}
	if err == nil && p.Type != nil {
		it.Type, err = p.Type.Extract(d)
	}
	if err == nil && p.Attributes != nil {
		it.Attributes, err = p.Attributes(d)
	}
	if err != nil {
		return nil, withCode(err)
	}
	d.item[0] = it
	return d.item[:], nil
}

// withCode returns an error of an extractor with a code, event_malformed if it has none.
func withCode(err error) error {
	if _, coded := errors.AsType[*verify.Error](err); err == nil || coded {
		return err
	}
	return &verify.Error{Code: verify.EventMalformed, Err: err}
}

// component names an extractor in an error.
func component(x Extractor, without string) string {
	if x == nil {
		return without
	}
	return x.String()
}

// clamp enforces the limits of identifier, type and attributes. Under the API contract an
// invalid identifier or type is an error. Senders of webhooks would drop the event on that, and
// truncation could make two names equal: there a digest replaces the identifier and the type is
// dropped, so only handlers of all types get the event. Invalid attributes are dropped under
// both contracts. Note lists what was dropped.
func (p *Producer) clamp(it *Item) error {
	if err := textError(it.ID, MaxKey, errKeyLong); err != nil {
		if p.Contract == API {
			return malformed(component(p.Key, "id"), err)
		}
		it.ID = digestID([]byte(it.ID))
	}
	var notes []string
	if err := textError(it.Type, MaxType, errTypeLong); err != nil {
		if p.Contract == API {
			return malformed(component(p.Type, "type"), err)
		}
		it.Type = ""
		notes = append(notes, "the type was left out: "+err.Error())
	}
	kept := withinLimits(it.Attributes)
	if left := len(it.Attributes) - len(kept); left > 0 {
		notes = append(notes, fmt.Sprintf("attributes left out, too long or with control characters: %d", left))
		it.Attributes = kept
	}
	it.Note = strings.Join(notes, "; ")
	return nil
}
