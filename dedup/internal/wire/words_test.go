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
		var w Words
		if b := w.Append(nil, s); len(b) != 1 || w.count != 0 {
			t.Errorf("%q takes %d bytes", s, len(b))
		}
	}
}

func TestAWordIsWrittenOnce(t *testing.T) {
	t.Parallel()
	var w Words
	var b []byte
	for i := range saidMost + 4 {
		first := len(b)
		b = w.Append(b, fmt.Sprint("word ", i))
		again := len(b)
		b = w.Append(b, fmt.Sprint("word ", i))
		if word := i < saidMost; (len(b)-again == 1) != word || again-first < 6 {
			t.Errorf("word %d takes %d and %d bytes", i, again-first, len(b)-again)
		}
	}
	b = w.Append(w.Append(w.Append(w.Append(b, ""), "x"), "x"), "Content-Type")
	d := Decoder{S: string(b), Words: &Words{}}
	for i := range saidMost + 4 {
		for range 2 {
			if s := d.Text(); s != fmt.Sprint("word ", i) {
				t.Errorf("word %d is %q", i, s)
			}
		}
	}
	for _, want := range []string{"", "x", "x", "Content-Type"} {
		if s := d.Text(); s != want {
			t.Errorf("%q is %q", want, s)
		}
	}
	if !d.Whole() {
		t.Error("there is more")
	}
}

func FuzzWords(f *testing.F) {
	f.Add("shop orders evt_1 shop nonce evt_1 Content-Type", []byte{1, 97, 127, 2, 65})
	f.Fuzz(func(t *testing.T, text string, hostile []byte) {
		d := Decoder{S: string(hostile), Words: &Words{}}
		for d.S != "" {
			d.Text()
		}
		var w Words
		var b []byte
		all := strings.Split(text, " ")
		for _, s := range all {
			b = w.Append(b, s)
		}
		d = Decoder{S: string(b), Words: &Words{}}
		for i, s := range all {
			if got := d.Text(); got != s {
				t.Fatalf("string %d is %q, want %q", i, got, s)
			}
		}
		if !d.Whole() {
			t.Error("there is more")
		}
	})
}
