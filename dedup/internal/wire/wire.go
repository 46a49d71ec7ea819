// Package wire encodes what both durable stores keep of events: strings, times, keys, headers,
// attributes, responses and histories. Numbers are varints; strings and lists are prefixed with
// their length.
package wire

import (
	"encoding/binary"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// AppendString appends a string.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendKey appends a key, with strings as str appends them.
func AppendKey(b []byte, k dedup.Key, str func(b []byte, s string) []byte) []byte {
	return str(str(str(str(b, k.Principal), k.Endpoint), k.Space), k.ID)
}

// endOfTime is the latest time that is stored, in 2262. Later ones would overflow into the past.
var endOfTime = time.Unix(0, math.MaxInt64)

// AppendTime writes nanoseconds since 1970, or 0 for the zero time; 1970 itself does not occur.
func AppendTime(b []byte, t time.Time) []byte { return binary.AppendVarint(b, nanoseconds(t)) }

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if t.After(endOfTime) {
		t = endOfTime
	}
	return t.UnixNano()
}

// AppendSince writes a time as the nanoseconds since another one.
func AppendSince(b []byte, since, t time.Time) []byte {
	return binary.AppendVarint(b, nanoseconds(t)-nanoseconds(since))
}

// AppendHeader appends a header in any order, with strings as str appends them.
func AppendHeader(b []byte, h http.Header, str func(b []byte, s string) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(h)))
	for k, vs := range h {
		b = appendField(b, k, vs, str)
	}
	return b
}

func appendField(b []byte, name string, values []string, str func(b []byte, s string) []byte) []byte {
	b = binary.AppendUvarint(str(b, name), uint64(len(values)))
	for _, v := range values {
		b = str(b, v)
	}
	return b
}

// AppendAttributes appends attributes in any order, with strings as str appends them.
func AppendAttributes(b []byte, all map[string]string, str func(b []byte, s string) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(all)))
	for k, v := range all {
		b = str(str(b, k), v)
	}
	return b
}

// AppendResponse appends a response. Equal ones have equal bytes.
func AppendResponse(b []byte, r *dedup.Response) []byte {
	b = binary.AppendVarint(b, int64(r.Status))
	b = binary.AppendUvarint(b, uint64(len(r.Header)))
	names := slices.AppendSeq(make([]string, 0, 16), maps.Keys(r.Header))
	slices.Sort(names)
	for _, name := range names {
		b = appendField(b, name, r.Header[name], AppendString)
	}
	return append(binary.AppendUvarint(b, uint64(len(r.Body))), r.Body...)
}

// Decoder reads what the other functions wrote, which it does not copy. After an error it returns
// zeros.
type Decoder struct {
	S     string // what is left
	Bad   bool   // there was an error
	Words *Words // of strings that may refer to them, else nil
}

// Whole reports whether everything was read without an error.
func (d *Decoder) Whole() bool { return !d.Bad && d.S == "" }

// Take reads a number of bytes.
func (d *Decoder) Take(n int) string {
	if n < 0 || n > len(d.S) {
		d.Bad, d.S = true, ""
		return ""
	}
	out := d.S[:n]
	d.S = d.S[n:]
	return out
}

// Rest reads all that is left.
func (d *Decoder) Rest() string { return d.Take(len(d.S)) }

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if b := d.Take(1); b != "" {
		return b[0]
	}
	return 0
}

// Uvarint reads a varint without a sign.
func (d *Decoder) Uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		b := d.Byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	d.Bad, d.S = true, ""
	return 0
}

// Varint reads a varint.
func (d *Decoder) Varint() int64 {
	u := d.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Count reads the length of a list whose elements take at least one byte each.
func (d *Decoder) Count() int {
	n := d.Uvarint()
	if n > uint64(len(d.S)) {
		d.Bad, d.S = true, ""
		return 0
	}
	return int(n)
}

// Text reads a string.
func (d *Decoder) Text() string {
	if d.Words != nil {
		return d.Words.of(d)
	}
	return d.Take(d.Count())
}

// Key reads a key.
func (d *Decoder) Key() dedup.Key {
	return dedup.Key{Principal: d.Text(), Endpoint: d.Text(), Space: d.Text(), ID: d.Text()}
}

// Time reads what AppendTime wrote.
func (d *Decoder) Time() time.Time { return timeOf(d.Varint()) }

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}

// Since reads what AppendSince wrote.
func (d *Decoder) Since(t time.Time) time.Time { return timeOf(nanoseconds(t) + d.Varint()) }

// Header reads a header.
func (d *Decoder) Header() http.Header {
	n := d.Count()
	if n == 0 {
		return nil
	}
	h := make(http.Header, min(n, 64))
	values := make([]string, 0, min(n, 64)) // of all names, most of which have one
	for range n {
		k := d.Text()
		from := len(values)
		for range d.Count() {
			values = append(values, d.Text())
		}
		list := values[from:len(values):len(values)]
		if len(list) == 0 {
			list = nil
		}
		h[k] = list
	}
	return h
}

// Attributes reads attributes.
func (d *Decoder) Attributes() map[string]string {
	n := d.Count()
	if n == 0 {
		return nil
	}
	all := make(map[string]string, min(n, 64))
	for range n {
		k := d.Text()
		all[k] = d.Text()
	}
	return all
}

// Response reads a response.
func (d *Decoder) Response() (r dedup.Response) {
	r.Status, r.Header = int(d.Varint()), d.Header()
	if s := d.Text(); s != "" {
		r.Body = []byte(s)
	}
	return r
}
