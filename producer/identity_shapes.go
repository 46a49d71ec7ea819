package producer

import (
	"bytes"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

// Shapes returns a function for [Producer.Repeatable]: a signed body that matches a shape may
// occur up to most times. A shape lists members at the top of a JSON object: "NAME" must exist,
// "!NAME" must not, and "NAME=VALUE|VALUE" must be a string with one of the values.
func Shapes(most int, lists ...[]string) func(*Delivery) Repeats {
	return func(d *Delivery) Repeats {
		doc := signedJSON(d)
		for _, shape := range lists {
			if doc.matches(shape) {
				return Repeats{Max: most}
			}
		}
		return Repeats{}
	}
}

// signedJSON returns the JSON of a body, or of its member "payload" if the body is a form. It
// ignores the media type, which is not signed: JSON is never read as a form.
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

// matches reports whether the document is an object of the shape.
func (d *document) matches(shape []string) bool {
	if d.err != nil || !bytes.HasPrefix(d.json.Text, []byte("{")) {
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
