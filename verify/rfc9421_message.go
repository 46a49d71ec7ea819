package verify

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// message is a request as signatures see it: the source of component values.
type message struct {
	request   *http.Request
	url       *url.URL // absolute, with the octets of path and query as they arrived
	authority string   // lower case, without a default port (RFC 9421 section 2.2.3)
	path      string   // as it arrived, at least "/"

	// Budgets of all signature bases of the request together.
	basesLeft int                     // bytes of bases
	partsLeft int                     // bytes to parse for sf, key and @query-param
	marksLeft int                     // values in these bytes
	byPrefix  map[string][]namedField // by prefix, see fieldsWithPrefix
}

// errNotAbsolute is an error of the calling program, not of the sender.
var errNotAbsolute = errors.New(
	"verify: the request's URL is not absolute: set its scheme and host to those that the producer called")

// newMessage reads the URL of a request. It refuses request lines in absolute form, whose authority
// and Host may disagree, and paths that are not URI paths, which servers read differently.
func newMessage(r *http.Request) (*message, error) {
	if t := r.RequestURI; t != "" && t[0] != '/' {
		return nil, malformed("@target-uri", "the request target is not in origin form")
	}
	if r.URL.Scheme == "" || r.URL.Host == "" {
		return nil, errNotAbsolute
	}
	if len(r.URL.RawQuery) > maxBase {
		return nil, overLimit("@query", "larger than 64 KiB")
	}
	if !isEncoded(r.URL.RawQuery) {
		return nil, malformed("@query", "a percent sign without two hexadecimal digits")
	}
	m := &message{
		request: r, path: r.URL.EscapedPath(), basesLeft: maxBase, partsLeft: maxStructured, marksLeft: maxMarks,
	}
	if raw := r.URL.RawPath; raw != "" && raw != m.path || r.URL.Opaque != "" {
		return nil, malformed("@path", "not a path of a URI")
	}
	u := *r.URL
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if m.path == "" {
		m.path, u.Path = "/", "/"
	}
	if m.path[0] != '/' {
		return nil, malformed("@path", "not a path of a URI")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	m.authority = authority(u.Scheme, u.Host)
	if !isAuthority(m.authority) {
		return nil, malformed("@authority", "not a host and port")
	}
	u.Host = m.authority
	m.url = &u
	return m, nil
}

func authority(scheme, host string) string {
	host = strings.ToLower(host)
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	return strings.TrimSuffix(strings.TrimSuffix(host, port), ":")
}

func isAuthority(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") == ""
}

// maxForm bounds the parameters of a query that the engine may parse.
const maxForm = 256

// queryIsForm reports whether [url.ParseQuery] reads the query as a form of moderate length.
func (m *message) queryIsForm() bool {
	return strings.IndexByte(m.url.RawQuery, ';') < 0 && strings.Count(m.url.RawQuery, "&") < maxForm
}

// isEncoded reports whether every percent sign begins an encoded octet (RFC 3986 section 2.1).
func isEncoded(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return false
		}
		i += 2
	}
	return true
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

// appendQuery appends the query with its question mark (RFC 9421 section 2.2.7).
func (m *message) appendQuery(b []byte) []byte { return append(append(b, '?'), m.url.RawQuery...) }

func (m *message) appendTargetURI(b []byte) []byte {
	b = append(append(b, m.url.Scheme...), "://"...)
	b = append(append(b, m.authority...), m.path...)
	if m.url.RawQuery != "" || m.url.ForceQuery {
		b = m.appendQuery(b)
	}
	return b
}

// lines returns the lines of a field; the name is in lower case. net/http keeps Host out of the
// header, and clients keep Content-Length out of it.
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

type namedField struct {
	name  string
	lines []string
}

// fieldsWithPrefix returns the fields whose names begin with a lower-case prefix and are
// longer. It walks the header once per prefix, however many signatures there are.
func (m *message) fieldsWithPrefix(prefix string) []namedField {
	found, ok := m.byPrefix[prefix]
	if ok {
		return found
	}
	for field, lines := range m.request.Header {
		if len(field) > len(prefix) && strings.EqualFold(field[:len(prefix)], prefix) {
			found = append(found, namedField{strings.ToLower(field), lines})
		}
	}
	if m.byPrefix == nil {
		m.byPrefix = map[string][]namedField{}
	}
	m.byPrefix[prefix] = found
	return found
}

// coveredRequest returns a copy of the request with only what the signature covers, for the engine.
func (m *message) coveredRequest(in *signatureInput) *http.Request {
	h := make(http.Header, len(in.components)+2)
	h["Signature-Input"] = []string{in.label + "=" + in.member}
	h["Signature"] = []string{in.label + "=" + in.signature}
	for i := range in.components {
		if name := in.components[i].name; name[0] != '@' {
			// The engine does not trim the octets of a field with ;bs.
			h[http.CanonicalHeaderKey(name)] = trimLines(m.lines(name))
		}
	}
	u := *m.url
	if !slices.ContainsFunc(in.components, func(c component) bool { return strings.HasPrefix(c.name, "@query") }) {
		// Spares the engine parsing the query.
		u.Opaque, u.RawQuery, u.ForceQuery = string(m.appendTargetURI(nil)[len(u.Scheme)+1:]), "", false
	}
	return &http.Request{Method: m.request.Method, URL: &u, Header: h, Host: m.authority, Body: http.NoBody}
}

// engineAgrees reports whether the engine reads the covered components as RFC 9421 says. It reads
// every query as a form, even if only its octets are signed, and encodes parameters differently.
func (m *message) engineAgrees(in *signatureInput) bool {
	return !slices.ContainsFunc(in.components, func(c component) bool {
		return c.name == "@query-param" || c.name == "@query" && !m.queryIsForm()
	})
}
