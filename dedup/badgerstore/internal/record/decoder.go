package record

import (
	"encoding/binary"
	"math"
	"net/http"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// endOfTime is the latest time that is stored, in 2262. Later ones would overflow into the past.
var endOfTime = time.Unix(0, math.MaxInt64)

// appendTime writes nanoseconds since 1970, or 0 for the zero time; 1970 itself does not occur.
func appendTime(b []byte, t time.Time) []byte { return binary.AppendVarint(b, nanoseconds(t)) }

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if t.After(endOfTime) {
		t = endOfTime
	}
	return t.UnixNano()
}

// appendSince writes a time as the nanoseconds since another one.
func appendSince(b []byte, since, t time.Time) []byte {
	return binary.AppendVarint(b, nanoseconds(t)-nanoseconds(since))
}

func appendHeader(b []byte, h http.Header, str func(b []byte, s string) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(h)))
	for k, vs := range h {
		b = binary.AppendUvarint(str(b, k), uint64(len(vs)))
		for _, v := range vs {
			b = str(b, v)
		}
	}
	return b
}

// decoder reads what the append functions wrote. After an error it returns zeros; end reports it.
type decoder struct {
	s     string
	bad   bool
	words *words // of strings that may refer to them, else nil
}

// whole reports whether everything was read without an error.
func (d *decoder) whole() bool { return !d.bad && d.s == "" }

func (d *decoder) end(key []byte) error {
	if !d.whole() {
		return Damaged(key, "its content does not decode", nil)
	}
	return nil
}

func (d *decoder) take(n int) string {
	if n < 0 || n > len(d.s) {
		d.bad, d.s = true, ""
		return ""
	}
	out := d.s[:n]
	d.s = d.s[n:]
	return out
}

func (d *decoder) rest() string { return d.take(len(d.s)) }

func (d *decoder) byte() byte {
	if b := d.take(1); b != "" {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b := d.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	d.bad, d.s = true, ""
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// count reads the length of a list whose elements take at least one byte each.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.s)) {
		d.bad, d.s = true, ""
		return 0
	}
	return int(n)
}

func (d *decoder) str() string {
	if d.words != nil {
		return d.words.of(d)
	}
	return d.take(d.count())
}

func (d *decoder) key() dedup.Key {
	return dedup.Key{Principal: d.str(), Endpoint: d.str(), Space: d.str(), ID: d.str()}
}

func (d *decoder) time() time.Time { return timeOf(d.varint()) }

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}

func (d *decoder) since(t time.Time) time.Time { return timeOf(nanoseconds(t) + d.varint()) }

func (d *decoder) header() http.Header {
	n := d.count()
	if n == 0 {
		return nil
	}
	h := make(http.Header, min(n, 64))
	values := make([]string, 0, min(n, 64)) // of all names, most of which have one
	for range n {
		k := d.str()
		from := len(values)
		for range d.count() {
			values = append(values, d.str())
		}
		if h[k] = nil; len(values) > from {
			h[k] = values[from:len(values):len(values)]
		}
	}
	return h
}

func (d *decoder) response() (r dedup.Response) {
	r.Status, r.Header = int(d.varint()), d.header()
	if s := d.str(); s != "" {
		r.Body = []byte(s)
	}
	return r
}
