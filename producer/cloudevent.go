package producer

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/eyelet-dev/eyelet/verify"
)

// Media types of CloudEvents (HTTP protocol binding sections 3.2 and 3.3).
const (
	MediaCloudEvent      = "application/cloudevents+json"
	MediaCloudEventBatch = "application/cloudevents-batch+json"
)

const (
	ceMediaPrefix = "application/cloudevents"
	ceDataMedia   = "application/json" // of data whose media type is not told
)

// SplitCloudEvents is a Split for senders of CloudEvents 1.0 over HTTP: structured JSON, binary, and JSON
// batches, told apart by the media type as the HTTP protocol binding says.
//
// An identifier is source and id together (see [JoinID]), because an id alone names nothing. An Idempotency-Key field is the
// identifier of a single event instead, where the signature covers it, and where the scheme binds no field: under a bearer
// token every field is as authentic as the token. The context attributes, with "id"
// and "source" and extensions among them, are the item's attributes. Refusals: event_malformed,
// ambiguous_field, media_type_unsupported for event formats other than JSON, and insufficient_coverage for binary
// mode under a signature that leaves the attributes out (see [Producer.LooseBinary]).
func SplitCloudEvents(d *Delivery) ([]Item, error) {
	events, err := d.cloudEvents()
	if err != nil {
		return nil, err
	}
	items := make([]Item, len(events))
	for i, e := range events {
		items[i] = Item{ID: JoinID(e.source, e.id), Type: e.kind, Body: e.body, Attributes: e.attributes}
	}
	if key := (IdempotencyKey{}); len(items) == 1 && (d.Identity.Covers(strings.ToLower(key.field())) || d.unbound()) {
		id, err := key.Extract(d)
		if err != nil {
			return nil, err
		}
		if id != "" {
			items[0].ID = id
		}
	}
	return items, nil
}

// unbound reports whether the scheme binds nothing of the request, as shared credentials do.
func (d *Delivery) unbound() bool { return d.Identity.Signed == nil && len(d.Identity.Covered) == 0 }

// IsCloudEvent reports whether a request is meant as a CloudEvent where other deliveries come too: by its media type,
// or by any attribute in the header that every event must have. One that lacks the others is malformed then, and
// not something else.
func IsCloudEvent(h http.Header) bool {
	if ceMedia(h.Get("Content-Type")) != "" {
		return true
	}
	for _, name := range []string{"Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type"} {
		if len(h.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// CloudEventID reads source and id of the single CloudEvent that a delivery may be, joined by [JoinID]; other deliveries have
// none, and a batch is refused (event_malformed).
func CloudEventID() Extractor { return cloudEventValue("id") }

// CloudEventType reads the type of the single CloudEvent that a delivery may be, as [CloudEventID] reads its identifier.
func CloudEventType() Extractor { return cloudEventValue("type") }

type cloudEventValue string

func (v cloudEventValue) Extract(d *Delivery) (string, error) {
	if !IsCloudEvent(d.Request.Header) {
		return "", nil
	}
	e, err := d.cloudEvent()
	switch {
	case err != nil:
		return "", err
	case v == "type":
		return e.kind, nil
	}
	return JoinID(e.source, e.id), nil
}

func (v cloudEventValue) Consumes() []string {
	return []string{"ce-id", "ce-source", "ce-type", "content-type", "@body"}
}
func (v cloudEventValue) String() string { return "cloudevent:" + string(v) }

// CloudEventAttributes reads the context attributes of a delivery that is a single CloudEvent, for [Producer.Attributes].
func CloudEventAttributes(d *Delivery) (map[string]string, error) {
	e, err := d.cloudEvent()
	return e.attributes, err
}

// CloudEventData returns the data of an event and its media type: body as [Item] holds it, contentType as the
// delivery had it. In structured mode and in batches the data is inside the body, and an event without data has
// the JSON value null (CloudEvents JSON format 1.0.2 section 3.1). Anything else is data itself, as it arrived.
func CloudEventData(contentType string, body []byte) (kind string, data []byte, err error) {
	switch ceMedia(contentType) {
	case MediaCloudEvent, MediaCloudEventBatch:
	default:
		return contentType, body, nil
	}
	e, err := parseStructured(body)
	if err != nil {
		return "", nil, err
	}
	if e.data == nil {
		return ceDataMedia, []byte("null"), nil
	}
	return cmp.Or(e.attributes["datacontenttype"], ceDataMedia), e.data, nil
}

// ceMedia returns the media type when it is one of CloudEvents, in lower case and without parameters.
func ceMedia(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(verify.TrimOWS(kind))
	if !strings.HasPrefix(kind, ceMediaPrefix) {
		return ""
	}
	return kind
}

// parsedEvents are the events of a delivery, with what they were read from.
type parsedEvents struct {
	request *http.Request
	body    []byte
	events  []cloudEvent
	err     error
}

// cloudEvents returns the events of the delivery. All that read them share the result, which nobody changes, so
// that a delivery is parsed once for its identifier, its type and its attributes.
func (d *Delivery) cloudEvents() ([]cloudEvent, error) {
	if d.parsed == nil || d.parsed.request != d.Request || !sameMemory(d.parsed.body, d.Body) {
		var events []cloudEvent
		err := d.checkMode()
		if err == nil {
			events, err = parseCloudEvents(d.Request.Header, d.Body)
		}
		d.parsed = &parsedEvents{request: d.Request, body: d.Body, events: events, err: err}
	}
	return d.parsed.events, d.parsed.err
}

// cloudEvent returns the only event of the delivery.
func (d *Delivery) cloudEvent() (cloudEvent, error) {
	events, err := d.cloudEvents()
	if err == nil && len(events) != 1 {
		err = malformed("body", errors.New("a batch where one event was expected"))
	}
	if err != nil {
		return cloudEvent{}, err
	}
	return events[0], nil
}

// checkMode refuses binary mode where a signature binds the body and not the attributes: whoever captured an event
// of another mode, or a batch of them, could send its body again under attributes of his own, as any event at all.
// In the other modes the attributes are in the body. A credential, such as a bearer token, binds nothing and is its
// holder's word for all of it.
func (d *Delivery) checkMode() error {
	if d.Identity.Signed == nil || d.looseBinary || ceMedia(d.Request.Header.Get("Content-Type")) != "" {
		return nil
	}
	for name := range d.Request.Header {
		name = strings.ToLower(name)
		if attribute, found := strings.CutPrefix(name, "ce-"); found && isAttributeName(attribute) && !d.Identity.Covers(name) {
			return &verify.Error{Code: verify.InsufficientCoverage, KeyID: d.Identity.KeyID, Component: name}
		}
	}
	return nil
}
