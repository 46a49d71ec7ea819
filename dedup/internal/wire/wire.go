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

// Codec encodes values, or decodes them from what it encoded: the same calls describe both. After
// an error it decodes zeros. Decoded strings share memory with S.
type Codec struct {
	B       []byte // what was encoded
	S       string // not decoded yet
	Decodes bool
	Bad     bool // there was an error
	Refers  bool // strings may refer to words
	words   words
}

// Reader returns a codec that decodes.
func Reader(s string) Codec { return Codec{S: s, Decodes: true} }

// Whole reports whether everything was decoded without an error.
func (c *Codec) Whole() bool { return !c.Bad && c.S == "" }

// fail notes an error.
func (c *Codec) fail() { c.Bad, c.S = true, "" }

// take decodes a number of bytes.
func (c *Codec) take(n int) string {
	if n < 0 || n > len(c.S) {
		c.fail()
		return ""
	}
	out := c.S[:n]
	c.S = c.S[n:]
	return out
}

// Bytes is a fixed number of bytes.
func (c *Codec) Bytes(b []byte) {
	if c.Decodes {
		copy(b, c.take(len(b)))
	} else {
		c.B = append(c.B, b...)
	}
}

func (c *Codec) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 64 && c.S != ""; shift += 7 {
		b := c.S[0]
		c.S = c.S[1:]
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	c.fail()
	return 0
}

type number interface {
	~int | ~int64 | ~uint64 | ~uint16 | ~uint8
}

// Uint is a number that is usually small, and not negative.
func Uint[T number](c *Codec, v *T) {
	if !c.Decodes {
		c.B = binary.AppendUvarint(c.B, uint64(*v))
	} else if u := c.uvarint(); uint64(T(u)) == u {
		*v = T(u)
	} else {
		c.fail()
	}
}

// Int is a number that is usually small, and may be negative.
func Int[T number](c *Codec, v *T) {
	u := uint64(*v)<<1 ^ uint64(int64(*v)>>63) //nolint:gosec // zigzag
	Uint(c, &u)
	if c.Decodes {
		*v = T(int64(u>>1) ^ -int64(u&1)) //nolint:gosec // and back
	}
}

// Bool is a truth value.
func (c *Codec) Bool(v *bool) {
	if set := c.Flags(*v); c.Decodes {
		*v = set == 1
	}
}

// Flags are truth values, and returns them as the bits of a number.
func (c *Codec) Flags(set ...bool) uint64 { return c.flags(0, 1, set) }

// StateEnd is the first flag behind a state.
const StateEnd = 1 << 3

// StateFlags are a state with flags, the first of which is StateEnd.
func (c *Codec) StateFlags(s *dedup.State, set ...bool) uint64 {
	flags := c.flags(uint64(*s), StateEnd, set)
	if c.Decodes {
		*s = dedup.State(flags % StateEnd)
	}
	return flags
}

// flags adds truth values to a number, from one of its bits on.
func (c *Codec) flags(n, first uint64, set []bool) uint64 {
	for i, on := range set {
		if on {
			n |= first << i
		}
	}
	if Uint(c, &n); n >= first<<len(set) {
		c.fail()
		return 0
	}
	return n
}

// Count is the length of a list whose elements take at least a number of bytes each. They bound
// what is made of wrong ones.
func (c *Codec) Count(length, least int) int {
	Uint(c, &length)
	if c.Decodes && (length < 0 || length > len(c.S)/least) {
		c.fail()
		return 0
	}
	return length
}

// Text is a string.
func (c *Codec) Text(s *string) {
	switch {
	case c.Refers:
		c.word(s)
	case c.Decodes:
		*s = c.take(c.Count(0, 1))
	default:
		c.B = append(binary.AppendUvarint(c.B, uint64(len(*s))), *s...)
	}
}

// Key is a key.
func (c *Codec) Key(k *dedup.Key) {
	c.Text(&k.Principal)
	c.Text(&k.Endpoint)
	c.Text(&k.Space)
	c.Text(&k.ID)
}

// Keys are keys.
func (c *Codec) Keys(keys *[]dedup.Key) {
	if n := c.Count(len(*keys), 4); c.Decodes && n > 0 {
		*keys = make([]dedup.Key, n)
	}
	for i := range *keys {
		c.Key(&(*keys)[i])
	}
}

// endOfTime is the latest time that is stored, in 2262. Later ones would overflow into the past.
var endOfTime = time.Unix(0, math.MaxInt64)

// nanoseconds returns the nanoseconds since 1970, or 0 for the zero time; 1970 itself does not
// occur.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if t.After(endOfTime) {
		t = endOfTime
	}
	return t.UnixNano()
}

// Time is a time.
func (c *Codec) Time(t *time.Time) { c.Since(time.Time{}, t) }

// Since is a time, as the nanoseconds since another one.
func (c *Codec) Since(from time.Time, t *time.Time) {
	n := nanoseconds(*t) - nanoseconds(from)
	if Int(c, &n); !c.Decodes {
		return
	}
	if n += nanoseconds(from); n == 0 {
		*t = time.Time{}
	} else {
		*t = time.Unix(0, n).UTC()
	}
}

// Header is a header. Equal ones that are sorted have equal bytes.
func (c *Codec) Header(h *http.Header, sorted bool) {
	switch n := c.Count(len(*h), 2); {
	case c.Decodes && n > 0:
		*h = make(http.Header, min(n, 64))
		values := make([]string, 0, min(n, 64)) // of all names, most of which have one
		for range n {
			values = c.field(*h, values)
		}
	case c.Decodes:
	case sorted:
		names := slices.AppendSeq(make([]string, 0, 16), maps.Keys(*h))
		slices.Sort(names)
		for _, name := range names {
			c.appendField(name, (*h)[name])
		}
	default:
		for name, values := range *h {
			c.appendField(name, values)
		}
	}
}

func (c *Codec) appendField(name string, values []string) {
	c.Text(&name)
	c.Count(len(values), 1)
	for i := range values {
		c.Text(&values[i])
	}
}

// field decodes a field with values behind others.
func (c *Codec) field(h http.Header, values []string) []string {
	var name string
	c.Text(&name)
	from := len(values)
	for range c.Count(0, 1) {
		values = append(values, "")
		c.Text(&values[len(values)-1])
	}
	if list := values[from:len(values):len(values)]; len(list) > 0 {
		h[name] = list
	} else {
		h[name] = nil
	}
	return values
}

// Attributes are attributes.
func (c *Codec) Attributes(all *map[string]string) {
	n := c.Count(len(*all), 2)
	if !c.Decodes {
		for k, v := range *all {
			c.Text(&k)
			c.Text(&v)
		}
		return
	}
	if n > 0 {
		*all = make(map[string]string, min(n, 64))
	}
	for range n {
		var k, v string
		c.Text(&k)
		c.Text(&v)
		(*all)[k] = v
	}
}

// Response is a response. Equal ones have equal bytes.
func (c *Codec) Response(r *dedup.Response) {
	Int(c, &r.Status)
	c.Header(&r.Header, true)
	if n := c.Count(len(r.Body), 1); c.Decodes && n > 0 {
		r.Body = make([]byte, n)
	}
	c.Bytes(r.Body)
}
