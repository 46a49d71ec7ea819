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
	ceDataMedia   = "application/json" // the default of datacontenttype
)

// SplitCloudEvents is a Split for CloudEvents 1.0 over HTTP: structured JSON, binary, and JSON
// batches, which the media type distinguishes (HTTP protocol binding section 3).
//
// The identifier is source and id together (see [JoinID]), because an id alone is not unique.
// The field Idempotency-Key identifies a single event instead if the signature covers it, or if
// the scheme covers no field: a bearer token authenticates every field alike. The item's
// attributes are the context attributes, including id, source and extensions.
//
// An event of a batch that has no id or is malformed has its error in [Item.Err].
//
// Errors are event_malformed, ambiguous_field, media_type_unsupported for event formats other
// than JSON, and insufficient_coverage for binary mode under a signature that does not cover
// the attributes (see [Producer.LooseBinary]).
func SplitCloudEvents(d *Delivery) ([]Item, error) {
	events, err := d.cloudEvents()
	if err != nil {
		return nil, err
	}
	items := make([]Item, len(events))
	for i, e := range events {
		items[i] = Item{Type: e.kind, Body: e.body, Attributes: e.attributes, Err: e.err}
		if e.id != "" {
			items[i].ID = JoinID(e.source, e.id)
		}
	}
	key := IdempotencyKey{}
	if len(items) == 1 && (d.Identity.Covers(strings.ToLower(key.field())) || d.coversNothing()) {
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

// coversNothing reports whether the scheme covers no part of the request, like a shared credential.
func (d *Delivery) coversNothing() bool {
	return d.Identity.Signed == nil && len(d.Identity.Covered) == 0
}

// IsCloudEvent reports whether a request is a CloudEvent, for endpoints that also get other
// deliveries: it has the media type, or any required attribute in the header. If it lacks
// others it is a malformed CloudEvent.
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

// CloudEventID reads source and id of a single CloudEvent, joined by [JoinID]. Other deliveries
// have no value, and a batch is refused (event_malformed).
func CloudEventID() Extractor { return cloudEventValue("id") }

// CloudEventType reads the type of a single CloudEvent, like [CloudEventID] its identifier.
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

// CloudEventAttributes reads the context attributes of a single CloudEvent, for
// [Producer.Attributes].
func CloudEventAttributes(d *Delivery) (map[string]string, error) {
	e, err := d.cloudEvent()
	return e.attributes, err
}

// CloudEventData returns the data of an event and its media type, given the body of the [Item]
// and the Content-Type of the delivery. In structured mode and in batches the data is a member
// of the body, null if there is none (CloudEvents JSON format 1.0.2 section 3.1). Otherwise the
// body is the data.
func CloudEventData(contentType string, body []byte) (kind string, data []byte, err error) {
	switch ceMedia(contentType) {
	case MediaCloudEvent, MediaCloudEventBatch:
	default:
		return contentType, body, nil
	}
	e, err := parseStructured(newDocument(body))
	if err != nil {
		return "", nil, err
	}
	if e.data == nil {
		return ceDataMedia, []byte("null"), nil
	}
	return cmp.Or(e.attributes["datacontenttype"], ceDataMedia), e.data, nil
}

// ceMedia returns a media type of CloudEvents in lower case without parameters, or "" for any
// other.
func ceMedia(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	kind = strings.ToLower(verify.TrimOWS(kind))
	if !strings.HasPrefix(kind, ceMediaPrefix) {
		return ""
	}
	return kind
}

// parsedEvents are the events of a delivery and the request they were read from.
type parsedEvents struct {
	request *http.Request
	body    []byte
	events  []cloudEvent
	err     error
}

// cloudEvents returns the events of the delivery, parsed once for all extractors. Do not change
// the result.
func (d *Delivery) cloudEvents() ([]cloudEvent, error) {
	if d.parsed == nil || d.parsed.request != d.Request || !sameMemory(d.parsed.body, d.Body) {
		var events []cloudEvent
		err := d.checkMode()
		if err == nil {
			events, err = parseCloudEvents(d)
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
	return events[0], events[0].err
}

// checkMode refuses binary mode under a signature that covers the body but not the attributes: an
// attacker could resend a captured body, even of another mode, as any event. In the other modes the
// attributes are in the body. A bearer token covers nothing and vouches for the whole request.
func (d *Delivery) checkMode() error {
	if d.Identity.Signed == nil || d.looseBinary || ceMedia(d.Request.Header.Get("Content-Type")) != "" {
		return nil
	}
	for name := range d.Request.Header {
		name = strings.ToLower(name)
		attribute, found := strings.CutPrefix(name, "ce-")
		if found && isAttributeName(attribute) && !d.Identity.Covers(name) {
			return &verify.Error{Code: verify.InsufficientCoverage, KeyID: d.Identity.KeyID, Component: name}
		}
	}
	return nil
}
