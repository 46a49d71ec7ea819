package wire

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// TestEqualResponsesHaveEqualBytes: a store writes a response again when its bytes change.
func TestEqualResponsesHaveEqualBytes(t *testing.T) {
	t.Parallel()
	r := dedup.Response{Status: 201, Header: http.Header{}, Body: []byte("created")}
	for _, name := range []string{"A", "B", "C", "D", "E", "F"} {
		r.Header[name] = []string{name, "", name}
	}
	encode := func() string {
		var c Codec
		c.Response(&r)
		return string(c.B)
	}
	first := encode()
	for range 20 {
		if encode() != first {
			t.Fatal("a response has different bytes")
		}
	}
	c, back := Reader(first), dedup.Response{}
	if c.Response(&back); !c.Whole() || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, want %+v", back, r)
	}
}

// TestAListThatCannotBeWholeIsNotMade decodes lists of three elements from too few bytes.
func TestAListThatCannotBeWholeIsNotMade(t *testing.T) {
	t.Parallel()
	for text, decode := range map[string]func(c *Codec) (made bool){
		"\x03" + strings.Repeat("\x00", 11): func(c *Codec) bool {
			var keys []dedup.Key
			c.Keys(&keys)
			return keys != nil
		},
		"\x03" + strings.Repeat("\x00", 5): func(c *Codec) bool {
			var h http.Header
			c.Header(&h, false)
			return h != nil
		},
		"\x03" + strings.Repeat("\x00", 8): func(c *Codec) bool {
			var all []dedup.Attempt
			c.History(&all, dedup.Attempt{})
			return all != nil
		},
	} {
		c := Reader(text)
		if made := decode(&c); made || !c.Bad {
			t.Errorf("a list of %q: %v, %v", text, made, c.Bad)
		}
	}
}

func TestEveryTypeComesBack(t *testing.T) {
	t.Parallel()
	type values struct {
		U uint64
		I int64
		D uint16
		B bool
		S string
		T time.Time
	}
	code := func(c *Codec, v *values) {
		Uint(c, &v.U)
		Int(c, &v.I)
		Uint(c, &v.D)
		c.Bool(&v.B)
		c.Text(&v.S)
		c.Since(time.Unix(7, 0), &v.T)
	}
	for _, want := range []values{
		{}, {U: 1<<64 - 1, I: 1<<63 - 1, D: 1<<16 - 1, B: true, S: "text", T: time.Unix(1, 0).UTC()},
		{I: -1 << 63, S: "only"}, {I: -1, T: time.Unix(-5, 0).UTC()}, {I: 1, T: endOfTime.UTC()},
	} {
		var c Codec
		code(&c, &want)
		for n := range len(c.B) {
			d := Reader(string(c.B[:n]))
			if code(&d, new(values)); d.Whole() {
				t.Errorf("%+v: %d of %d bytes are enough", want, n, len(c.B))
			}
		}
		d, got := Reader(string(c.B)), values{U: 7, I: 7, D: 7, B: true, S: "before", T: time.Now()}
		if code(&d, &got); !d.Whole() || got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for _, wrong := range []string{"\x80\x80\x04", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"} {
		var small uint16
		if c := Reader(wrong); !isBad(&c, func() { Uint(&c, &small) }) {
			t.Errorf("%x is %d", wrong, small)
		}
	}
	if c := Reader("\x04"); !isBad(&c, func() { c.Flags(true, true) }) {
		t.Error("an unknown flag is read")
	}
	if c := Reader("\x02a"); !isBad(&c, func() { c.Count(0, 1) }) {
		t.Error("a list is longer than what is left")
	}
}

func isBad(c *Codec, read func()) bool {
	read()
	return c.Bad
}
