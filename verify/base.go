package verify

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dunglas/httpsfv"
)

// message is a request as signatures see it: the place where the values of components come from.
type message struct {
	request   *http.Request
	url       *url.URL // absolute, with the octets of path and query as they arrived
	authority string   // lower case, without a default port (RFC 9421 section 2.2.3)
	path      string   // as it arrived, at least "/"
}

// errNotAbsolute is a mistake of the program that calls Verify, not of the sender.
var errNotAbsolute = errors.New("verify: the request's URL is not absolute: set its scheme and host to those that the producer called")

// newMessage reads the URL of a request. It refuses request lines in absolute form, whose authority and Host may
// disagree, and paths that are no URI paths, of which every server makes something else.
func newMessage(r *http.Request) (*message, error) {
	if t := r.RequestURI; t != "" && t[0] != '/' {
		return nil, malformed("@target-uri", "the request target is not in origin form")
	}
	if r.URL.Scheme == "" || r.URL.Host == "" {
		return nil, errNotAbsolute
	}
	if len(r.URL.RawQuery) > maxBase {
		return nil, malformed("@query", "larger than 64 KiB")
	}
	m := &message{request: r, path: r.URL.EscapedPath()}
	if raw := r.URL.RawPath; raw != "" && raw != m.path || r.URL.Opaque != "" {
		return nil, malformed("@path", "no path of a URI")
	}
	u := *r.URL
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if m.path == "" {
		m.path, u.Path = "/", "/"
	}
	if m.path[0] != '/' {
		return nil, malformed("@path", "no path of a URI")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	m.authority = authority(u.Scheme, u.Host)
	if !isAuthority(m.authority) {
		return nil, malformed("@authority", "no host and port")
	}
	u.Host = m.authority
	m.url = &u
	return m, nil
}

// authority normalizes a host and port.
func authority(scheme, host string) string {
	host = strings.ToLower(host)
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	return strings.TrimSuffix(strings.TrimSuffix(host, port), ":")
}

func isAuthority(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLower(c) && !isDigit(c) && !strings.ContainsRune(".-_:[]", rune(c)) {
			return false
		}
	}
	return s != ""
}

// query returns the query with its question mark (RFC 9421 section 2.2.7).
func (m *message) query() string { return "?" + m.url.RawQuery }

func (m *message) targetURI() string {
	s := m.url.Scheme + "://" + m.authority + m.path
	if m.url.RawQuery != "" || m.url.ForceQuery {
		s += m.query()
	}
	return s
}

// lines returns the lines of a field, whose name is in lower case. net/http keeps Host out of the header, and
// clients keep Content-Length out of it.
func (m *message) lines(name string) []string {
	switch name {
	case "host":
		if authority(m.url.Scheme, m.request.Host) == m.authority {
			return []string{m.request.Host}
		}
		return []string{m.authority}
	case "content-length":
		if v := m.request.Header["Content-Length"]; len(v) > 0 || m.request.ContentLength <= 0 {
			return v
		}
		return []string{strconv.FormatInt(m.request.ContentLength, 10)}
	}
	return m.request.Header[http.CanonicalHeaderKey(name)]
}

// base appends the signature base of RFC 9421 section 2.5 to b. It checks every value on its way: a field that is not
// there, characters that must not be signed, a parameter of the query that comes twice. One field can be covered in
// many forms, so the work is bounded and not only the size of the request.
func (m *message) base(b []byte, in *signatureInput) ([]byte, *Error) {
	if m.structured(in) > maxStructured {
		return nil, malformed("signature-input", "more than 8 KiB of structured fields and parameters to read")
	}
	for i := range in.components {
		c := &in.components[i]
		b = append(append(b, c.id...), ": "...)
		start := len(b)
		var err *Error
		if c.name[0] == '@' {
			b, err = m.appendDerived(b, c)
		} else {
			b, err = m.appendField(b, c)
		}
		if err != nil {
			return nil, err
		}
		if len(b) > maxBase {
			return nil, malformed(c.name, "the signature base is larger than 64 KiB")
		}
		for _, x := range b[start:] {
			if x != '\t' && (x < ' ' || x > '~') {
				return nil, malformed(c.name, "characters that a signature base cannot hold")
			}
		}
		b = append(b, '\n')
	}
	b = append(b, `"@signature-params": `...)
	return append(b, in.params...), nil
}

// structured returns how many bytes must be parsed for the components that are parts of something.
func (m *message) structured(in *signatureInput) int {
	size := 0
	for i := range in.components {
		switch c := &in.components[i]; {
		case c.name == "@query-param":
			size += len(m.url.RawQuery)
		case c.sf || c.keyed:
			for _, line := range m.lines(c.name) {
				size += len(line)
			}
		}
	}
	return size
}

func (m *message) appendDerived(b []byte, c *component) ([]byte, *Error) {
	switch c.name {
	case "@method":
		return append(b, m.request.Method...), nil
	case "@target-uri":
		return append(b, m.targetURI()...), nil
	case "@authority":
		return append(b, m.authority...), nil
	case "@scheme":
		return append(b, m.url.Scheme...), nil
	case "@path":
		return append(b, m.path...), nil
	case "@query":
		return append(b, m.query()...), nil
	}
	return m.appendQueryParam(b, c.key)
}

// appendQueryParam appends the value of a parameter of the query, whose name is percent-encoded. A name that occurs
// twice is refused (RFC 9421 section 2.2.8).
func (m *message) appendQueryParam(b []byte, encoded string) ([]byte, *Error) {
	name, err := url.PathUnescape(encoded)
	if err != nil {
		return nil, malformed("@query-param", "the name is not percent-encoded")
	}
	values, err := url.ParseQuery(m.url.RawQuery)
	if err != nil {
		return nil, malformed("@query-param", "the query is not a form")
	}
	switch found := values[name]; len(found) {
	case 0:
		return nil, absent("@query-param")
	case 1:
		return append(b, escapeQueryParam(found[0])...), nil
	}
	return nil, &Error{Code: AmbiguousField, Component: "@query-param"}
}

func absent(component string) *Error {
	return &Error{Code: SignatureMismatch, Component: component, Err: reason("covered, but not there")}
}

func (m *message) appendField(b []byte, c *component) ([]byte, *Error) {
	lines := m.lines(c.name)
	if len(lines) == 0 {
		return nil, absent(c.name)
	}
	if c.sf || c.keyed {
		return appendStructured(b, c, lines)
	}
	for i, line := range lines {
		if i > 0 {
			b = append(b, ", "...)
		}
		line = TrimOWS(line)
		if c.bs {
			b = append(b, ':')
			b = base64.StdEncoding.AppendEncode(b, []byte(line))
			b = append(b, ':')
		} else {
			b = append(b, line...)
		}
	}
	return b, nil
}

// appendStructured appends a field, or one member of it, in the canonical form of its structure. Only
// Dictionaries are known: of an Item or a List the type would have to be agreed on first.
func appendStructured(b []byte, c *component, lines []string) ([]byte, *Error) {
	dict, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil, unsupported(c.name, "the field is no dictionary")
	}
	var value httpsfv.StructuredFieldValue = dict
	if c.keyed {
		member, ok := dict.Get(c.key)
		if !ok {
			return nil, absent(c.name)
		}
		value = member
	}
	text, err := httpsfv.Marshal(value)
	if err != nil {
		return nil, unsupported(c.name, "the field is no dictionary")
	}
	return append(b, text...), nil
}

// trimmed returns a copy of the request that holds what the signature covers and nothing else, for the engine.
func (m *message) trimmed(in *signatureInput) *http.Request {
	h := make(http.Header, len(in.components)+2)
	h["Signature-Input"] = []string{in.label + "=" + in.member}
	h["Signature"] = []string{in.label + "=" + in.signature}
	for i := range in.components {
		name := in.components[i].name
		if name[0] == '@' {
			continue
		}
		// The engine leaves white space in the octets of a field (;bs).
		h[http.CanonicalHeaderKey(name)] = trimLines(m.lines(name))
	}
	u := *m.url
	return &http.Request{Method: m.request.Method, URL: &u, Header: h, Host: m.authority, Body: http.NoBody}
}
