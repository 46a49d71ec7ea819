package producer

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// cloudEvent is one event of CloudEvents 1.0.
type cloudEvent struct {
	id, source, kind string
	attributes       map[string]string // all context attributes by name, extensions included
	body             []byte            // the event's own bytes, as they arrived
	data             []byte            // its data, decoded
}

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
	if d.parsed == nil || d.parsed.request != d.Request || !sameBytes(d.parsed.body, d.Body) {
		var events []cloudEvent
		err := d.checkMode()
		if err == nil {
			events, err = parseCloudEvents(d.Request.Header, d.Body)
		}
		d.parsed = &parsedEvents{request: d.Request, body: d.Body, events: events, err: err}
	}
	return d.parsed.events, d.parsed.err
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

// parseCloudEvents reads the events of a request.
func parseCloudEvents(h http.Header, body []byte) ([]cloudEvent, error) {
	kinds := h.Values("Content-Type")
	if len(kinds) > 1 {
		return nil, &verify.Error{Code: verify.AmbiguousField, Component: "content-type"}
	}
	kind := ceMedia(h.Get("Content-Type"))
	var one cloudEvent
	var err error
	switch kind {
	case "":
		one, err = parseBinary(h, body)
	case MediaCloudEvent:
		one, err = parseStructured(body)
	case MediaCloudEventBatch:
		return parseBatch(body)
	default:
		return nil, &verify.Error{Code: verify.MediaTypeUnsupported, Component: "content-type"}
	}
	if err != nil {
		return nil, err
	}
	return []cloudEvent{one}, nil
}

func malformed(component string, err error) error {
	return &verify.Error{Code: verify.EventMalformed, Component: component, Err: err}
}

// parseBinary reads an event whose attributes are header fields and whose data is the body (binding section 3.1).
func parseBinary(h http.Header, body []byte) (cloudEvent, error) {
	e := cloudEvent{attributes: map[string]string{}, body: body, data: body}
	for name, lines := range h {
		attribute, found := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !found || !isAttributeName(attribute) {
			continue
		}
		if len(lines) != 1 {
			return e, &verify.Error{Code: verify.AmbiguousField, Component: "ce-" + attribute}
		}
		if attribute == "datacontenttype" {
			return e, malformed("ce-datacontenttype", errors.New("binary mode says it in Content-Type"))
		}
		value, err := decodeAttribute(lines[0])
		if err != nil {
			return e, malformed("ce-"+attribute, err)
		}
		e.attributes[attribute] = value
	}
	if kind := h.Get("Content-Type"); kind != "" {
		e.attributes["datacontenttype"] = kind
	}
	return e.checked()
}

// isAttributeName reports whether a name is one of a context attribute: lower-case letters and digits
// (CloudEvents 1.0.2, naming conventions).
func isAttributeName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// decodeAttribute reads an attribute from a field value: quotes are taken off, then one round of
// percent-decoding is done, and the result must be Unicode (binding section 3.1.3.2).
func decodeAttribute(value string) (string, error) {
	value = verify.TrimOWS(value)
	if strings.HasPrefix(value, `"`) {
		var err error
		if value, err = unquoteField(value); err != nil {
			return "", err
		}
	}
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] != '%' {
			out = append(out, value[i])
			continue
		}
		if i+2 >= len(value) {
			return "", errPercent
		}
		high, low := unhex(value[i+1]), unhex(value[i+2])
		if high < 0 || low < 0 {
			return "", errPercent
		}
		out = append(out, byte(high<<4|low))
		i += 2
	}
	if !utf8.Valid(out) {
		return "", strictjson.ErrText
	}
	return string(out), nil
}

var errPercent = errors.New("a percent sign without two hex digits")

func unhex(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }

// unquoteField decodes a quoted string (RFC 9110 section 5.6.4).
func unquoteField(value string) (string, error) {
	var out strings.Builder
	for i := 1; i < len(value); i++ {
		switch value[i] {
		case '"':
			if i != len(value)-1 {
				return "", errors.New("text after the closing quote")
			}
			return out.String(), nil
		case '\\':
			if i++; i == len(value) {
				return "", errors.New("no closing quote")
			}
		}
		out.WriteByte(value[i])
	}
	return "", errors.New("no closing quote")
}

// parseStructured reads an event in the JSON event format.
func parseStructured(body []byte) (cloudEvent, error) {
	doc, err := checkedJSON(body)
	if err == nil && doc[0] != '{' {
		err = strictjson.ErrSyntax
	}
	if err != nil {
		return cloudEvent{}, malformed("body", err)
	}
	return parseEvent(doc)
}

func parseBatch(body []byte) ([]cloudEvent, error) {
	doc, err := checkedJSON(body)
	if err == nil && doc[0] != '[' {
		err = strictjson.ErrSyntax
	}
	if err != nil {
		return nil, malformed("body", err)
	}
	events := []cloudEvent{}
	err = strictjson.EachElement(doc, func(value []byte) error {
		if value[0] != '{' {
			return malformed(fmt.Sprintf("event %d", len(events)), strictjson.ErrSyntax)
		}
		e, err := parseEvent(value)
		if err != nil {
			return err
		}
		events = append(events, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

// parseEvent reads one object of the JSON event format that is known to be valid JSON.
func parseEvent(object []byte) (cloudEvent, error) {
	e := cloudEvent{attributes: map[string]string{}, body: object}
	seen := map[string]bool{}
	var data, base64Data []byte
	err := strictjson.EachMember(object, func(key, value []byte) error {
		name, err := strictjson.Scalar(key)
		if err != nil {
			return malformed("body", err)
		}
		if seen[name] {
			return &verify.Error{Code: verify.AmbiguousField, Component: shortName(name)}
		}
		seen[name] = true
		switch {
		case name == "data":
			data = value
		case name == "data_base64":
			base64Data = value
		case isAttributeName(name):
			return e.set(name, value)
		}
		return nil
	})
	if err != nil {
		return e, err
	}
	if e.data, err = eventData(e.attributes["datacontenttype"], data, base64Data); err != nil {
		return e, malformed("data", err)
	}
	return e.checked()
}

// set keeps an attribute of the JSON event format. Those that the specification defines are strings;
// extensions may be booleans and integers too, and null is the same as absent.
func (e *cloudEvent) set(name string, value []byte) error {
	if string(value) == "null" {
		return nil
	}
	defined := strings.Contains(" id source specversion type datacontenttype dataschema subject time ", " "+name+" ")
	if value[0] != '"' && (defined || value[0] == '{' || value[0] == '[') || len(value) > maxValue {
		return malformed(shortName(name), errors.New("not a value that the attribute can have"))
	}
	text, err := strictjson.Scalar(value)
	if err != nil {
		return malformed(shortName(name), err)
	}
	e.attributes[name] = text
	return nil
}

// eventData returns the data of the JSON event format (section 3.1): base64 is decoded, a string is the text
// itself unless the data is JSON, and anything else is JSON.
func eventData(kind string, data, base64Data []byte) ([]byte, error) {
	if data != nil && base64Data != nil {
		return nil, errors.New("data and data_base64 exclude each other")
	}
	if base64Data != nil && string(base64Data) != "null" {
		if base64Data[0] != '"' {
			return nil, errors.New("data_base64 is no string")
		}
		text, err := strictjson.Scalar(base64Data)
		if err != nil {
			return nil, err
		}
		return base64.StdEncoding.DecodeString(text)
	}
	if len(data) > 0 && data[0] == '"' && !isJSONMedia(kind) {
		text, err := strictjson.Scalar(data)
		return []byte(text), err
	}
	if string(data) == "null" {
		return nil, nil
	}
	return data, nil
}

// isJSONMedia reports whether the data is JSON; without a media type it is.
func isJSONMedia(kind string) bool {
	if kind == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return false
	}
	_, sub, _ := strings.Cut(media, "/")
	return sub == "json" || strings.HasSuffix(sub, "+json")
}

// checked returns the event when it has what every event must have.
func (e cloudEvent) checked() (cloudEvent, error) {
	for _, name := range []string{"id", "source", "type", "specversion"} {
		if e.attributes[name] == "" {
			return e, malformed(name, errors.New("a required attribute is missing or empty"))
		}
		if len(e.attributes[name]) > maxValue {
			return e, malformed(name, errTooLong)
		}
	}
	if e.attributes["specversion"] != "1.0" {
		return e, malformed("specversion", errors.New("only CloudEvents 1.0 is understood"))
	}
	e.id, e.source, e.kind = e.attributes["id"], e.attributes["source"], e.attributes["type"]
	delete(e.attributes, "type")
	delete(e.attributes, "specversion")
	return e, nil
}

// shortName bounds a name that a stranger wrote.
func shortName(name string) string {
	if len(name) > 64 {
		return name[:64]
	}
	return name
}
