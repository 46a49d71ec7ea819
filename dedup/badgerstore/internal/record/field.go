package record

import (
	"encoding/binary"
	"time"
)

// Optional fields end the values of version 2: number, length and content of each, in ascending
// order of their numbers. A number is never reused for another field. A field with the zero
// value is not stored, and a value written before a field existed decodes to its zero value.

func appendField(b []byte, number uint64, content []byte) []byte {
	if len(content) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, number)
	b = binary.AppendUvarint(b, uint64(len(content)))
	return append(b, content...)
}

func appendUintField(b []byte, number, n uint64) []byte {
	if n == 0 {
		return b
	}
	var room [binary.MaxVarintLen64]byte
	return appendField(b, number, binary.AppendUvarint(room[:0], n))
}

func appendBoolField(b []byte, number uint64, set bool) []byte {
	if !set {
		return b
	}
	return appendUintField(b, number, 1)
}

func appendTimeField(b []byte, number uint64, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	var room [binary.MaxVarintLen64]byte
	return appendField(b, number, appendTime(room[:0], t))
}

func appendStringField(b []byte, number uint64, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(binary.AppendUvarint(b, number), s)
}

// fields iterates over the optional fields at the end of a value. The caller decodes the
// content of each field that it knows. Any other field is an error: a program that knows more
// fields of the same version has written it.
type fields struct {
	from    *decoder
	number  uint64
	content decoder
}

func (d *decoder) fields() fields { return fields{from: d} }

// next moves to the next field.
func (f *fields) next() bool {
	d := f.from
	if !f.content.whole() { // of the field before
		d.bad = true
	}
	if d.bad || d.s == "" {
		return false
	}
	number := d.uvarint()
	f.content = decoder{s: d.str()}
	if number <= f.number || f.content.s == "" {
		d.bad = true
	}
	f.number = number
	return !d.bad
}
