package verify

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// appendQueryParam appends the value of a parameter of the query, whose name is percent-encoded (RFC 9421 section 2.2.8).
// The value is decoded and encoded again as the URL standard says, where "*" stays and "~" does not. A name that occurs
// twice is refused, and so is a value that is not Unicode text: the standard would replace what it cannot read.
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
		return nil, absent("@query-param")
	case found > 1:
		return nil, &Error{Code: AmbiguousField, Component: "@query-param"}
	case err != nil || !utf8.ValidString(value):
		return nil, malformed("@query-param", "the value is not Unicode text")
	}
	return appendFormText(b, value), nil
}

// appendFormText appends text in the percent-encoding of forms, with "%20" for a space: everything but letters, digits
// and "*-._" is encoded (URL standard, application/x-www-form-urlencoded percent-encode set).
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
