// Package strictjson reads untrusted JSON (RFC 8259). It refuses text that two parsers could
// read differently, and bounds the cost of reading it.
package strictjson

import (
	"cmp"
	"encoding/json"
	"errors"
)

// Limits bound a text that is read before it is verified: a value costs much more than its
// bytes cost the client that sends them. 0 means no limit.
type Limits struct {
	Depth  int // nesting
	Values int // values, objects and arrays included
}

// Unverified are the limits of unverified text.
var Unverified = Limits{Depth: 64, Values: 10_000}

// The reasons to refuse a text.
var (
	ErrSyntax    = errors.New("not JSON")
	ErrTrailing  = errors.New("json: more than one value")
	ErrDepth     = errors.New("json: nested too deep")
	ErrValues    = errors.New("json: too many values")
	ErrDuplicate = errors.New("a member occurs twice")
	ErrText      = errors.New("string that is not Unicode text")
)

// Scanner reads a JSON text in one pass and allocates nothing. Its methods return the first
// error. It does not check that strings are UTF-8.
type Scanner struct {
	text   []byte
	pos    int
	limits Limits
	values int
	depth  int
	valid  bool // checked before, so strings are skipped unchecked
	err    error
}

// NewScanner returns a scanner at the start of a text.
func NewScanner(text []byte, limits Limits) Scanner { return Scanner{text: text, limits: limits} }

// Pos returns the index of the next byte that is read.
func (s *Scanner) Pos() int { return s.pos }

// Since returns the text from a position on, up to the next byte that is read.
func (s *Scanner) Since(start int) []byte { return s.text[start:s.pos:s.pos] }

// Next skips white space and returns the byte at the position, or 0 at the end.
func (s *Scanner) Next() byte {
	if s.pos = skipSpace(s.text, s.pos); s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// End returns an error unless only white space is left.
func (s *Scanner) End() error {
	if s.Next(); s.pos < len(s.text) {
		return ErrTrailing
	}
	return nil
}

// Value skips one value and returns its text.
func (s *Scanner) Value() (raw json.RawMessage, err error) {
	s.Next()
	start := s.pos
	err = s.moveTo(s.skipValue(start))
	return s.Since(start), err
}

// Object reads an object. It calls read with the text of each name, quotes included; read must
// read the value that follows.
func (s *Scanner) Object(read func(name []byte) error) error {
	s.Next()
	return s.moveTo(s.object(s.pos, read, nil))
}

// Array reads an array. It calls read at each element; read must read it.
func (s *Scanner) Array(read func() error) error {
	s.Next()
	return s.moveTo(s.array(s.pos, read))
}

// moveTo sets the position to where a read ended. A negative end is an error.
func (s *Scanner) moveTo(end int) error {
	if end < 0 {
		return cmp.Or(s.err, ErrSyntax)
	}
	s.pos = end
	return nil
}

// The methods below return the index after what they read at i, or -1 after an error. It is
// ErrSyntax unless err is set. They do not skip white space first.

// malformed is returned after an error.
const malformed = -1

func (s *Scanner) skipValue(i int) int {
	switch {
	case s.is(i, '{'):
		return s.object(i, nil, nil)
	case s.is(i, '['):
		return s.array(i, nil)
	case !s.count():
		return malformed
	case s.is(i, '"'):
		return s.stringEnd(i)
	}
	return scalarEnd(s.text, i)
}

// object reads an object. It skips the values if read is nil, and notes its members in doc unless
// that is nil.
func (s *Scanner) object(i int, read func(name []byte) error, doc *Document) int {
	if i = s.enter(i, '{'); s.is(i, '}') {
		return s.leave(i, '}')
	}
	for s.is(i, '"') {
		name, nameEnd := i, s.stringEnd(i)
		if nameEnd < 0 {
			return malformed
		}
		if i = skipSpace(s.text, nameEnd); !s.is(i, ':') {
			return malformed
		}
		value := skipSpace(s.text, i+1)
		if read == nil {
			i = s.skipValue(value)
		} else {
			s.pos = value
			i = s.after(read(s.text[name:nameEnd:nameEnd]))
		}
		if i < 0 {
			return malformed
		}
		if doc != nil {
			doc.add(member{uint32(name), uint32(nameEnd), uint32(value), uint32(i)})
		}
		if i = skipSpace(s.text, i); !s.is(i, ',') {
			return s.leave(i, '}')
		}
		i = skipSpace(s.text, i+1)
	}
	return malformed
}

// array reads an array. It skips the elements if read is nil.
func (s *Scanner) array(i int, read func() error) int {
	if i = s.enter(i, '['); s.is(i, ']') {
		return s.leave(i, ']')
	}
	for i >= 0 {
		if read == nil {
			i = s.skipValue(i)
		} else {
			s.pos = i
			i = s.after(read())
		}
		if i < 0 {
			return malformed
		}
		if i = skipSpace(s.text, i); !s.is(i, ',') {
			return s.leave(i, ']')
		}
		i = skipSpace(s.text, i+1)
	}
	return malformed
}

// after returns the position after a function of the caller has read a value.
func (s *Scanner) after(err error) int {
	if s.err = err; err != nil {
		return malformed
	}
	return s.pos
}

// enter reads the start of an object or array and the white space after it.
func (s *Scanner) enter(i int, open byte) int {
	if !s.is(i, open) || !s.count() {
		return malformed
	}
	if s.depth++; s.depth > s.limits.Depth && s.limits.Depth > 0 {
		s.err = ErrDepth
		return malformed
	}
	return skipSpace(s.text, i+1)
}

// leave reads the end of an object or array.
func (s *Scanner) leave(i int, end byte) int {
	if !s.is(i, end) {
		return malformed
	}
	s.depth--
	return i + 1
}

func (s *Scanner) stringEnd(i int) int {
	if s.valid {
		return skipString(s.text, i)
	}
	return stringEnd(s.text, i)
}

func (s *Scanner) is(i int, c byte) bool { return uint(i) < uint(len(s.text)) && s.text[i] == c }

// count counts a value and reports whether it is within the limit.
func (s *Scanner) count() bool {
	if s.values++; s.values > s.limits.Values && s.limits.Values > 0 {
		s.err = ErrValues
		return false
	}
	return true
}
