package verify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds on JSON that is read before it is verified. Each value costs much more than the bytes that an unauthenticated
// client needs for it.
const (
	maxDepth  = 64     // nesting
	maxValues = 10_000 // values in one text, objects and arrays included, where the reader sets no other limit
)

var (
	errJSON       = errors.New("json: malformed")
	errJSONEnd    = errors.New("json: more than one value")
	errJSONDepth  = fmt.Errorf("json: nested more than %d deep", maxDepth)
	errJSONValues = errors.New("json: too many values")
)

// jsonScanner walks over a JSON text (RFC 8259) in one pass. It allocates nothing, and its methods return an error at the
// first mistake. Octets of strings are not checked to be UTF-8.
type jsonScanner struct {
	text   []byte
	i      int
	most   int // values that may be read; 0 is maxValues
	values int // that were read
	depth  int
}

// next skips white space and returns the byte at the position, or 0 at the end.
func (s *jsonScanner) next() byte {
	for ; s.i < len(s.text); s.i++ {
		if c := s.text[s.i]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

// skip goes over the byte c, after white space, and reports whether it is there.
func (s *jsonScanner) skip(c byte) bool {
	if s.next() != c {
		return false
	}
	s.i++
	return true
}

// end demands that nothing but white space follows.
func (s *jsonScanner) end() error {
	if s.next(); s.i < len(s.text) {
		return errJSONEnd
	}
	return nil
}

// value skips one value and returns its text.
func (s *jsonScanner) value() (json.RawMessage, error) {
	c := s.next()
	start := s.i
	var err error
	switch c {
	case '{':
		err = s.object(func([]byte) error { _, err := s.value(); return err })
	case '[':
		err = s.array(func() error { _, err := s.value(); return err })
	default:
		err = s.scalar(c)
	}
	return s.text[start:s.i:s.i], err
}

// count notes one more value.
func (s *jsonScanner) count() error {
	if s.values++; s.values > cmp.Or(s.most, maxValues) {
		return errJSONValues
	}
	return nil
}

// object reads an object. For each member it calls read with the text of the name, quotes included; read must read the
// value, which is then at the position.
func (s *jsonScanner) object(read func(name []byte) error) error {
	return s.nested('{', '}', func() error {
		if s.next() != '"' {
			return errJSON
		}
		start := s.i
		if err := s.str(); err != nil {
			return err
		}
		name := s.text[start:s.i:s.i]
		if !s.skip(':') {
			return errJSON
		}
		return read(name)
	})
}

// array reads an array. It calls read for each item, which must read the value at the position.
func (s *jsonScanner) array(read func() error) error { return s.nested('[', ']', read) }

func (s *jsonScanner) nested(open, end byte, element func() error) error {
	if !s.skip(open) {
		return errJSON
	}
	if err := s.count(); err != nil {
		return err
	}
	if s.depth++; s.depth > maxDepth {
		return errJSONDepth
	}
	defer func() { s.depth-- }()
	if s.skip(end) {
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.skip(end) {
			return nil
		}
		if !s.skip(',') {
			return errJSON
		}
	}
}

// scalar skips a value that is no object and no array and begins with c.
func (s *jsonScanner) scalar(c byte) error {
	if err := s.count(); err != nil {
		return err
	}
	switch c {
	case '"':
		return s.str()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *jsonScanner) literal(word string) error {
	if !bytes.HasPrefix(s.text[s.i:], []byte(word)) {
		return errJSON
	}
	s.i += len(word)
	return nil
}

// str skips a string.
func (s *jsonScanner) str() error {
	for s.i++; s.i < len(s.text); s.i++ {
		switch c := s.text[s.i]; {
		case c == '"':
			s.i++
			return nil
		case c < ' ':
			return errJSON
		case c == '\\':
			if s.i++; s.i == len(s.text) {
				return errJSON
			}
			if s.text[s.i] == 'u' {
				if _, ok := hex4(s.text[s.i+1:]); !ok {
					return errJSON
				}
				s.i += 4
			} else if unescape(s.text[s.i]) == 0 {
				return errJSON
			}
		}
	}
	return errJSON
}

// number skips a number.
func (s *jsonScanner) number() error {
	if s.i < len(s.text) && s.text[s.i] == '-' {
		s.i++
	}
	first := s.i
	if whole := s.digits(); whole == 0 || whole > 1 && s.text[first] == '0' {
		return errJSON
	}
	if s.i < len(s.text) && s.text[s.i] == '.' {
		s.i++
		if s.digits() == 0 {
			return errJSON
		}
	}
	if s.i < len(s.text) && s.text[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.text) && (s.text[s.i] == '+' || s.text[s.i] == '-') {
			s.i++
		}
		if s.digits() == 0 {
			return errJSON
		}
	}
	return nil
}

func (s *jsonScanner) digits() (n int) {
	for ; s.i < len(s.text) && isDigit(s.text[s.i]); s.i++ {
		n++
	}
	return n
}

// unescape returns the character for the letter of a short escape, or 0.
func unescape(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// hex4 reads the four digits of \u.
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

// appendString appends what a string means, given its text with the quotes. Half of a surrogate pair becomes U+FFFD, as
// encoding/json has it, and whole is then false.
func appendString(b, text []byte) (out []byte, whole bool) {
	whole = true
	for text = text[1 : len(text)-1]; ; {
		n := bytes.IndexByte(text, '\\')
		if n < 0 {
			return append(b, text...), whole
		}
		b = append(b, text[:n]...)
		if text[n+1] != 'u' {
			b = append(b, unescape(text[n+1]))
			text = text[n+2:]
			continue
		}
		r, _ := hex4(text[n+2:])
		text = text[n+6:]
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if bytes.HasPrefix(text, []byte(`\u`)) {
				low, _ = hex4(text[2:])
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				whole = false
			} else {
				text = text[6:]
			}
		}
		b = utf8.AppendRune(b, r)
	}
}
