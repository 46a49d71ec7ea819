package record

import (
	"encoding/binary"
	"time"
)

// fields encodes or decodes the optional fields that end the values of version 2: number, length
// and content of each. A value lists its fields once, in ascending order of their numbers, for
// both directions. A number is never reused for another field. A field with the zero value is not
// stored, and a value written before a field existed decodes to its zero value.
type fields struct {
	out     []byte   // encoded fields, if in is nil
	in      *decoder // decoded value
	number  uint64   // of the field that was read and is not decoded yet, 0 for none
	content decoder  // of that field, or the one before
}

func (f *fields) append(number uint64, content []byte) {
	if len(content) > 0 {
		f.out = binary.AppendUvarint(f.out, number)
		f.out = binary.AppendUvarint(f.out, uint64(len(content)))
		f.out = append(f.out, content...)
	}
}

// find returns the content of a field, nil if it is not stored.
func (f *fields) find(number uint64) *decoder {
	if f.number == 0 && f.in.s != "" && f.content.whole() {
		f.number = f.in.uvarint()
		if f.content = (decoder{s: f.in.str()}); f.content.s == "" {
			f.in.bad = true
		}
	}
	if f.number != number {
		return nil
	}
	f.number = 0
	return &f.content
}

// end checks that every field of a decoded value was known and in order.
func (f *fields) end() {
	if f.number != 0 || f.in.s != "" || !f.content.whole() {
		f.in.bad = true
	}
}

func uintField[T ~int | ~int64 | ~uint64](f *fields, number uint64, v *T) {
	if f.in == nil {
		if *v != 0 {
			var room [binary.MaxVarintLen64]byte
			f.append(number, binary.AppendUvarint(room[:0], uint64(*v)))
		}
		return
	}
	*v = 0
	if c := f.find(number); c != nil {
		*v = T(c.uvarint())
	}
}

func (f *fields) bool(number uint64, v *bool) {
	n := uint64(0)
	if *v {
		n = 1
	}
	uintField(f, number, &n)
	*v = n == 1
}

func (f *fields) time(number uint64, v *time.Time) {
	if f.in == nil {
		if !v.IsZero() {
			var room [binary.MaxVarintLen64]byte
			f.append(number, appendTime(room[:0], *v))
		}
		return
	}
	*v = time.Time{}
	if c := f.find(number); c != nil {
		*v = c.time()
	}
}

func (f *fields) string(number uint64, v *string) {
	if f.in == nil {
		if *v != "" {
			f.out = appendString(binary.AppendUvarint(f.out, number), *v)
		}
		return
	}
	*v = ""
	if c := f.find(number); c != nil {
		*v = c.rest()
	}
}

// list appends the encoded elements of a list, or returns the decoder of its elements.
func (f *fields) list(number uint64, elements []byte) *decoder {
	if f.in != nil {
		return f.find(number)
	}
	f.append(number, elements)
	return nil
}
