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
	s := NewScanner(text, Limits{Depth: depth})
	end := malformed
	switch s.Next() {
	case '{':
		end = s.object(0, nil, d)
	case '[':
		end = s.array(0, nil)
	}
	if err := s.moveTo(end); err != nil {
		return err
	}
	if s.pos != len(text) {
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
