package strictjson

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Bounds on canonical JSON.
const (
	maxCanonicalMembers = 1_000   // in all objects
	maxEscapedNames     = 4 << 10 // bytes of the names that hold escapes
	maxNumber           = 25      // characters: no number that ECMAScript prints is longer
)

// Canonical returns the canonical form (RFC 8785) of a JSON object. It refuses what two parsers
// could read in two ways, so that the signature over the canonical form is one over what a
// handler will see: members that occur twice, text that is not UTF-8, halves of surrogate
// pairs, numbers of 2^53 and above, and numbers that are not spelt as ECMAScript spells them.
//
// It runs before anything is verified: it reads the body once, and refuses more than 10,000
// values or 1,000 members.
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

// canonicalizer writes the canonical form while it reads.
type canonicalizer struct {
	Scanner
	out     []byte
	members []canonicalMember // of the objects that are open
	written int               // members of all objects
	names   []byte            // those that hold escapes, decoded
	moved   []byte            // an object while its members are put in their order
}

// canonicalMember is a member that was written to out.
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
	case '"':
		start := c.pos
		if err := c.scalar(first); err != nil {
			return err
		}
		return c.writeString(c.Since(start))
	default:
		start := c.pos
		if err := c.scalar(first); err != nil {
			return err
		}
		text := c.Since(start)
		if (first == '-' || isDigit(first)) && !isCanonicalNumber(text) {
			return errors.New("json: a number of 2^53 or above, or one that is not spelt as ECMAScript spells it")
		}
		c.out = append(c.out, text...)
		return nil
	}
}

// close puts the end of an object or array in the place of its last comma, or behind its beginning.
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

// sort puts the members of the object that was written last in their order.
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

// writeString writes a string, given its text with the quotes, as RFC 8785 section 3.2.2.2
// spells it.
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

// escape escapes what was written from start on, as far as it must be. What it writes is never
// longer than the text it came from.
func (c *canonicalizer) escape(start int) {
	plain := func(b byte) bool { return b >= ' ' && b != '"' && b != '\\' }
	i := start
	for i < len(c.out) && plain(c.out[i]) {
		i++
	}
	if i == len(c.out) {
		return
	}
	rest := append([]byte(nil), c.out[i:]...)
	c.out = c.out[:i]
	for _, b := range rest {
		if plain(b) {
			c.out = append(c.out, b)
			continue
		}
		switch b {
		case '"', '\\':
			c.out = append(c.out, '\\', b)
		case '\b':
			c.out = append(c.out, `\b`...)
		case '\f':
			c.out = append(c.out, `\f`...)
		case '\n':
			c.out = append(c.out, `\n`...)
		case '\r':
			c.out = append(c.out, `\r`...)
		case '\t':
			c.out = append(c.out, `\t`...)
		default:
			const digits = "0123456789abcdef"
			c.out = append(c.out, '\\', 'u', '0', '0', digits[b>>4], digits[b&15])
		}
	}
}

// Names are in the order of their UTF-16 code units (RFC 8785 section 3.2.3). In UTF-8 that is
// the order of the bytes, but for the characters from U+E000 to U+FFFF, which begin with 0xEE
// and 0xEF and come last: no other byte of UTF-8 is above 0xF4.

// nameOrder returns where a byte of a name stands among the others.
func nameOrder(b byte) byte {
	if b == 0xee || b == 0xef {
		return b + 0x10
	}
	return b
}

// namePrefix returns the first eight bytes of a name as a number that has their order. No byte
// of a name is 0 but for the character U+0000, whose names the whole comparison tells apart.
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

// isCanonicalNumber reports whether a JSON number is below 2^53 and spelt as ECMAScript prints
// it (RFC 8785 section 3.2.2.3), so that it survives the way through a program unchanged. A
// double keeps any decimal number of 15 digits, so for these the spelling alone decides.
func isCanonicalNumber(text []byte) bool {
	if len(text) <= 15 && !slices.ContainsFunc(text, func(b byte) bool { return !isDigit(b) }) {
		return true // an integer, and JSON has no zero in front of one
	}
	if len(text) > maxNumber || bytes.IndexByte(text, 'E') >= 0 {
		return false
	}
	n := splitNumber(text)
	switch {
	case n.digits > 15 || n.exponent > 290:
		return printsAs(text)
	case n.digits == 0:
		return string(text) == "0"
	case len(n.fraction) > 0 && n.fraction[len(n.fraction)-1] == '0':
		return false
	case n.exponent == 0:
		return n.whole[0] != '0' || n.zeros <= 5
	}
	return n.scientific && n.exponent >= 7 && len(n.whole) == 1 && n.whole[0] != '0'
}

// decimal is a JSON number in its parts.
type decimal struct {
	whole, fraction []byte
	digits          int  // from the first that is not zero on
	zeros           int  // after the point, where whole is 0
	exponent        int  // without its sign; 0 for none
	scientific      bool // the exponent is spelt "e-" and without a zero in front
}

func splitNumber(text []byte) decimal {
	n := decimal{whole: bytes.TrimPrefix(text, []byte("-"))}
	if i := bytes.IndexByte(n.whole, 'e'); i >= 0 {
		exponent := n.whole[i+1:]
		n.whole, n.exponent = n.whole[:i], 1
		if n.scientific = len(exponent) > 1 && exponent[0] == '-' && exponent[1] != '0'; n.scientific {
			n.exponent, _ = strconv.Atoi(string(exponent[1:]))
		}
	}
	if i := bytes.IndexByte(n.whole, '.'); i >= 0 {
		n.whole, n.fraction = n.whole[:i], n.whole[i+1:]
	}
	if n.whole[0] != '0' {
		n.digits = len(n.whole) + len(n.fraction)
		return n
	}
	for n.zeros < len(n.fraction) && n.fraction[n.zeros] == '0' {
		n.zeros++
	}
	n.digits = len(n.fraction) - n.zeros
	return n
}

// printsAs reports whether ECMAScript prints the number that the text means as that text
// (ECMA-262 section 6.1.6.1.20), for numbers below 2^53.
func printsAs(text []byte) bool {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.Abs(f) >= 1<<53 {
		return false
	}
	var buf [32]byte
	if f == 0 {
		return string(text) == "0"
	}
	if math.Abs(f) >= 1e-6 {
		return string(strconv.AppendFloat(buf[:0], f, 'f', -1, 64)) == string(text)
	}
	printed := strconv.AppendFloat(buf[:0], f, 'e', -1, 64) // which has two digits in the exponent at least
	if n := len(printed); printed[n-2] == '0' && printed[n-3] == '-' {
		printed = append(printed[:n-2], printed[n-1])
	}
	return string(printed) == string(text)
}
