package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Scalar returns the content of a string, a number or boolean as it is written, and "" for any
// other value. A string that is not Unicode is ErrText. encoding/json would replace parts of
// it, and two identifiers could become one.
func Scalar(raw []byte) (string, error) {
	switch raw[0] {
	case '"':
		return unicodeText(raw)
	case '{', '[', 'n':
		return "", nil
	}
	return string(raw), nil
}

func unicodeText(raw []byte) (string, error) {
	if !utf8.Valid(raw) {
		return "", ErrText
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	out, whole := AppendString(make([]byte, 0, len(raw)), raw)
	if !whole {
		return "", ErrText
	}
	return string(out), nil
}

// String decodes a valid JSON string, given its text with the quotes. See [AppendString].
func String(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	out, _ := AppendString(nil, raw)
	return string(out)
}

// AppendString decodes a valid JSON string, given its text with the quotes. An unpaired
// surrogate becomes U+FFFD, as in encoding/json, and whole is then false.
func AppendString(b, raw []byte) (out []byte, whole bool) {
	whole = true
	for raw = raw[1 : len(raw)-1]; ; {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(b, raw...), whole
		}
		b = append(b, raw[:n]...)
		if raw[n+1] != 'u' {
			b = append(b, unescape(raw[n+1]))
			raw = raw[n+2:]
			continue
		}
		r, _ := hex4(raw[n+2:])
		raw = raw[n+6:]
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if bytes.HasPrefix(raw, []byte(`\u`)) {
				low, _ = hex4(raw[2:])
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				whole = false
			} else {
				raw = raw[6:]
			}
		}
		b = utf8.AppendRune(b, r)
	}
}

// Quote appends a string as encoding/json writes it.
func Quote(b []byte, text string) []byte {
	for _, c := range []byte(text) {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text) // a string always marshals
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// unescape returns the character of a short escape, or 0.
func unescape(c byte) byte {
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return "\"\\/\b\f\n\r\t"[i]
	}
	return 0
}

// hex4 reads the four digits after \u.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
