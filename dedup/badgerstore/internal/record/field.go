package record

import (
	"encoding/binary"
	"time"

	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

// fields encodes or decodes the optional fields that end the values of version 2: number, length
// and content of each. A value lists its fields once, in ascending order of their numbers, for
// both directions. A number is never reused for another field. A field with the zero value is not
// stored, and a value written before a field existed decodes to its zero value.
type fields struct {
	out     []byte        // encoded fields, if in is nil
	in      *wire.Decoder // decoded value
	number  uint64        // of the field that was read and is not decoded yet, 0 for none
	content wire.Decoder  // of that field, or the one before
}

func (f *fields) append(number uint64, content []byte) {
	if len(content) > 0 {
		f.out = binary.AppendUvarint(f.out, number)
		f.out = binary.AppendUvarint(f.out, uint64(len(content)))
		f.out = append(f.out, content...)
	}
}

// find returns the content of a field, nil if it is not stored.
func (f *fields) find(number uint64) *wire.Decoder {
	if f.number == 0 && f.in.S != "" && f.content.Whole() {
		f.number = f.in.Uvarint()
		if f.content = (wire.Decoder{S: f.in.Text()}); f.content.S == "" {
			f.in.Bad = true
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
	if f.number != 0 || f.in.S != "" || !f.content.Whole() {
		f.in.Bad = true
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
		*v = T(c.Uvarint())
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
			f.append(number, wire.AppendTime(room[:0], *v))
		}
		return
	}
	*v = time.Time{}
	if c := f.find(number); c != nil {
		*v = c.Time()
	}
}

func (f *fields) string(number uint64, v *string) {
	if f.in == nil {
		if *v != "" {
			f.out = wire.AppendString(binary.AppendUvarint(f.out, number), *v)
		}
		return
	}
	*v = ""
	if c := f.find(number); c != nil {
		*v = c.Rest()
	}
}

// list appends the encoded elements of a list, or returns the decoder of its elements.
func (f *fields) list(number uint64, elements []byte) *wire.Decoder {
	if f.in != nil {
		return f.find(number)
	}
	f.append(number, elements)
	return nil
}
