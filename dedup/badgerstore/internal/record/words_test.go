package record

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
		var w words
		if b := w.append(nil, s); len(b) != 1 || w.count != 0 {
			t.Errorf("%q takes %d bytes", s, len(b))
		}
	}
}

func TestAWordIsWrittenOnce(t *testing.T) {
	t.Parallel()
	var w words
	var b []byte
	for i := range saidMost + 4 {
		first := len(b)
		b = w.append(b, fmt.Sprint("word ", i))
		again := len(b)
		b = w.append(b, fmt.Sprint("word ", i))
		if word := i < saidMost; (len(b)-again == 1) != word || again-first < 6 {
			t.Errorf("word %d takes %d and %d bytes", i, again-first, len(b)-again)
		}
	}
	b = w.append(w.append(w.append(w.append(b, ""), "x"), "x"), "Content-Type")
	d := decoder{s: string(b), words: &words{}}
	for i := range saidMost + 4 {
		for range 2 {
			if s := d.str(); s != fmt.Sprint("word ", i) {
				t.Errorf("word %d is %q", i, s)
			}
		}
	}
	for _, want := range []string{"", "x", "x", "Content-Type"} {
		if s := d.str(); s != want {
			t.Errorf("%q is %q", want, s)
		}
	}
	if !d.whole() {
		t.Error("there is more")
	}
}

func FuzzWords(f *testing.F) {
	f.Add("shop orders evt_1 shop nonce evt_1 Content-Type", []byte{1, 97, 127, 2, 65})
	f.Fuzz(func(t *testing.T, text string, hostile []byte) {
		d := decoder{s: string(hostile), words: &words{}}
		for d.s != "" {
			d.str()
		}
		var w words
		var b []byte
		all := strings.Split(text, " ")
		for _, s := range all {
			b = w.append(b, s)
		}
		d = decoder{s: string(b), words: &words{}}
		for i, s := range all {
			if got := d.str(); got != s {
				t.Fatalf("string %d is %q, want %q", i, got, s)
			}
		}
		if !d.whole() {
			t.Error("there is more")
		}
	})
}
