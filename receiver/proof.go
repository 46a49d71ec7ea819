package receiver

import (
	"maps"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// The attributes with which a record says what verification proved. The first is one of the event's attributes for handlers;
// the others become [Event.SignedFields] and [Event.SignatureLabel]. No attribute of a CloudEvent has a name like theirs, and
// what an event says about itself under these names is not kept.
const (
	keyIDAttribute  = "keyid"           // the key with which the delivery was signed
	signedAttribute = "signed_fields"   // the header fields whose values were signed, with commas between them
	labelAttribute  = "signature_label" // the label of the signature (RFC 9421)
)

// proven returns the attributes of an event, with what verification proved. whole says that header and body are kept as they
// came, so that the signature is about them.
func proven(said map[string]string, id verify.Identity, whole bool) map[string]string {
	proof := [...][2]string{{keyIDAttribute, id.KeyID}, {signedAttribute, strings.Join(signedFields(id.Covered), ",")}, {labelAttribute, id.Label}}
	if !whole {
		proof[2][1] = ""
	}
	if !slices.ContainsFunc(proof[:], func(p [2]string) bool { return p[1] != "" || said[p[0]] != "" }) {
		return said
	}
	attributes := make(map[string]string, len(said)+len(proof))
	maps.Copy(attributes, said)
	for _, p := range proof {
		if delete(attributes, p[0]); p[1] != "" {
			attributes[p[0]] = p[1]
		}
	}
	return attributes
}

// signedFields returns the header fields among covered components: those of which every octet is bound.
func signedFields(covered []string) []string {
	return slices.DeleteFunc(slices.Clone(covered), func(name string) bool { return strings.ContainsAny(name, "@;,") })
}

// takeProof moves what verification proved from the attributes to fields of the event. The attributes may be the record's, so
// they are copied.
func (ev *Event[T]) takeProof() {
	signed, label := ev.Attributes[signedAttribute], ev.Attributes[labelAttribute]
	if signed == "" && label == "" {
		return
	}
	ev.Attributes = maps.Clone(ev.Attributes)
	delete(ev.Attributes, signedAttribute)
	delete(ev.Attributes, labelAttribute)
	ev.SignatureLabel = label
	if signed != "" {
		ev.SignedFields = strings.Split(signed, ",")
	}
}
