package strictjson

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// At returns the text of the value at a path in checked JSON, or nil if there is none. In an
// array a decimal name is an index. A member of the path that occurs twice is ErrDuplicate. The
// time is linear in the length of the text.
func At(checked []byte, path []string) (raw []byte, err error) {
	raw = checked
	for _, name := range path {
		switch raw[0] {
		case '{':
			raw, err = memberOf(raw, name)
		case '[':
			raw, err = elementOf(raw, name)
		default:
			return nil, nil
		}
		if raw == nil || err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// EachMember calls do with the text of each name, quotes included, and of its value in a
// checked object.
func EachMember(object []byte, do func(name, value []byte) error) error {
	s := Scanner{text: object, valid: true}
	return s.Object(func(name []byte) error {
		value, _ := s.Value() // was checked
		return do(name, value)
	})
}

// EachElement calls do with the text of each element of a checked array.
func EachElement(array []byte, do func(value []byte) error) error {
	s := Scanner{text: array, valid: true}
	return s.Array(func() error {
		value, _ := s.Value() // was checked
		return do(value)
	})
}

// memberOf returns the value of a member, nil if there is none, or ErrDuplicate.
func memberOf(object []byte, name string) (found []byte, err error) {
	err = EachMember(object, func(key, value []byte) error {
		if !means(key, name) {
			return nil
		}
		if found != nil {
			return ErrDuplicate
		}
		found = value
		return nil
	})
	return found, err
}

// means reports whether the text of a JSON string, with the quotes, decodes to name.
func means(key []byte, name string) bool {
	if bytes.IndexByte(key, '\\') < 0 {
		return string(key[1:len(key)-1]) == name && utf8.ValidString(name)
	}
	if len(key) > 6*len(name)+2 { // every letter escaped
		return false
	}
	text, err := unicodeText(key)
	return err == nil && text == name
}

// elementOf returns an element, or nil if there is none with this index.
func elementOf(array []byte, index string) (found []byte, err error) {
	n, err := strconv.Atoi(index)
	if err != nil || strconv.Itoa(n) != index {
		return nil, nil //nolint:nilerr // not an index
	}
	err = EachElement(array, func(value []byte) error {
		if n == 0 {
			found = value
		}
		n--
		return nil
	})
	return found, err
}

// AppendCompact appends a text without the white space between its tokens. It returns an error if
// the text is not one value, or is nested deeper than 10,000, as encoding/json has it.
func AppendCompact(b, text []byte) ([]byte, error) {
	s := NewScanner(text, Limits{Depth: 10_000})
	if _, err := s.Value(); err != nil {
		return b, err
	}
	if err := s.End(); err != nil {
		return b, err
	}
	begin := 0 // of what is appended next
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			i = skipString(text, i)
		case isSpace(c):
			b = append(b, text[begin:i]...)
			i = skipSpace(text, i)
			begin = i
		default:
			i++
		}
	}
	return append(b, text[begin:]...), nil
}

// skipString returns the index after the string that begins at i in a checked text. It is much
// faster than stringEnd in a long string.
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		end, escapes := i+n, 0
		for escapes < n && b[end-1-escapes] == '\\' {
			escapes++
		}
		if i = end + 1; escapes%2 == 0 {
			return i
		}
	}
	return len(b)
}
