package preset

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/internal/strictjson"
	"github.com/eyelet-dev/eyelet/producer"
)

// Unsigned is a delivery of any producer that is not signed yet, for tests and tools.
// [Preset.Draft] makes the sample of a vendor.
type Unsigned struct {
	URL  string // absolute, as the producer calls it
	Type string // the event type; defaults to the first of the preset's
	ID   string // the identifier of the event; defaults to a random one
	// Body is the payload. Where the producer reads type or identifier from a member at the top
	// of a JSON object, and the object has none, it is added. Nil is the body of the preset's
	// sample.
	Body []byte
	// MediaType of Body. Defaults to that of the preset's sample, else to application/json.
	MediaType string
}

// SignedBy returns the delivery as the producer would send it at now, and its body: with the
// fields of the preset's sample, with type and identifier where the producer reads them, and
// signed by its scheme. Schemes that only the sender can sign, such as tokens, are an error.
func (u Unsigned) SignedBy(p producer.Producer, now time.Time) (*http.Request, []byte, error) {
	r, body, err := u.draft(p, now)
	if err != nil {
		return nil, nil, err
	}
	if u.MediaType != "" {
		r.Header.Set("Content-Type", u.MediaType)
	}
	if u.Body != nil {
		body = u.Body
	}
	body = Place(r, body, p.Type, u.Type)
	body = Place(r, body, p.Key, u.ID)
	setBody(r, body) // a signature may cover its length
	if body, err = signBy(p.Scheme, r, body, now); err != nil {
		return nil, nil, fmt.Errorf("producer %q: %w", p.Name, err)
	}
	setBody(r, body)
	return r, body, nil
}

// draft returns the sample of the preset, or an empty object. It sets the type and the identifier.
func (u *Unsigned) draft(p producer.Producer, now time.Time) (*http.Request, []byte, error) {
	u.ID = cmp.Or(u.ID, rand.Text())
	known, ok := Find(p.Preset)
	if !ok || known.samples().form.body == "" {
		return sample{body: "{}"}.request(u.URL, u.Type, u.ID, now, nil)
	}
	u.Type = cmp.Or(u.Type, known.usualType())
	return known.Draft(Settings{}, u.URL, u.Type, u.ID, now)
}

// Place puts a value where the extractor reads it, unless there is one: a field, a parameter of
// the query, or a member at the top of a JSON object. It does nothing for other extractors. It
// returns the body, and r keeps the one it had.
func Place(r *http.Request, body []byte, at producer.Extractor, value string) []byte {
	if at == nil || value == "" {
		return body
	}
	kind, name, _ := strings.Cut(at.String(), ":")
	if strings.ContainsAny(name, " .[") { // several places, or a path
		return body
	}
	switch kind {
	case "header":
		setAbsent(r.Header, name, value)
	case "idempotency-key":
		setAbsent(r.Header, cmp.Or(name, "Idempotency-Key"), strconv.Quote(value))
	case "query":
		if query := r.URL.Query(); !query.Has(name) {
			r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&"+url.Values{name: {value}}.Encode(), "&")
		}
	case "json":
		return withMember(body, name, `"`+jsonText(value)+`"`, false)
	}
	return body
}

func setAbsent(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
	}
}

// withMember sets a member at the top of a JSON object to the raw value, in front of the others if
// there is none. One that is there stays unless it is to be replaced, and so do other bodies.
func withMember(body []byte, name, raw string, replace bool) []byte {
	var doc strictjson.Document
	text := bytes.TrimLeft(body, " \t\r\n")
	if !isJSONObject(text) || doc.Read(text, 256) != nil {
		return body
	}
	var members []string
	found := false
	_ = strictjson.EachMember(text, func(key, value []byte) error {
		if strictjson.String(key) == name {
			found, value = true, []byte(raw)
		}
		members = append(members, string(key)+":"+string(value))
		return nil
	})
	switch {
	case found && replace:
		return []byte("{" + strings.Join(members, ",") + "}")
	case found:
		return body
	case len(members) > 0:
		raw += ","
	}
	return append([]byte(`{"`+jsonText(name)+`":`+raw), text[1:]...)
}
