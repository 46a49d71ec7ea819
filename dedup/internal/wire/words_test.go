package wire

import (
	"fmt"
	"strings"
	"testing"
)

// TestWordsHaveOneByte: the numbers of all words fit into one byte, and none is there twice.
func TestWordsHaveOneByte(t *testing.T) {
	t.Parallel()
	if n := len(common) + saidMost; n != 64 || len(commonNumber) != len(common) {
		t.Errorf("%d words, of which %d different ones are common", n, len(commonNumber))
	}
	for _, s := range common {
		c := Codec{Refers: true}
		if c.Text(&s); len(c.B) != 1 || c.words.count != 0 {
			t.Errorf("%q takes %d bytes", s, len(c.B))
		}
	}
}

func TestAWordIsWrittenOnce(t *testing.T) {
	t.Parallel()
	c := Codec{Refers: true}
	var all []string
	write := func(s string) int {
		before := len(c.B)
		all = append(all, s)
		c.Text(&s)
		return len(c.B) - before
	}
	for i := range saidMost + 4 {
		first, again := write(fmt.Sprint("word ", i)), write(fmt.Sprint("word ", i))
		if word := i < saidMost; (again == 1) != word || first < 6 {
			t.Errorf("word %d takes %d and %d bytes", i, first, again)
		}
	}
	for _, s := range []string{"", "x", "x", "Content-Type"} {
		write(s)
	}
	d := Reader(string(c.B))
	d.Refers = true
	for i, want := range all {
		var s string
		if d.Text(&s); s != want {
			t.Errorf("text %d is %q, want %q", i, s, want)
		}
	}
	if !d.Whole() {
		t.Error("there is more")
	}
}

func FuzzWords(f *testing.F) {
	f.Add("shop orders evt_1 shop nonce evt_1 Content-Type", []byte{1, 97, 127, 2, 65})
	f.Fuzz(func(t *testing.T, text string, hostile []byte) {
		var got string
		for d := (Codec{S: string(hostile), Decodes: true, Refers: true}); d.S != ""; {
			d.Text(&got)
		}
		c := Codec{Refers: true}
		all := strings.Split(text, " ")
		for _, s := range all {
			c.Text(&s)
		}
		d := Codec{S: string(c.B), Decodes: true, Refers: true}
		for i, s := range all {
			if d.Text(&got); got != s {
				t.Fatalf("string %d is %q, want %q", i, got, s)
			}
		}
		if !d.Whole() {
			t.Error("there is more")
		}
	})
}
