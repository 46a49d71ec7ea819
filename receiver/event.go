package receiver

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// Event is what a handler gets.
type Event[T any] struct {
	// ID is what the event is unique by within its endpoint and principal: pass it on to make effects of your own
	// idempotent, or use it as a unique key. It is the identifier that the producer chose. Where nobody signed that, nor a
	// time, it is a digest of what was signed: "sha256:HEX", from the second occurrence of the same content on
	// "sha256:HEX;2", and for Shopify "sha256:HEX;TOPIC".
	ID string
	// VendorID is the identifier that the producer sent, where ID is a digest of what was signed; else empty. It is not
	// signed, and several events may share it.
	VendorID string
	// EventID is our own opaque id of the event; it is never used again.
	EventID string
	// Producer, Endpoint and Principal say who sent it to where.
	Producer, Endpoint, Principal string
	// Type is the event type.
	Type string
	// Attempt is 1 the first time the handler sees the event.
	Attempt int
	// Accepted is when the event was first accepted; it stays the same over retries and reopening.
	Accepted time.Time
	// KeyField is the field value that carried the identifier, octet for octet; empty where none did.
	KeyField string
	// Method and Target are the request line of the delivery, the target with its credentials blotted out.
	Method, Target string
	// Header holds the kept header fields; Authorization and Cookie never are. Only those in SignedFields are the
	// producer's word: any client can add others to a delivery that it captured.
	Header http.Header
	// SignedFields are the header fields (lower case) whose values the signature covers; nil where it covers none, or
	// where a shared credential authenticates the delivery.
	SignedFields []string
	// SignatureLabel is the label of the signature (RFC 9421) that was verified. It is empty for other schemes, and where
	// Header and Body are not those of the whole delivery, such as those of an item of a batch.
	SignatureLabel string
	// Source and Subject say where the event happened and what it is about, as a CloudEvent says it or as the
	// producer's preset reads it; empty where nothing says so.
	Source, Subject string
	// Time is when the event happened, by the sender's clock; zero where nothing says so in RFC 3339.
	Time time.Time
	// Extensions are the attributes that are none of CloudEvents 1.0 (section "Context Attributes"): the
	// extensions of a CloudEvent, and whatever else the preset reads. Never nil.
	Extensions map[string]string
	// Attributes are all facts that the producer's description reads from the delivery, each as it was written:
	// source, subject, time, datacontenttype, extensions; and keyid, the key that signed.
	Attributes map[string]string
	// Body is the payload exactly as it arrived, with the content coding that its Content-Encoding names.
	Body []byte
	// Data is the payload decoded, without a content coding.
	Data T
}

// Response is what an Answer handler sends back. It is stored and repeated to duplicates.
type Response struct {
	// Status is 200 to 299 or 400 to 599, but not 207. Defaults to 200, or, without a body, to 204 under the
	// API contract (several vendors accept only 200). 408, 425, 429 and 5xx are sent but not stored: the next
	// delivery runs the handler again.
	Status int
	// Header fields to send; Content-Type defaults to application/json.
	Header http.Header
	// Body of at most 1 MiB.
	Body []byte
	// Refusal, when set, makes the response a problem (RFC 9457) like those of the receiver, which refuses the event for good:
	// with a type that the policy explains, a Link to it, and Cache-Control: no-store. Status is then 400 to 499 and
	// defaults to 422; Header and Body are not used.
	Refusal *Refusal
}

// Refusal says why an event is refused for good, to the producer.
type Refusal struct {
	// ByTarget says that another receiver, to which the event was forwarded, refused it.
	ByTarget bool
	// Detail explains this refusal. It is sent to the producer. Defaults to what the policy says of the problem.
	Detail string
}

// describe fills in what the attributes say.
func (ev *Event[T]) describe() {
	ev.extractProof()
	ev.Source, ev.Subject = ev.Attributes["source"], ev.Attributes["subject"]
	if at, err := time.Parse(time.RFC3339, ev.Attributes["time"]); err == nil {
		ev.Time = at
	}
	ev.Extensions = map[string]string{}
	for name, value := range ev.Attributes {
		switch name {
		case "id", "source", "type", "specversion", "datacontenttype", "dataschema", "subject", "time", "keyid":
		default:
			ev.Extensions[name] = value
		}
	}
}

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
func withProof(said map[string]string, id verify.Identity, whole bool) map[string]string {
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

// extractProof moves what verification proved from the attributes to fields of the event. The attributes may be the record's, so
// they are copied.
func (ev *Event[T]) extractProof() {
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
