package producer

import (
	"bytes"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
)

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
