package producer

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/verify"
)

// Delivery is one verified HTTP request, as extractors see it.
type Delivery struct {
	// Request is the request. Its URL is absolute, as the producer called it. Do not read its Body.
	Request *http.Request
	// Body is the body as received.
	Body []byte
	// Identity is the result of verification.
	Identity verify.Identity

	doc         document      // the body as JSON, parsed on first use
	parsed      *parsedEvents // its CloudEvents, parsed on first use
	looseBinary bool          // the producer's LooseBinary
	formMember  string        // the producer's FormMember
	item        [1]Item       // of a producer that does not split
}

// Item is one event of a delivery.
type Item struct {
	// ID is the idempotency identifier. Split may leave it empty: a digest replaces it, or with
	// KeyRequired the item is at fault.
	ID string
	// Unnamed means that the sender gave no identifier and ID is a digest. Set by [Producer.Items].
	Unnamed bool
	// Type is the event type.
	Type string
	// Body is the event's own bytes.
	Body []byte
	// Content is what identifies an item without an identifier, where Body has more, such as the
	// number of the attempt. Defaults to Body.
	Content []byte
	// Err is why an item of a batch cannot be used. It is quarantined, while the others run. Split
	// may set it; id_missing counts with KeyRequired only, and then names the member.
	Err error
	// FromForm means that Body is the JSON in a form ([Producer.FormMember]), which is stored as
	// received. Set by [Producer.Items].
	FromForm bool
	// Attributes are facts about the event. Do not change the map: several readers may share it.
	Attributes map[string]string
	// Note is Err, or lists what was left out of the event because it exceeded a limit. Set by
	// [Producer.Items].
	Note string
}

// maxDepth limits the nesting of JSON bodies.
const maxDepth = 256

var errTooDeep = verify.Public("nested deeper than 256") // maxDepth

// JSON returns the body without surrounding white space if it is an object or array of valid
// JSON (RFC 8259) nested at most 256 deep, and an error otherwise. All extractors of a delivery
// share the check.
func (d *Delivery) JSON() ([]byte, error) {
	doc := d.document()
	return doc.json.Text, doc.err
}

// document returns the checked body, cached for the same bytes. Of a form it is the JSON in the
// producer's FormMember.
func (d *Delivery) document() *document {
	if !d.doc.isRead || !sameMemory(d.doc.given, d.Body) {
		text, fromForm := FormValue(d.Body, d.formMember)
		if !fromForm {
			text = d.Body
		}
		d.doc.read(text)
		d.doc.given, d.doc.fromForm = d.Body, fromForm && d.doc.err == nil
	}
	return &d.doc
}

// event returns the bytes of the event: the body, or the JSON of a form.
func (d *Delivery) event() (text []byte, fromForm bool) {
	if d.formMember == "" || !bytes.HasPrefix(d.Body, []byte(d.formMember+"=")) &&
		!bytes.HasPrefix(d.Body, []byte("--")) {
		return d.Body, false
	}
	if doc := d.document(); doc.fromForm {
		return doc.json.Text, true
	}
	return d.Body, false
}

// FormValue returns the decoded value of a form with this one member, or of the member of a
// multipart form; false for any other body, and for an empty name. Only the body decides what is
// read, because a signature of the body does not cover its Content-Type.
func FormValue(body []byte, member string) ([]byte, bool) {
	if first, _, ok := bytes.Cut(body, []byte("\r\n")); ok && member != "" && bytes.HasPrefix(first, []byte("--")) {
		value, err := multipartValue(body, string(first[2:]), member)
		return value, value != nil && err == nil
	}
	name, value, _ := bytes.Cut(body, []byte("="))
	if member == "" || string(name) != member || bytes.ContainsAny(value, "&;") {
		return nil, false
	}
	text, err := url.QueryUnescape(string(value))
	return []byte(text), err == nil
}

// sameMemory reports whether two slices share their memory. Equal bytes elsewhere do not count.
func sameMemory(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// document is checked JSON. Checking costs more than finding a value.
type document struct {
	isRead   bool
	given    []byte
	fromForm bool // it is the JSON of a form
	json     strictjson.Document
	err      error
}

func newDocument(text []byte) *document {
	var d document
	d.read(text)
	return &d
}

func (d *document) read(text []byte) {
	d.isRead, d.given, d.err = true, text, d.json.Read(text, maxDepth)
	if errors.Is(d.err, strictjson.ErrDepth) {
		d.err = errTooDeep
	}
}

// at returns the bytes of the value at a path, or nil if there is none.
func (d *document) at(names []string) (raw []byte, err error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.json.At(names)
}
