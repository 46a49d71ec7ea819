package producer

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Items returns the events of a verified delivery: one, or the items of a batch. Every item has an identifier,
// which is a digest where the sender gave none and KeyRequired is off: of the signed content, or of the item's body and
// its position in a batch.
//
// Errors are *verify.Error: id_missing, ambiguous_field, event_malformed or media_type_unsupported. All of
// them are about the request, so they are 4xx and no retry cures them.
func (p *Producer) Items(d *Delivery) ([]Item, error) {
	d.looseBinary = p.LooseBinary
	items, err := p.split(d)
	if err != nil {
		return nil, err
	}
	for i := range items {
		if err := p.bound(&items[i]); err != nil {
			return nil, err
		}
		if items[i].ID == "" && p.KeyRequired {
			return nil, p.unnamed(d)
		}
		if items[i].ID == "" {
			items[i].Unnamed = true
			items[i].ID = p.unnamedID(d, items[i].Body, i)
			continue
		}
		if err := p.checkID(items[i].ID); err != nil {
			return nil, &verify.Error{Code: verify.EventMalformed, Component: p.keyComponent(), Err: err}
		}
	}
	return items, nil
}

// unnamedID names an item without an identifier. Where the signed content names events it does so here too; in a batch,
// and where an identifier in the body is missing, the body does.
func (p *Producer) unnamedID(d *Delivery, body []byte, position int) string {
	switch class := p.ClassOf(d.Identity); {
	case p.Split != nil || p.Payload != nil || class == ClassIDSigned || class == ClassUnsigned:
		return positionID(body, position)
	}
	return stableID(d)
}

// unnamed refuses a delivery without an identifier. A body that is no JSON where the identifier is a member of it
// is not the event that it should be.
func (p *Producer) unnamed(d *Delivery) error {
	if _, member := p.Key.(jsonMember); member && d.document().err != nil {
		return malformed("body", d.document().err)
	}
	return &verify.Error{Code: verify.IDMissing, Component: p.keyComponent()}
}

func (p *Producer) split(d *Delivery) ([]Item, error) {
	if p.Split != nil {
		items, err := p.Split(d)
		return items, asRefusal(err)
	}
	it := Item{Body: d.Body}
	var err error
	if p.Payload != nil {
		if it.Body, err = p.Payload(d); err != nil {
			return nil, asRefusal(err)
		}
	}
	if p.Key != nil {
		if it.ID, err = p.Key.Extract(d); err != nil {
			return nil, asRefusal(err)
		}
	}
	if p.Type != nil {
		if it.Type, err = p.Type.Extract(d); err != nil {
			return nil, asRefusal(err)
		}
	}
	if p.Attributes != nil {
		if it.Attributes, err = p.Attributes(d); err != nil {
			return nil, asRefusal(err)
		}
	}
	return []Item{it}, nil
}

// asRefusal gives an error of an extractor that has no code the one that says "not what it should be".
func asRefusal(err error) error {
	var refusal *verify.Error
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return &verify.Error{Code: verify.EventMalformed, Err: err}
}

func (p *Producer) checkID(id string) error {
	if p.KeyFormat != nil {
		return p.KeyFormat.Check(id)
	}
	return nil
}

func (p *Producer) keyComponent() string {
	if p.Key == nil {
		return "id"
	}
	return p.Key.String()
}

func (p *Producer) typeComponent() string {
	if p.Type == nil {
		return "type"
	}
	return p.Type.String()
}

// bound makes what the item says of itself fit. Under the API contract an identifier or a type that does not fit
// is refused. Senders of webhooks would drop the event on that, and a part of a name is another name: there a
// digest stands for the identifier, and the type is left out, so that only handlers of every type get the event.
// Attributes that do not fit are left out under both contracts. Note says what was left out.
func (p *Producer) bound(it *Item) error {
	if err := cmp.Or(lengthError(it.ID, MaxKey, errKeyLong), controlError(it.ID)); err != nil {
		if p.Contract == API {
			return &verify.Error{Code: verify.EventMalformed, Component: p.keyComponent(), Err: err}
		}
		it.ID = digestID([]byte(it.ID))
	}
	var notes []string
	if err := cmp.Or(lengthError(it.Type, MaxType, errTypeLong), controlError(it.Type)); err != nil {
		if p.Contract == API {
			return &verify.Error{Code: verify.EventMalformed, Component: p.typeComponent(), Err: err}
		}
		it.Type = ""
		notes = append(notes, "the type was left out: "+err.Error())
	}
	kept := fitting(it.Attributes)
	if left := len(it.Attributes) - len(kept); left > 0 {
		notes = append(notes, fmt.Sprintf("attributes left out, too long or with control characters: %d", left))
		it.Attributes = kept
	}
	it.Note = strings.Join(notes, "; ")
	return nil
}
