package producer

import (
	"errors"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// Bounds of what is read from bodies that other people wrote.
const (
	maxDepth = 256   // nesting of JSON
	maxValue = 4_096 // bytes of one extracted value as it is spelled
)

// splitPath takes a path apart at its dots; `\.` is a dot within a name.
func splitPath(path string) []string {
	var names []string
	var name strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '\\'):
			i++
			name.WriteByte(path[i])
		case path[i] == '.':
			names = append(names, name.String())
			name.Reset()
		default:
			name.WriteByte(path[i])
		}
	}
	return append(names, name.String())
}

// document is JSON that has been checked, which costs more than finding a value in it.
type document struct {
	text []byte // as it was given
	root []byte // what checkedJSON made of it
	err  error
}

func newDocument(text []byte) *document {
	root, err := checkedJSON(text)
	return &document{text: text, root: root, err: err}
}

// JSON returns the body without the white space around it. It is an object or array of valid JSON (RFC 8259), nested no deeper
// than 256, else there is an error. All readers of a delivery share the check.
func (d *Delivery) JSON() ([]byte, error) {
	doc := d.document()
	return doc.root, doc.err
}

// document returns the body as JSON. All extractors of a delivery share it, so that the body is checked once.
func (d *Delivery) document() *document {
	if d.doc == nil || !sameBytes(d.doc.text, d.Body) {
		d.doc = newDocument(d.Body)
	}
	return d.doc
}

// sameBytes reports whether two slices are the same bytes of memory, not only equal ones.
func sameBytes(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// scalarAt returns the string, number or boolean at a path, as [JSON] promises.
func scalarAt(doc *document, path string, names []string) (string, error) {
	raw, err := doc.at(names)
	if errors.Is(err, strictjson.ErrSyntax) || err == nil && raw == nil {
		return "", nil
	}
	if err == nil && len(raw) > maxValue && raw[0] != '{' && raw[0] != '[' {
		err = errTooLong
	}
	if err == nil {
		var value string
		if value, err = strictjson.Scalar(raw); err == nil {
			return value, nil
		}
	}
	code := verify.EventMalformed
	if errors.Is(err, strictjson.ErrDuplicate) {
		code = verify.AmbiguousField
	}
	return "", &verify.Error{Code: code, Component: path, Err: err}
}

var (
	errTooDeep = verify.Public("nested deeper than 256")
	errTooLong = verify.Public("value over 4,096 bytes")
)

// at returns the bytes of the value at a path, or nil when there is none.
func (d *document) at(names []string) (raw []byte, err error) {
	if d.err != nil {
		return nil, d.err
	}
	return strictjson.At(d.root, names)
}

// checkedJSON returns the document without the white space around it, when it is an object or array of valid
// JSON (RFC 8259) and of bounded depth.
func checkedJSON(doc []byte) ([]byte, error) {
	root, err := strictjson.Check(doc, maxDepth)
	if errors.Is(err, strictjson.ErrDepth) {
		err = errTooDeep
	}
	return root, err
}
