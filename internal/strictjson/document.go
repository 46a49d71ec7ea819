package strictjson

import (
	"bytes"
	"math"
)

// Document is an object or array of valid JSON. Reading it also notes where its own members are,
// so that most paths need no second pass. The zero value is an empty text.
type Document struct {
	// Text is the JSON without the white space around it.
	Text    []byte
	count   int // of members; more than indexed if there are more
	members [indexed]member
}

// indexed is how many members of a document are noted. Larger documents are searched.
const indexed = 24

// member is where the text of a name, quotes included, and of its value are.
type member struct{ name, nameEnd, value, valueEnd uint32 }

// Read validates an object or array. Any other text is ErrSyntax, even a lone scalar, which holds
// no path. Text nested deeper than depth is ErrDepth.
func (d *Document) Read(text []byte, depth int) error {
	d.Text, d.count = nil, 0
	text = bytes.Trim(text, " \t\r\n")
	c := checker{text: text, limit: depth, doc: d}
	end := malformed
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		end = c.value(0, 0)
	}
	switch {
	case end == tooDeep:
		return ErrDepth
	case end != len(text):
		return ErrSyntax
	}
	d.Text = text
	return nil
}

// At returns the text of the value at a path, see [At].
func (d *Document) At(path []string) (raw []byte, err error) {
	if len(path) == 0 || d.Text[0] != '{' || d.count > indexed || len(d.Text) > math.MaxUint32 {
		return At(d.Text, path)
	}
	for _, m := range d.members[:d.count] {
		if !means(d.Text[m.name:m.nameEnd], path[0]) {
			continue
		}
		if raw != nil {
			return nil, ErrDuplicate
		}
		raw = d.Text[m.value:m.valueEnd:m.valueEnd]
	}
	if raw == nil {
		return nil, nil
	}
	return At(raw, path[1:])
}

func (d *Document) add(m member) {
	if d.count < indexed {
		d.members[d.count] = m
	}
	d.count++
}

// checker validates JSON. Its methods return the index after what they read at i, or a negative
// result.
type checker struct {
	text  []byte
	limit int // on the nesting
	doc   *Document
}

const (
	malformed = -1
	tooDeep   = -2
)

func (c *checker) value(i, depth int) int {
	if i < len(c.text) {
		switch c.text[i] {
		case '{':
			return c.object(i, depth+1)
		case '[':
			return c.array(i, depth+1)
		}
	}
	return scalarEnd(c.text, i)
}

func (c *checker) object(i, depth int) int {
	if depth > c.limit {
		return tooDeep
	}
	if i = skipSpace(c.text, i+1); c.is(i, '}') {
		return i + 1
	}
	for ; c.is(i, '"'); i = skipSpace(c.text, i+1) {
		name, nameEnd := i, stringEnd(c.text, i)
		if nameEnd < 0 {
			return malformed
		}
		if i = skipSpace(c.text, nameEnd); !c.is(i, ':') {
			return malformed
		}
		value := skipSpace(c.text, i+1)
		if i = c.value(value, depth); i < 0 {
			return i
		}
		if depth == 1 {
			c.doc.add(member{uint32(name), uint32(nameEnd), uint32(value), uint32(i)})
		}
		if i = skipSpace(c.text, i); !c.is(i, ',') {
			return c.end(i, '}')
		}
	}
	return malformed
}

func (c *checker) array(i, depth int) int {
	if depth > c.limit {
		return tooDeep
	}
	if i = skipSpace(c.text, i+1); c.is(i, ']') {
		return i + 1
	}
	for ; ; i = skipSpace(c.text, i+1) {
		if i = c.value(i, depth); i < 0 {
			return i
		}
		if i = skipSpace(c.text, i); !c.is(i, ',') {
			return c.end(i, ']')
		}
	}
}

func (c *checker) is(i int, b byte) bool { return i < len(c.text) && c.text[i] == b }

func (c *checker) end(i int, b byte) int {
	if c.is(i, b) {
		return i + 1
	}
	return malformed
}
