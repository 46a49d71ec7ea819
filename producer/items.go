package producer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Items returns the events of a verified delivery: one, or the items of a batch. An item
// without an identifier gets a digest, unless KeyRequired is set: of the signed content, or of
// the item's content and its number among equal items of the batch. A retry may so group and order
// the items of a batch in another way.
//
// Errors are *verify.Error: those of Admit, audience_mismatch, id_missing, ambiguous_field,
// event_malformed or media_type_unsupported. They are permanent, 4xx: no retry succeeds. An item of
// a batch that is at fault has its error in [Item.Err], and does not affect the others. Under the
// API contract a batch of such items only is an error.
func (p *Producer) Items(d *Delivery) ([]Item, error) {
	d.looseBinary, d.formMember = p.LooseBinary, p.FormMember
	if err := p.Audience.check(d); err != nil {
		return nil, err
	}
	if p.Admit != nil {
		if err := p.Admit(d); err != nil {
			return nil, withCode(err)
		}
	}
	items, err := p.split(d)
	if err != nil {
		return nil, err
	}
	if p.Split == nil {
		err = p.identify(d, &items[0])
		return items, err
	}
	faulty, equal := 0, make(map[string]int, len(items))
	for i := range items {
		it := &items[i]
		if err := p.identify(d, it); err != nil {
			faulty++
			it.Err = atItem(i, err)
			it.Note = it.Err.Error()
			it.Unnamed, it.ID = true, p.digestFor(d, *it)
		}
		if !it.Unnamed {
			continue
		}
		if equal[it.ID]++; equal[it.ID] > 1 {
			it.ID = fmt.Sprintf("%s;%d", it.ID, equal[it.ID])
		}
	}
	if p.Contract == API && faulty > 0 && faulty == len(items) {
		return nil, items[0].Err
	}
	return items, nil
}

// ItemOf returns the event of a listed item as that of a delivery with its body. Its identifier is
// read from the body as it is in deliveries, and from the item where deliveries have it elsewhere.
func (p *Producer) ItemOf(d *Delivery, l Listed) (Item, error) {
	like := *p
	if like.Key = p.Key; !onlyBody(p.Key) {
		like.Key = Const(l.ID)
	}
	if !onlyBody(p.Type) {
		like.Type = Const(l.Type)
	}
	items, err := like.Items(d)
	if err != nil {
		return Item{}, err
	}
	if items[0].ID != l.ID {
		return Item{}, &verify.Error{Code: verify.EventMalformed, Component: "id",
			Err: verify.Public("the list and the event have different identifiers")}
	}
	return items[0], nil
}

// identify checks what the item says and names it if the sender did not.
func (p *Producer) identify(d *Delivery, it *Item) error {
	err := p.clamp(it)
	unnamed := verify.CodeOf(it.Err) == verify.IDMissing
	if it.Err != nil && (!unnamed || p.KeyRequired && it.ID == "") {
		return it.Err
	}
	it.Err = nil
	switch {
	case err != nil:
		return err
	case it.ID == "" && p.KeyRequired:
		return p.missingID(d)
	case it.ID == "":
		it.Unnamed, it.ID = true, p.digestFor(d, *it)
	case p.KeyFormat != nil:
		if err := p.KeyFormat.Check(it.ID); err != nil {
			return malformed(component(p.Key, "id"), err)
		}
	}
	return nil
}

// atItem returns the error of an item with its position.
func atItem(i int, err error) error {
	refusal := verify.Error{Code: verify.EventMalformed, Err: err}
	if coded, ok := errors.AsType[*verify.Error](err); ok {
		refusal = *coded
	}
	where := fmt.Sprintf("item %d", i+1)
	if refusal.Component != "" {
		where += ", " + refusal.Component
	}
	refusal.Component = where
	return &refusal
}

// digestFor returns the identifier of an item that has none: the digest of the signed content
// where that identifies events, and else of the item's content.
func (p *Producer) digestFor(d *Delivery, it Item) string {
	class, content := p.ClassOf(d.Identity), it.Body
	switch {
	case it.FromForm:
		content = d.Body
	case it.Content != nil:
		content = it.Content
	}
	if p.Split != nil || p.Payload != nil || class == ClassIDSigned || class == ClassUnsigned {
		return digestID(content)
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

// clamp enforces the limits of identifier, type and attributes. An identifier over them is
// replaced by a digest, because truncation could make two equal, and a type is dropped, so only
// handlers of all types get the event: senders of webhooks would drop the event on an error, which
// it is under the API contract. Invalid attributes are dropped under both. Note lists what was
// dropped.
func (p *Producer) clamp(it *Item) (refused error) {
	var notes []string
	if err := textError(it.Type, MaxType, errTypeLong); err != nil {
		refused = malformed(component(p.Type, "type"), err)
		it.Type = ""
		notes = append(notes, "the type was left out: "+err.Error())
	}
	if err := textError(it.ID, MaxKey, errKeyLong); err != nil {
		refused = malformed(component(p.Key, "id"), err)
		it.ID = digestID([]byte(it.ID))
	}
	kept := withinLimits(it.Attributes)
	if left := len(it.Attributes) - len(kept); left > 0 {
		notes = append(notes, fmt.Sprintf("attributes left out, too long or with control characters: %d", left))
		it.Attributes = kept
	}
	it.Note = strings.Join(notes, "; ")
	if p.Contract == API {
		return refused
	}
	return nil
}
