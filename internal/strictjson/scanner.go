// Package strictjson reads untrusted JSON (RFC 8259). It refuses text that two parsers could
// read differently, and bounds the cost of reading it.
package strictjson

import (
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
	valid  bool // checked before, so values are skipped unchecked
}

// NewScanner returns a scanner at the start of a text.
func NewScanner(text []byte, limits Limits) Scanner { return Scanner{text: text, limits: limits} }

// Pos returns the index of the next byte that is read.
func (s *Scanner) Pos() int { return s.pos }

// Since returns the text from a position on, up to the next byte that is read.
func (s *Scanner) Since(start int) []byte { return s.text[start:s.pos:s.pos] }

// Next skips white space and returns the byte at the position, or 0 at the end.
func (s *Scanner) Next() byte {
	for ; s.pos < len(s.text); s.pos++ {
		if c := s.text[s.pos]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
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
	c := s.Next()
	start := s.pos
	switch {
	case s.valid:
		s.skipValid()
	case c == '{':
		err = s.Object(s.skipMember)
	case c == '[':
		err = s.Array(s.skipValue)
	default:
		err = s.scalar()
	}
	return s.Since(start), err
}

func (s *Scanner) skipMember([]byte) error { return s.skipValue() }
func (s *Scanner) skipValue() error        { _, err := s.Value(); return err }

// Object reads an object. It calls read with the text of each name, quotes included; read must
// read the value that follows.
func (s *Scanner) Object(read func(name []byte) error) error {
	more, err := s.enter('{', '}')
	for more && err == nil {
		var name []byte
		if name, err = s.name(); err == nil {
			err = read(name)
		}
		if err == nil {
			more, err = s.comma('}')
		}
	}
	return err
}

// Array reads an array. It calls read at each element; read must read it.
func (s *Scanner) Array(read func() error) error {
	more, err := s.enter('[', ']')
	for more && err == nil {
		if err = read(); err == nil {
			more, err = s.comma(']')
		}
	}
	return err
}

// enter reads the start of an object or array and reports whether an element follows.
func (s *Scanner) enter(open, end byte) (more bool, err error) {
	if !s.skip(open) {
		return false, ErrSyntax
	}
	if err := s.count(); err != nil {
		return false, err
	}
	if s.depth++; s.depth > s.limits.Depth && s.limits.Depth > 0 {
		return false, ErrDepth
	}
	return !s.leave(end), nil
}

// comma reads the end of an object or array, or a comma before another element.
func (s *Scanner) comma(end byte) (more bool, err error) {
	if s.leave(end) {
		return false, nil
	}
	if !s.skip(',') {
		return false, ErrSyntax
	}
	return true, nil
}

func (s *Scanner) leave(end byte) bool {
	if !s.skip(end) {
		return false
	}
	s.depth--
	return true
}

// skip skips white space and then c, and reports whether c was there.
func (s *Scanner) skip(c byte) bool {
	if s.Next() != c {
		return false
	}
	s.pos++
	return true
}

func (s *Scanner) count() error {
	if s.values++; s.values > s.limits.Values && s.limits.Values > 0 {
		return ErrValues
	}
	return nil
}

// name reads the name of a member and the colon.
func (s *Scanner) name() ([]byte, error) {
	if s.Next() != '"' {
		return nil, ErrSyntax
	}
	start := s.pos
	if err := s.str(); err != nil {
		return nil, err
	}
	name := s.Since(start)
	if !s.skip(':') {
		return nil, ErrSyntax
	}
	return name, nil
}

// scalar skips a value other than an object or array.
func (s *Scanner) scalar() error {
	if err := s.count(); err != nil {
		return err
	}
	end := scalarEnd(s.text, s.pos)
	if end < 0 {
		return ErrSyntax
	}
	s.pos = end
	return nil
}

func (s *Scanner) str() error {
	if s.valid {
		s.pos = skipString(s.text, s.pos)
		return nil
	}
	end := stringEnd(s.text, s.pos)
	if end < 0 {
		return ErrSyntax
	}
	s.pos = end
	return nil
}
