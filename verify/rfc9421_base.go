package verify

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"
)

// base appends the signature base (RFC 9421 section 2.5) to b. It refuses missing fields,
// characters that must not be signed and repeated query parameters. Many signatures can cover
// one field in many forms, so the work is bounded for all bases of the request together.
func (m *message) base(b []byte, in *signatureInput) ([]byte, *Error) {
	if !m.spendParts(in) {
		return nil, overLimit("signature-input", "more than 8 KiB or 256 values in structured fields and parameters")
	}
	size := m.size(in)
	if m.basesLeft -= size; m.basesLeft < 0 {
		return nil, overLimit("signature-input", "the signature bases are larger than 64 KiB")
	}
	b = slices.Grow(b, size)
	for i := range in.components {
		c := &in.components[i]
		b = append(append(b, c.id...), ": "...)
		start := len(b)
		var err *Error
		if c.name[0] == '@' {
			b, err = m.appendDerived(b, c)
		} else {
			b, err = appendField(b, c)
		}
		if err != nil {
			return nil, err
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

// spendParts finds the lines of covered fields. It charges the components that must be parsed,
// and reports whether the budget allows it. They cost their bytes and their marks: the characters
// that begin a member, parameter or list item, each of which costs much more than a byte.
func (m *message) spendParts(in *signatureInput) bool {
	for i := range in.components {
		c := &in.components[i]
		if c.name[0] != '@' {
			c.lines = m.lines(c.name)
		}
		switch {
		case c.name == "@query-param":
			m.partsLeft -= len(m.url.RawQuery)
		case c.sf || c.keyed:
			for _, line := range c.lines {
				m.partsLeft -= len(line)
				for i := range len(line) {
					if strings.IndexByte(",;( ", line[i]) >= 0 {
						m.marksLeft--
					}
				}
				m.marksLeft--
			}
		}
		if m.partsLeft < 0 || m.marksLeft < 0 {
			return false
		}
	}
	return true
}

// size returns the length of the base, at most a few bytes per component too long. It does not
// count parsed components, which have a limit of their own.
func (m *message) size(in *signatureInput) int {
	size := len(`"@signature-params": `) + len(in.params)
	for i := range in.components {
		c := &in.components[i]
		size += len(c.id) + len(": \n")
		switch {
		case c.keyed || c.sf:
		case c.name == "@target-uri":
			size += len(m.url.Scheme) + len("://?") + len(m.authority) + len(m.path) + len(m.url.RawQuery)
		case c.name == "@query":
			size += len(m.url.RawQuery) + 1
		case c.name == "@path":
			size += len(m.path)
		case c.name[0] == '@':
			size += len(m.request.Method) + len(m.authority)
		default:
			for _, line := range c.lines {
				size += len(line) + len(", ")
				if c.bs {
					size += base64.StdEncoding.EncodedLen(len(line)) - len(line) + len("::")
				}
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
		return m.appendTargetURI(b), nil
	case "@authority":
		return append(b, m.authority...), nil
	case "@scheme":
		return append(b, m.url.Scheme...), nil
	case "@path":
		return append(b, m.path...), nil
	case "@query":
		return m.appendQuery(b), nil
	}
	return m.appendQueryParam(b, c.key)
}

func missing(component string) *Error {
	return &Error{Code: SignatureMismatch, Component: component, Err: reason("covered but absent")}
}

func appendField(b []byte, c *component) ([]byte, *Error) {
	if len(c.lines) == 0 {
		return nil, missing(c.name)
	}
	if c.sf || c.keyed {
		return appendStructured(b, c)
	}
	for i, line := range c.lines {
		if i > 0 {
			b = append(b, ", "...)
		}
		line = TrimOWS(line)
		if c.bs {
			b = append(appendBase64(append(b, ':'), line), ':')
		} else {
			b = append(b, line...)
		}
	}
	return b, nil
}

// appendBase64 appends the encoded line without copying the whole line first.
func appendBase64(b []byte, line string) []byte {
	var part [768]byte // a multiple of three
	for line != "" {
		n := copy(part[:], line)
		b = base64.StdEncoding.AppendEncode(b, part[:n])
		line = line[n:]
	}
	return b
}

// appendStructured appends a field, or one member of it, in canonical form. Only Dictionaries
// and Idempotency-Key are supported: the type of another Item or List would have to be agreed on.
func appendStructured(b []byte, c *component) ([]byte, *Error) {
	if c.isString() {
		return appendString(b, c)
	}
	dict, err := httpsfv.UnmarshalDictionary(c.lines)
	if err != nil {
		return nil, unsupported(c.name, "the field is not a dictionary")
	}
	var value httpsfv.StructuredFieldValue = dict
	if c.keyed {
		member, ok := dict.Get(c.key)
		if !ok {
			return nil, missing(c.name)
		}
		value = member
	}
	text, err := httpsfv.Marshal(value)
	if err != nil {
		return nil, unsupported(c.name, "the field is not a dictionary")
	}
	return append(b, text...), nil
}

// appendString appends a field that is a String (RFC 9651 section 3.3.3), as it was received. Its
// parameters may have no other form than the canonical one (section 4.1.1.2).
func appendString(b []byte, c *component) ([]byte, *Error) {
	line := TrimOWS(joinLines(c.lines))
	item, err := httpsfv.UnmarshalItem([]string{line})
	if _, ok := item.Value.(string); err != nil || !ok {
		return nil, unsupported(c.name, "the field is not a quoted string")
	}
	if text, err := httpsfv.Marshal(item); err != nil || text != line {
		return nil, unsupported(c.name, "the field is not in its canonical form")
	}
	return append(b, line...), nil
}

// appendQueryParam appends the value of a query parameter, whose name is percent-encoded (RFC
// 9421 section 2.2.8). The value is decoded and encoded again by the URL standard, which keeps
// "*" and encodes "~". A repeated name is refused, and so is a value that is not Unicode: the
// standard would replace the invalid bytes.
func (m *message) appendQueryParam(b []byte, encoded string) ([]byte, *Error) {
	name, err := url.PathUnescape(encoded)
	if err != nil {
		return nil, malformed("@query-param", "the name is not percent-encoded")
	}
	value, found := "", 0
	for rest := m.url.RawQuery; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		key, raw, _ := strings.Cut(pair, "=")
		if key, err = url.QueryUnescape(key); err != nil || pair == "" || key != name {
			continue
		}
		value = raw
		found++
	}
	value, err = url.QueryUnescape(value)
	switch {
	case found == 0:
		return nil, missing("@query-param")
	case found > 1:
		return nil, &Error{Code: AmbiguousField, Component: "@query-param"}
	case err != nil || !utf8.ValidString(value):
		return nil, malformed("@query-param", "the value is not Unicode text")
	}
	return appendFormText(b, value), nil
}

// appendFormText appends text percent-encoded as in forms, with "%20" for a space: everything but
// letters, digits and "*-._" (URL standard, application/x-www-form-urlencoded percent-encode set).
func appendFormText(b []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; isLower(c) || isUpper(c) || isDigit(c) || strings.IndexByte("*-._", c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}
