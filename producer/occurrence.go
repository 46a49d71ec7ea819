package producer

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

// Repeats is how often the same signed content may be accepted, each time as an event of its own, where its signature
// covers neither an identifier nor a time. The zero value is once.
type Repeats struct {
	// Max is how many occurrences there may be in a window, the first one included.
	Max int
	// Within is for how long after the first one others are accepted. Zero is the window.
	Within time.Duration
}

// maxRuns is how many occurrences SameSignedRun accepts by default.
const maxRuns = 16

// Occurrence is how a delivery of [ClassContentSigned] is named.
type Occurrence struct {
	// ID is what the event is unique by: a digest of the signed content, and the type where that counts.
	ID string
	// Digest is the part of it that is the content's.
	Digest string
	// Name is the identifier of this sending, which nobody signed; empty where none was sent.
	Name string
	// Repeats is how often the content may occur.
	Repeats Repeats
	// Members says that the digest is one of some members of the body only, so that bodies of one digest may differ.
	Members bool
}

// OccurrenceOf returns how a delivery's only item is named by its signed content. It reports false where something else
// names it: an identifier that is signed, or one that is trusted (SameSignedOff).
func (p *Producer) OccurrenceOf(d *Delivery, it Item) (Occurrence, bool) {
	if p.SameSigned == SameSignedOff || p.ClassOf(d.Identity) != ClassContentSigned {
		return Occurrence{}, false
	}
	digest, members := p.contentDigest(d, it)
	o := Occurrence{ID: digest, Digest: digest, Members: members, Repeats: p.repeats(d, it.Type)}
	if p.KeyedByType {
		o.ID += ";" + strings.ReplaceAll(strings.ReplaceAll(it.Type, "%", "%25"), ";", "%3B")
	}
	switch {
	case p.Sending != nil:
		if name, err := p.Sending.Extract(d); err == nil {
			o.Name = name
		}
	case !it.Unnamed:
		o.Name = it.ID
	}
	if len(o.Name) > MaxKey {
		o.Name = digestID([]byte(o.Name))
	}
	return o, true
}

// contentDigest names the signed content, or the members of it that the fingerprint selects.
func (p *Producer) contentDigest(d *Delivery, it Item) (digest string, members bool) {
	if f := p.Fingerprint; f != nil && !sameFunc(f, FingerprintBody) && !sameFunc(f, FingerprintNone) {
		selected := f(d, it)
		if selected != ([32]byte{}) && selected != FingerprintBody(d, it) {
			return "sha256:" + hex.EncodeToString(selected[:]), true
		}
	}
	return stableID(d), false
}

func sameFunc(a, b FingerprintFunc) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// stableID is the digest of what was signed of a delivery, without its time.
func stableID(d *Delivery) string {
	switch id := d.Identity; {
	case id.Stable != nil:
		return "sha256:" + hex.EncodeToString(id.Stable)
	case id.Signed != nil && id.SignedAt.IsZero():
		return "sha256:" + hex.EncodeToString(id.Signed)
	}
	return digestID(d.Body)
}

// repeats is how often the content of a delivery may occur under a type.
func (p *Producer) repeats(d *Delivery, typ string) Repeats {
	var r Repeats
	if p.Repeatable != nil {
		r = p.Repeatable(d)
	}
	if p.SameSignedOf(typ) == SameSignedRun {
		r = Repeats{Max: max(r.Max, maxRuns)}
	}
	if p.SameSignedMax > 0 && r.Max > 0 {
		r.Max = p.SameSignedMax
	}
	return r
}

// SameSignedOf returns the policy for content whose first occurrence has the type.
func (p *Producer) SameSignedOf(typ string) SameSigned {
	if s, ok := p.SameSignedTypes[typ]; ok {
		return s
	}
	return p.SameSigned
}

// Shapes returns a function for [Producer.Repeatable]: bodies that have the members of one of the shapes may occur up
// to most times. A shape lists names of members at the top of a JSON object, "!NAME" for one that must be missing, and
// "NAME=VALUE|VALUE" for a string with one of the values. Only the signed body counts.
func Shapes(most int, lists ...[]string) func(*Delivery) Repeats {
	return func(d *Delivery) Repeats {
		doc := signedJSON(d)
		for _, shape := range lists {
			if doc.has(shape) {
				return Repeats{Max: most}
			}
		}
		return Repeats{}
	}
}

// signedJSON is the JSON of a body, or that of its member "payload" where the body is a form. The media type, which is
// not signed, does not decide: JSON is never read as a form.
func signedJSON(d *Delivery) *document {
	doc := d.document()
	if doc.err == nil {
		return doc
	}
	if payload, err := singleParam(string(d.Body), "payload"); err == nil && payload != "" {
		return newDocument([]byte(payload))
	}
	return doc
}

// has reports whether the document is an object of the shape.
func (d *document) has(shape []string) bool {
	if d.err != nil || !bytes.HasPrefix(d.root, []byte("{")) {
		return false
	}
	for _, want := range shape {
		name, values, valued := strings.Cut(strings.TrimPrefix(want, "!"), "=")
		raw, err := d.at([]string{name})
		switch {
		case err != nil:
			return false
		case strings.HasPrefix(want, "!"):
			if raw != nil {
				return false
			}
		case raw == nil:
			return false
		case valued:
			text, err := strictjson.Scalar(raw)
			if err != nil || !strings.Contains("|"+values+"|", "|"+text+"|") {
				return false
			}
		}
	}
	return true
}

// positionID names an item of a batch that has no identifier by its bytes and its position, counted from 0.
func positionID(body []byte, position int) string {
	if position == 0 {
		return digestID(body)
	}
	return fmt.Sprintf("%s;%d", digestID(body), position+1)
}
