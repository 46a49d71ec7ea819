package badgerstore

import (
	"encoding/binary"
	"fmt"
	"time"
)

// field is an optional part of a stored value of version 2: its number and the variable that it is read into and
// written from, a pointer to one of the types that appendTo knows. A number is never given to another field. A field
// with the zero value is not stored, so a value that was written before the field existed reads as zero.
type field struct {
	number uint64
	of     any
}

// content is a variable of another type that knows how it is stored: as nothing when it is zero.
type content interface {
	appendTo(b []byte) []byte
	readFrom(d *decoder)
}

// appendFields writes number, length and content of each field that is not zero. The fields come in rising order of
// their numbers.
func appendFields(b []byte, fields ...field) []byte {
	var room [64]byte
	for _, f := range fields {
		content := f.appendTo(room[:0])
		if len(content) == 0 {
			continue
		}
		b = binary.AppendUvarint(b, f.number)
		b = append(binary.AppendUvarint(b, uint64(len(content))), content...)
	}
	return b
}

// appendTo writes the content of the field, nothing for the zero value.
func (f field) appendTo(b []byte) []byte {
	switch v := f.of.(type) {
	case *uint64:
		return appendNumber(b, *v)
	case *int:
		return appendNumber(b, uint64(*v)) //nolint:gosec // read back by the same conversion
	case *int64:
		return appendNumber(b, uint64(*v)) //nolint:gosec // read back by the same conversion
	case *time.Duration:
		return appendNumber(b, uint64(*v)) //nolint:gosec // read back by the same conversion
	case *bool:
		if *v {
			return append(b, 1)
		}
		return b
	case *string:
		return append(b, *v...)
	case *time.Time:
		if v.IsZero() {
			return b
		}
		return appendTime(b, *v)
	case *[]string:
		for _, s := range *v {
			b = appendString(b, s)
		}
		return b
	case content:
		return v.appendTo(b)
	}
	panic(fmt.Sprintf("badgerstore: field %d has the unknown type %T", f.number, f.of))
}

func appendNumber(b []byte, n uint64) []byte {
	if n == 0 {
		return b
	}
	return binary.AppendUvarint(b, n)
}

// fields reads what appendFields wrote, to the end of the value. Fields that are not stored become zero. An unknown
// field is a mistake: a program that knows more fields of the same format has written it.
func (d *decoder) fields(fields ...field) {
	for _, f := range fields {
		f.read(nil)
	}
	for last := uint64(0); d.s != ""; {
		number := d.uvarint()
		content := decoder{s: d.str()}
		if number <= last || d.bad {
			d.bad = true
			return
		}
		last = number
		known := false
		for _, f := range fields {
			if f.number == number {
				known = true
				f.read(&content)
			}
		}
		if !known || !content.whole() {
			d.bad = true
			return
		}
	}
}

// read sets the variable of the field from its content, to zero when d is nil.
func (f field) read(d *decoder) {
	if d == nil {
		d = &decoder{bad: true} // which reads zeros
	}
	switch v := f.of.(type) {
	case *uint64:
		*v = d.uvarint()
	case *int:
		*v = int(d.uvarint()) //nolint:gosec // written by the same conversion
	case *int64:
		*v = int64(d.uvarint()) //nolint:gosec // written by the same conversion
	case *time.Duration:
		*v = time.Duration(d.uvarint()) //nolint:gosec // written by the same conversion
	case *bool:
		*v = d.byte() == 1
	case *string:
		*v = d.take(len(d.s))
	case *time.Time:
		*v = d.time()
	case *[]string:
		for *v = nil; d.s != ""; {
			*v = append(*v, d.str())
		}
	case content:
		v.readFrom(d)
	}
}
