package producer

import (
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// cloudEvent is one event of CloudEvents 1.0.
type cloudEvent struct {
	id, source, kind string
	attributes       map[string]string // all context attributes by name, including extensions
	body             []byte            // the event's own bytes
	data             []byte            // its data, decoded
	err              error             // of an event in a batch
}

// parseCloudEvents reads the events of a delivery.
func parseCloudEvents(d *Delivery) ([]cloudEvent, error) {
	h := d.Request.Header
	kinds := h.Values("Content-Type")
	if len(kinds) > 1 {
		return nil, &verify.Error{Code: verify.AmbiguousField, Component: "content-type"}
	}
	kind := ceMedia(h.Get("Content-Type"))
	var one cloudEvent
	var err error
	switch kind {
	case "":
		one, err = parseBinary(h, d.Body)
	case MediaCloudEvent:
		one, err = parseStructured(d.document())
	case MediaCloudEventBatch:
		return parseBatch(d.document())
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

// parseBinary reads an event whose attributes are header fields and whose data is the body
// (binding section 3.1).
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
			return e, malformed("ce-datacontenttype", errors.New("binary mode has it in Content-Type"))
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

// isAttributeName reports whether a name may be that of a context attribute: lower-case letters
// and digits (CloudEvents 1.0.2, naming conventions).
func isAttributeName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// decodeAttribute reads an attribute from a field value: it removes quotes, percent-decodes
// once, and requires Unicode (binding section 3.1.3.2).
func decodeAttribute(value string) (string, error) {
	value = verify.TrimOWS(value)
	if strings.HasPrefix(value, `"`) {
		var err error
		if value, err = unquoteField(value); err != nil {
			return "", err
		}
	}
	text, err := url.PathUnescape(value)
	if err != nil {
		return "", errors.New("a percent sign without two hex digits")
	}
	if !utf8.ValidString(text) {
		return "", strictjson.ErrText
	}
	return text, nil
}

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
func parseStructured(doc *document) (cloudEvent, error) {
	object, err := doc.beginsWith('{')
	if err != nil {
		return cloudEvent{}, err
	}
	return parseEvent(object)
}

// beginsWith returns the JSON if that is its first byte.
func (d *document) beginsWith(first byte) ([]byte, error) {
	err := d.err
	if err == nil && d.json.Text[0] != first {
		err = strictjson.ErrSyntax
	}
	if err != nil {
		return nil, malformed("body", err)
	}
	return d.json.Text, nil
}

func parseBatch(doc *document) ([]cloudEvent, error) {
	array, err := doc.beginsWith('[')
	if err != nil {
		return nil, err
	}
	events := []cloudEvent{}
	_ = strictjson.EachElement(array, func(value []byte) error {
		e := cloudEvent{body: value, err: malformed("", verify.Public("not an object"))}
		if value[0] == '{' {
			var err error
			if e, err = parseEvent(value); e.kind != "" && e.id == "" {
				err = &verify.Error{Code: verify.IDMissing, Component: "id"}
			}
			e.err = err
		}
		events = append(events, e)
		return nil
	})
	return events, nil
}

// parseEvent reads an object of the JSON event format in checked JSON.
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

// set stores an attribute of the JSON event format. Attributes of the specification are
// strings, extensions may also be booleans and integers, and null is absent.
func (e *cloudEvent) set(name string, value []byte) error {
	if string(value) == "null" {
		return nil
	}
	defined := strings.Contains(" id source specversion type datacontenttype dataschema subject time ", " "+name+" ")
	if value[0] != '"' && (defined || value[0] == '{' || value[0] == '[') || len(value) > maxValue {
		return malformed(shortName(name), errors.New("not a valid value of the attribute"))
	}
	text, err := strictjson.Scalar(value)
	if err != nil {
		return malformed(shortName(name), err)
	}
	e.attributes[name] = text
	return nil
}

// eventData returns the data of the JSON event format (section 3.1): base64 is decoded, a
// string is text unless the data is JSON, and anything else is JSON.
func eventData(kind string, data, base64Data []byte) ([]byte, error) {
	if data != nil && base64Data != nil {
		return nil, errors.New("data and data_base64 exclude each other")
	}
	if base64Data != nil && string(base64Data) != "null" {
		if base64Data[0] != '"' {
			return nil, errors.New("data_base64 is not a string")
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

// isJSONMedia reports whether data of a media type, or of none, is JSON.
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

// checked returns the event if it has the required attributes. With an error it returns one whose
// type is set if only the id is missing.
func (e cloudEvent) checked() (cloudEvent, error) {
	for _, name := range []string{"source", "type", "specversion"} {
		if err := e.has(name); err != nil {
			return e, err
		}
	}
	if e.attributes["specversion"] != "1.0" {
		return e, malformed("specversion", errors.New("only CloudEvents 1.0 is supported"))
	}
	e.id, e.source, e.kind = e.attributes["id"], e.attributes["source"], e.attributes["type"]
	delete(e.attributes, "type")
	delete(e.attributes, "specversion")
	return e, e.has("id")
}

// has checks a required attribute.
func (e cloudEvent) has(name string) error {
	switch value := e.attributes[name]; {
	case value == "":
		return malformed(name, errors.New("a required attribute is missing or empty"))
	case len(value) > maxValue:
		return malformed(name, errTooLong)
	}
	return nil
}

// shortName limits a name from an unverified body.
func shortName(name string) string {
	if len(name) > 64 {
		return name[:64]
	}
	return name
}
