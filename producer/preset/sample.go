package preset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/verify"
)

// sample is a delivery that looks like the vendor's, with names and values of our own. Its texts
// may contain the placeholders of samples.txt.
type sample struct {
	header map[string]string
	query  string
	media  string // the media type, by default application/json
	body   string
}

// add adds a part of the sample: "NAME: VALUE" is a field, "?QUERY" the query, anything else the
// body.
func (f *sample) add(text string) {
	name, value, ok := strings.Cut(text, ": ")
	switch {
	case ok && name == "Content-Type":
		f.media = value
	case ok && verify.IsToken(name):
		f.header[name] = value
	case text[0] == '?':
		f.query = text[1:]
	default:
		f.body = text
	}
}

// Sample returns a signed delivery of the vendor, to try a receiver out: a [Preset.Draft] that is
// signed. Deliveries that only the vendor can sign are an error.
func (p Preset) Sample(s Settings, address, kind, id string, now time.Time) (*http.Request, []byte, error) {
	r, body, err := p.Draft(s, address, kind, id, now)
	if err != nil {
		return nil, nil, err
	}
	if body, err = p.Sign(s, r, body, now); err != nil {
		return nil, nil, err
	}
	return r, body, nil
}

// Draft returns a delivery of the vendor before it is signed by [Preset.Sign], so that it can be
// changed. An empty kind is the first of [Preset.Types], an empty id a new one as the vendor's are.
// The body is that of the type; two drafts of a type differ unless they have the same id and time.
func (p Preset) Draft(s Settings, address, kind, id string, now time.Time) (*http.Request, []byte, error) {
	f := p.samples().form
	if f.body == "" {
		return nil, nil, fmt.Errorf("preset %s: only the vendor can sign its deliveries", p.Name)
	}
	kind, id = cmp.Or(kind, p.usualType()), cmp.Or(id, p.samples().newID(now))
	if strings.ContainsAny(kind+id, "\r\n") {
		return nil, nil, errors.New("sample: type and id are one line each")
	}
	data := p.samples().data(kind)
	if whole, ok := strings.CutPrefix(data, "!"); ok {
		f.body = whole
	} else if form, ok := strings.CutPrefix(data, "&"); ok {
		f.body, f.media = form, formMedia
	} else {
		f.body = strings.Replace(f.body, "{data}", data, 1)
	}
	r, body, err := f.request(address, kind, id, now, settingsIn(s))
	if err == nil && allSamples()[p.Name] == nil {
		body = Place(r, Place(r, body, p.like.Key, id), p.like.Type, kind)
	}
	return r, body, err
}

// Sign signs a delivery as the vendor does, and returns the body, which changes if it contains
// the signature. A JSON object of a request with the media type application/x-www-form-urlencoded
// is put in a form first, where the vendor has such deliveries ([producer.Producer.FormMember]).
// The request gets the body.
func (p Preset) Sign(s Settings, r *http.Request, body []byte, now time.Time) ([]byte, error) {
	made := p.Open(s)
	if made.Err != nil {
		return nil, made.Err
	}
	if made.FormMember != "" && r.Header.Get("Content-Type") == formMedia && isJSONObject(body) {
		body = []byte(made.FormMember + "=" + url.QueryEscape(string(body)))
	}
	s.scheme, _ = made.Scheme.(*verify.RFC9421)
	var err error
	switch {
	case p.signWith == nil:
		body, err = signBy(made.Scheme, r, body, now)
	case s.SigningKey == nil && p.KeySigned():
		err = errors.New("only the vendor can sign its deliveries")
	default:
		body, err = p.signWith(s, r, body, now)
	}
	if err != nil {
		return nil, fmt.Errorf("preset %s: %w", p.Name, err)
	}
	setBody(r, body)
	return body, nil
}

// formMedia is the media type of forms.
const formMedia = "application/x-www-form-urlencoded"

func isJSONObject(body []byte) bool { return len(body) > 0 && body[0] == '{' }

// signBy signs r and returns the body, which changes if it contains the signature.
func signBy(by verify.Scheme, r *http.Request, body []byte, now time.Time) ([]byte, error) {
	switch scheme := by.(type) {
	case nil:
		return body, nil
	case verify.All:
		for _, one := range scheme {
			var err error
			if body, err = signBy(one, r, body, now); err != nil {
				return nil, err
			}
		}
		return body, nil
	case interface {
		SignBody(r *http.Request, body []byte, now time.Time) ([]byte, error)
	}:
		return scheme.SignBody(r, body, now)
	case interface {
		Sign(r *http.Request, body []byte, now time.Time) error
	}:
		return body, scheme.Sign(r, body, now)
	}
	return nil, errors.New("its deliveries cannot be signed")
}

func setBody(r *http.Request, body []byte) {
	fresh, err := http.NewRequestWithContext(r.Context(), r.Method, "http://localhost/", bytes.NewReader(body))
	if err != nil {
		return // not possible: method and URL are valid
	}
	r.Body, r.GetBody, r.ContentLength = fresh.Body, fresh.GetBody, fresh.ContentLength
}

// request fills in the placeholders.
func (f sample) request(address, kind, id string, now time.Time, settings []string) (*http.Request, []byte, error) {
	media := cmp.Or(f.media, "application/json")
	made := append(madeFrom(id), settings...)
	fill := func(text string, escape func(string) string) string {
		return strings.NewReplacer(append(made, "{id}", escape(id), "{type}", escape(kind),
			"{Type}", escape(title(kind)), "{time}", now.UTC().Format(time.RFC3339),
			"{unix}", strconv.FormatInt(now.Unix(), 10))...).Replace(text)
	}
	inBody := jsonText
	if media == formMedia && !isJSONObject([]byte(f.body)) {
		inBody = url.QueryEscape
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, nil, errors.New("sample: the address is not absolute")
	}
	if f.query != "" {
		u.RawQuery = strings.Trim(u.RawQuery+"&"+fill(f.query, url.QueryEscape), "&")
	}
	body := []byte(fill(f.body, inBody))
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", media)
	for name, value := range f.header {
		r.Header.Set(name, fill(value, func(s string) string { return s }))
	}
	return r, body, nil
}

// title writes a name as the vendors' headings do: merge_request is Merge Request.
func title(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words {
		if word != "" {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, " ")
}

// jsonText escapes text for a JSON string.
func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(b[1 : len(b)-1])
}
