package verify

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// message is a request as signatures see it: the source of component values.
type message struct {
	request   *http.Request
	url       url.URL // absolute, with the octets of path and query as they arrived
	authority string  // lower case, without a default port (RFC 9421 section 2.2.3)
	path      string  // as it arrived, at least "/"

	// Budgets of all signature bases of the request together.
	basesLeft int // bytes of bases
	partsLeft int // bytes to parse for sf, key and @query-param
	marksLeft int // values in these bytes

	prefixed []prefixedFields // see fieldsWithPrefix
}

// errNotAbsolute is an error of the calling program, not of the sender.
var errNotAbsolute = errors.New(
	"verify: the request's URL is not absolute: set its scheme and host to those that the producer called")

// newMessage reads the URL of a request. It refuses request lines in absolute form, whose authority
// and Host may disagree, and paths that are not URI paths, which servers read differently.
func newMessage(r *http.Request) (message, error) {
	if t := r.RequestURI; t != "" && t[0] != '/' {
		return message{}, malformed("@target-uri", "the request target is not in origin form")
	}
	if r.URL.Scheme == "" || r.URL.Host == "" {
		return message{}, errNotAbsolute
	}
	if len(r.URL.RawQuery) > maxBase {
		return message{}, overLimit("@query", "larger than 64 KiB")
	}
	if !isEncoded(r.URL.RawQuery) {
		return message{}, malformed("@query", "a percent sign without two hexadecimal digits")
	}
	m := message{
		request: r, url: *r.URL, path: r.URL.EscapedPath(),
		basesLeft: maxBase, partsLeft: maxStructured, marksLeft: maxMarks,
	}
	if raw := r.URL.RawPath; raw != "" && raw != m.path || r.URL.Opaque != "" {
		return message{}, malformed("@path", "not a path of a URI")
	}
	u := &m.url
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if m.path == "" {
		m.path, u.Path = "/", "/"
	}
	if m.path[0] != '/' {
		return message{}, malformed("@path", "not a path of a URI")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	m.authority = authority(u.Scheme, u.Host)
	if !isAuthority(m.authority) {
		return message{}, malformed("@authority", "not a host and port")
	}
	u.Host = m.authority
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

// normalizePath writes the path in normal form (RFC 3986 sections 6.2.2.1 and 6.2.2.2).
func (m *message) normalizePath() {
	var b strings.Builder
	for i := 0; i < len(m.path); i++ {
		c := m.path[i]
		if c != '%' {
			b.WriteByte(c)
			continue
		}
		code := strings.ToUpper(m.path[i : i+3]) // a path has no other percent signs
		if octet, _ := url.PathUnescape(code); isUnreserved(octet[0]) {
			b.WriteString(octet)
		} else {
			b.WriteString(code)
		}
		i += 2
	}
	m.path, m.url.RawPath = b.String(), b.String()
	m.url.Path, _ = url.PathUnescape(m.path)
}

// isUnreserved reports whether a character needs no encoding (RFC 3986 section 2.3).
func isUnreserved(c byte) bool {
	return isLower(c) || isUpper(c) || isDigit(c) || strings.IndexByte("-._~", c) >= 0
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

// hasQuery reports whether there is a query, which may be empty.
func (m *message) hasQuery() bool { return m.url.RawQuery != "" || m.url.ForceQuery }

// appendQuery appends the query with its question mark (RFC 9421 section 2.2.7).
func (m *message) appendQuery(b []byte) []byte { return append(append(b, '?'), m.url.RawQuery...) }

func (m *message) appendTargetURI(b []byte) []byte {
	b = append(append(b, m.url.Scheme...), "://"...)
	b = append(append(b, m.authority...), m.path...)
	if m.hasQuery() {
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
	return m.field(name)
}

// field returns the lines of a field of the header, without writing its name in canonical form
// (see [http.CanonicalHeaderKey]) to the heap.
func (m *message) field(name string) []string {
	var buffer [64]byte
	if len(name) > len(buffer) {
		return m.request.Header[http.CanonicalHeaderKey(name)]
	}
	key := append(buffer[:0], name...)
	first := true
	for i, c := range key {
		if first && isLower(c) {
			key[i] = c - 'a' + 'A'
		}
		first = c == '-'
	}
	return m.request.Header[string(key)]
}

type namedField struct {
	name  string
	lines []string
}

type prefixedFields struct {
	prefix string
	fields []namedField
}

// fieldsWithPrefix returns the fields whose names begin with a lower-case prefix and are
// longer. It walks the header once per prefix, however many signatures there are.
func (m *message) fieldsWithPrefix(prefix string) []namedField {
	for i := range m.prefixed {
		if m.prefixed[i].prefix == prefix {
			return m.prefixed[i].fields
		}
	}
	var found []namedField
	for field, lines := range m.request.Header {
		if len(field) > len(prefix) && strings.EqualFold(field[:len(prefix)], prefix) {
			found = append(found, namedField{strings.ToLower(field), lines})
		}
	}
	m.prefixed = append(m.prefixed, prefixedFields{prefix, found})
	return found
}

// coveredRequest is a request with only what one signature covers, for the engine. It is used
// again for other requests.
type coveredRequest struct {
	request http.Request
	url     url.URL
	header  http.Header // in lower case
}

// set fills the request with what the signature covers.
func (c *coveredRequest) set(m *message, in *signatureInput) *http.Request {
	c.clear()
	if c.header == nil {
		c.header = make(http.Header, len(in.components))
	}
	c.url = m.url
	query := false
	for i := range in.components {
		switch part := &in.components[i]; {
		case part.name[0] != '@':
			c.header[part.name] = trimLines(m.lines(part.name)) // the engine does not trim the octets of ;bs
		case strings.HasPrefix(part.name, "@query"):
			query = true
		}
	}
	if !query && (c.url.RawQuery != "" || c.url.ForceQuery) { // spares the engine parsing the query
		c.url.Opaque = "//" + m.authority + m.path + "?" + c.url.RawQuery
		c.url.RawQuery, c.url.ForceQuery = "", false
	}
	c.request.Method, c.request.URL, c.request.Host = m.request.Method, &c.url, m.authority
	c.request.Header, c.request.Body = c.header, http.NoBody
	return &c.request
}

// clear drops everything that belongs to a request.
func (c *coveredRequest) clear() {
	clear(c.header)
	*c = coveredRequest{header: c.header}
}

// engineAgrees reports whether the engine reads the covered components as RFC 9421 says. It reads
// every query as a form, even if only its octets are signed, and encodes parameters differently.
// It reads every field with ;sf as a dictionary, and signs Set-Cookie with ;bs only.
func (m *message) engineAgrees(in *signatureInput) bool {
	for i := range in.components {
		c := &in.components[i]
		if c.name == "@query-param" || c.name == "@query" && !m.queryIsForm() || c.isString() ||
			c.name == "set-cookie" && !c.bs {
			return false
		}
	}
	return true
}
