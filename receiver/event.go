package receiver

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// Event is an event as handlers get it.
type Event[T any] struct {
	// ID identifies the event within its endpoint and principal: use it as an idempotency key
	// for effects of your own, or as a unique key. It is the identifier that the producer chose.
	// If neither that nor a time is signed, it is a digest of the signed content: "sha256:HEX",
	// "sha256:HEX;2" for the second occurrence of the same content and so on, and
	// "sha256:HEX;TOPIC" for Shopify.
	ID string
	// VendorID is the identifier that the producer sent, if ID is a digest of the signed
	// content; else empty. It is not signed, and several events may share it.
	VendorID string
	// EventID is our own opaque id of the event. It is never reused.
	EventID string
	// Producer and Principal are the sender, Endpoint where it sent the event.
	Producer, Endpoint, Principal string
	// Type is the event type.
	Type string
	// Handler is the name of the handler that runs. EventID and Handler together identify the
	// effect: pass them on as the idempotency key of calls to other systems.
	Handler string
	// Version orders the events of a lane, as the extractor of [Handler.Newest] read it; empty for
	// none. Use it as a fencing token: an effect must not replace that of a newer version.
	Version string
	// Attempt is 1 on the first run.
	Attempt int
	// Accepted is when the event was first accepted. Retries and reopening do not change it.
	Accepted time.Time
	// KeyField is the field value that carried the identifier, octet for octet; empty if none did.
	KeyField string
	// Method and Target are the request line of the delivery. Credentials in the target are
	// redacted.
	Method, Target string
	// Header holds the stored header fields, never Authorization or Cookie. Only those in
	// SignedFields come from the producer: any client can add others to a captured delivery.
	Header http.Header
	// SignedFields are the header fields (lower case) whose values the signature covers; nil if
	// it covers none, or if a shared credential authenticates the delivery.
	SignedFields []string
	// SignatureLabel is the label of the verified signature (RFC 9421). It is empty for other
	// schemes, and where Header and Body are not those of the whole delivery, as for items of a
	// batch.
	SignatureLabel string
	// Source and Subject are where the event happened and what it is about, from the CloudEvent
	// or as the preset reads it; empty if unknown.
	Source, Subject string
	// Time is when the event happened, by the sender's clock; zero unless given in RFC 3339.
	Time time.Time
	// Extensions are the attributes that CloudEvents 1.0 (section "Context Attributes") does not
	// define: those of a CloudEvent, and others that the preset reads. Never nil.
	Extensions map[string]string
	// Attributes are all facts that the producer's description reads from the delivery, each as
	// written: source, subject, time, datacontenttype, extensions; and keyid, the key that signed.
	Attributes map[string]string
	// Tenant is the name of the tenant that sent the event; empty for a producer without tenants.
	Tenant string
	// Fetched means that no delivery brought the event: [Receiver.TakeIn] has it from a list of
	// the vendor. Header is then a Content-Type alone, and Body may have another rendering, or the
	// form of another version of the vendor's API.
	Fetched bool
	// Unverified means that the delivery did not verify, and was accepted all the same because its
	// producer is monitored ([producer.Producer.MonitorUntil]): any client may have sent it. Its ID
	// and Principal are its own ("unverified:HEX", "NAME!unverified"), VendorID is the identifier
	// that was sent, and nothing is signed.
	Unverified bool
	// Body is the payload as received, with the content coding in its Content-Encoding.
	Body []byte
	// FormMember is the member of a form (application/x-www-form-urlencoded) that holds the event
	// as JSON, where Body is such a form ([producer.Producer.FormMember]); else empty.
	FormMember string
	// Data is the decoded payload, without a content coding. Of a form with a FormMember it is the
	// JSON in it, for every T but url.Values.
	Data T
}

// Response is what an Answer handler returns. It is stored and sent again to duplicates.
type Response struct {
	// Status is 200 to 299 or 400 to 599, but not 207. Defaults to 200, or, without a body, to
	// 204 under the API contract (several vendors accept only 200). 408, 425, 429 and 5xx are
	// sent but not stored: the next delivery runs the handler again.
	Status int
	// Header fields to send; Content-Type defaults to application/json.
	Header http.Header
	// Body of at most 1 MiB.
	Body []byte
	// Refusal, when set, makes the response a problem (RFC 9457) that refuses the event finally,
	// with a type that the policy explains, a Link to it, and Cache-Control: no-store. Status is
	// then 400 to 499 and defaults to 422; Header and Body are ignored. With the error [Reject],
	// the event is a dead letter too, which can be reopened.
	Refusal *Refusal
}

// Refusal is the reason for refusing an event finally, for the producer.
type Refusal struct {
	// ByTarget means that the receiver to which the event was forwarded refused it.
	ByTarget bool
	// Detail explains the refusal to the producer. Defaults to the detail in the policy.
	Detail string
	// Reply is what the target answered, for operators, as with [WithReply].
	Reply string
}

// describe sets the fields that come from the attributes.
func (ev *Event[T]) describe() {
	ev.extractProof()
	ev.Source, ev.Subject = ev.Attributes["source"], ev.Attributes["subject"]
	if text := ev.Attributes["time"]; text != "" {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			ev.Time = at
		}
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

// The attributes that record what verification proved, what the body is, the trace of the
// delivery, and whether there was one. The first is an attribute for handlers, the next three
// become [Event.SignedFields], [Event.SignatureLabel] and [Event.FormMember], the fifth is for the
// spans of attempts, and the last three become [Event.Tenant], [Event.Fetched] and
// [Event.Unverified]. No attribute of a CloudEvent can have their names, and attributes that an
// event brings under them are dropped.
const (
	keyIDAttribute  = "keyid"           // the key that signed
	signedAttribute = "signed_fields"   // the header fields whose values were signed, comma-separated
	labelAttribute  = "signature_label" // the label of the signature (RFC 9421)
	formAttribute   = "form_member"     // the only member of a form, which holds the event as JSON
	traceAttribute  = "delivery_trace"  // the traceparent of the delivery's span, if it is sampled
	tenantAttribute = "tenant_name"     // the tenant that sent the event
	// FetchedAttribute is the host of the API that listed an event which no delivery brought.
	FetchedAttribute = "fetched_from"
	// UnverifiedAttribute is the code of the refusal that an unverified delivery would have got.
	UnverifiedAttribute = "refused_as"
)

// withProof returns the attributes of an event, with what verification proved. whole
// means that header and body are stored as received, so the signature is about them. more are the
// last five: the member of a form, if the body is one, the trace, the tenant, where the event was
// fetched, and the refusal of an unverified delivery.
func withProof(read map[string]string, id verify.Identity, whole bool, more [5]string) map[string]string {
	proof := [...][2]string{
		{keyIDAttribute, id.KeyID},
		{signedAttribute, signedFields(id.Covered)},
		{labelAttribute, id.Label},
		{formAttribute, more[0]},
		{traceAttribute, more[1]},
		{tenantAttribute, more[2]},
		{FetchedAttribute, more[3]},
		{UnverifiedAttribute, more[4]},
	}
	if !whole {
		proof[2][1] = ""
	}
	if !slices.ContainsFunc(proof[:], func(p [2]string) bool { return p[1] != "" || read[p[0]] != "" }) {
		return read
	}
	attributes := make(map[string]string, len(read)+len(proof))
	maps.Copy(attributes, read)
	for _, p := range proof {
		if delete(attributes, p[0]); p[1] != "" {
			attributes[p[0]] = p[1]
		}
	}
	return attributes
}

// signedFields lists the covered header fields of which every octet is signed.
func signedFields(covered []string) string {
	partial := func(name string) bool { return strings.ContainsAny(name, "@;,") }
	if len(covered) == 1 && partial(covered[0]) { // most vendors sign the body alone
		return ""
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(covered), partial), ",")
}

// extractProof moves what verification proved from the attributes to fields of the event. It
// copies the attributes, which may be those of the producer's description.
func (ev *Event[T]) extractProof() {
	signed, label, form := ev.Attributes[signedAttribute], ev.Attributes[labelAttribute], ev.Attributes[formAttribute]
	ev.Attributes = maps.Clone(ev.Attributes)
	delete(ev.Attributes, signedAttribute)
	delete(ev.Attributes, labelAttribute)
	delete(ev.Attributes, formAttribute)
	delete(ev.Attributes, traceAttribute)
	ev.Tenant = ev.Attributes[tenantAttribute]
	delete(ev.Attributes, tenantAttribute)
	ev.Fetched = ev.Attributes[FetchedAttribute] != ""
	delete(ev.Attributes, FetchedAttribute)
	ev.Unverified = ev.Attributes[UnverifiedAttribute] != ""
	delete(ev.Attributes, UnverifiedAttribute)
	ev.SignatureLabel, ev.FormMember = label, form
	if signed != "" {
		ev.SignedFields = strings.Split(signed, ",")
	}
}
