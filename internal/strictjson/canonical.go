package strictjson

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds on canonical JSON.
const (
	maxCanonicalMembers = 1_000   // in all objects
	maxEscapedNames     = 4 << 10 // bytes of the names that hold escapes
)

// Canonical returns the canonical form (RFC 8785) of a JSON object. It refuses text that two
// parsers could read differently, because a signature over the canonical form must be one over
// what a handler sees: members that occur twice, text that is not UTF-8, unpaired surrogates,
// numbers of 2^53 and above, and numbers that are not written as in ECMAScript.
//
// It runs on unverified bodies: it reads the text once and refuses more than 10,000 values or
// 1,000 members.
func Canonical(body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("json: not UTF-8")
	}
	c := &canonicalizer{
		Scanner: NewScanner(body, Unverified),
		out:     make([]byte, 0, len(body)), // no canonical form is longer than the text
		members: make([]canonicalMember, 0, min(maxCanonicalMembers, bytes.Count(body, []byte(":")))),
	}
	if c.Next() != '{' {
		return nil, errors.New("json: not an object")
	}
	if err := c.write(); err != nil {
		return nil, err
	}
	if err := c.End(); err != nil {
		return nil, err
	}
	return c.out, nil
}

type canonicalizer struct {
	Scanner
	out     []byte
	members []canonicalMember // of the open objects
	written int               // members of all objects
	names   []byte            // that hold escapes, decoded
	moved   []byte            // scratch space to sort the members of an object
}

// canonicalMember is a member in out.
type canonicalMember struct {
	name     []byte // decoded
	prefix   uint64 // of the name, in the order of names
	from, to int    // in out, without a comma
}

// write reads one value and writes it.
func (c *canonicalizer) write() error {
	switch first := c.Next(); first {
	case '{':
		return c.writeObject()
	case '[':
		c.out = append(c.out, '[')
		start := len(c.out)
		err := c.Array(func() error {
			err := c.write()
			c.out = append(c.out, ',')
			return err
		})
		c.close(start, ']')
		return err
	default:
		text, err := c.Value()
		if err != nil {
			return err
		}
		if first == '"' {
			return c.writeString(text)
		}
		if (first == '-' || isDigit(first)) && !isCanonicalNumber(text) {
			return errors.New("json: a number of 2^53 or above, or not written as in ECMAScript")
		}
		c.out = append(c.out, text...)
		return nil
	}
}

// close ends an object or array, replacing the last comma.
func (c *canonicalizer) close(start int, end byte) {
	if len(c.out) > start {
		c.out = c.out[:len(c.out)-1]
	}
	c.out = append(c.out, end)
}

func (c *canonicalizer) writeObject() error {
	c.out = append(c.out, '{')
	start, first, sorted := len(c.out), len(c.members), true
	err := c.Object(func(name []byte) error {
		if c.written++; c.written > maxCanonicalMembers {
			return errors.New("json: too many members")
		}
		m := canonicalMember{from: len(c.out)}
		if err := c.writeString(name); err != nil {
			return err
		}
		if m.name = name[1 : len(name)-1]; bytes.IndexByte(m.name, '\\') >= 0 {
			before := len(c.names)
			if c.names, _ = AppendString(c.names, name); len(c.names) > maxEscapedNames {
				return errors.New("json: too many names with escapes")
			}
			m.name = c.names[before:len(c.names):len(c.names)]
		}
		m.prefix = namePrefix(m.name)
		c.out = append(c.out, ':')
		if err := c.write(); err != nil {
			return err
		}
		m.to = len(c.out)
		c.out = append(c.out, ',')
		sorted = sorted && (len(c.members) == first || compareMembers(c.members[len(c.members)-1], m) < 0)
		c.members = append(c.members, m)
		return nil
	})
	if err == nil && !sorted {
		err = c.sort(start, c.members[first:])
	}
	c.members = c.members[:first]
	c.close(start, '}')
	return err
}

// sort sorts the members of the object that was written last.
func (c *canonicalizer) sort(start int, members []canonicalMember) error {
	slices.SortFunc(members, compareMembers)
	if c.moved == nil {
		c.moved = make([]byte, 0, len(c.text))
	}
	c.moved = append(c.moved[:0], c.out[start:]...)
	c.out = c.out[:start]
	for i, m := range members {
		if i > 0 && compareMembers(members[i-1], m) == 0 {
			return ErrDuplicate
		}
		c.out = append(append(c.out, c.moved[m.from-start:m.to-start]...), ',')
	}
	return nil
}

// writeString writes a string (RFC 8785 section 3.2.2.2), given its text with the quotes.
func (c *canonicalizer) writeString(text []byte) error {
	if bytes.IndexByte(text, '\\') < 0 {
		c.out = append(c.out, text...)
		return nil
	}
	c.out = append(c.out, '"')
	start := len(c.out)
	var whole bool
	if c.out, whole = AppendString(c.out, text); !whole {
		return errors.New("json: half of a surrogate pair")
	}
	c.escape(start)
	c.out = append(c.out, '"')
	return nil
}

// escape escapes the output from start on. The result is never longer than the text it came from.
func (c *canonicalizer) escape(start int) {
	special := func(b byte) bool { return b < ' ' || b == '"' || b == '\\' }
	i := slices.IndexFunc(c.out[start:], special)
	if i < 0 {
		return
	}
	rest := bytes.Clone(c.out[start+i:])
	c.out = c.out[:start+i]
	for _, b := range rest {
		if !special(b) {
			c.out = append(c.out, b)
		} else if i := strings.IndexByte("\"\\\b\f\n\r\t", b); i >= 0 {
			c.out = append(c.out, '\\', `"\bfnrt`[i])
		} else {
			const digits = "0123456789abcdef"
			c.out = append(c.out, '\\', 'u', '0', '0', digits[b>>4], digits[b&15])
		}
	}
}

// Names are sorted by their UTF-16 code units (RFC 8785 section 3.2.3). That is the order of
// their UTF-8 bytes, except that the characters U+E000 to U+FFFF (first byte 0xEE or 0xEF) come
// last. No byte of UTF-8 is above 0xF4.

// nameOrder returns the rank of a byte of a name.
func nameOrder(b byte) byte {
	if b == 0xee || b == 0xef {
		return b + 0x10
	}
	return b
}

// namePrefix returns the first eight bytes of a name as a number of the same order. Padding
// equals only U+0000, which compareMembers distinguishes.
func namePrefix(name []byte) uint64 {
	var b [8]byte
	for i := range min(len(b), len(name)) {
		b[i] = nameOrder(name[i])
	}
	return binary.BigEndian.Uint64(b[:])
}

func compareMembers(a, b canonicalMember) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	x, y := a.name, b.name
	n := min(len(x), len(y))
	i := 0
	for i+16 <= n && string(x[i:i+16]) == string(y[i:i+16]) {
		i += 16
	}
	for ; i < n; i++ {
		if x[i] != y[i] {
			return cmp.Compare(nameOrder(x[i]), nameOrder(y[i]))
		}
	}
	return cmp.Compare(len(x), len(y))
}
