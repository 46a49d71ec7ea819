package kv

import (
	"testing"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/redolog"
)

// TestAWatchHasWhatAViewLacks begins a watch and opens a view while a commit is written.
func TestAWatchHasWhatAViewLacks(t *testing.T) {
	t.Parallel()
	options, meanwhile := tiny(t), func() {}
	options.Flush = func(l *redolog.Log) error {
		meanwhile()
		return l.Flush()
	}
	o := create(t, options)
	var first *Watch
	a, b, c := keyOf('e', 1), keyOf('e', 2), keyOf('e', 3)
	check := func(when string, w *Watch, want ...bool) {
		t.Helper()
		for i, key := range [][]byte{a, b, c} {
			if got := w.Changed(key); got != want[i] {
				t.Errorf("%s: key %d changed: %t", when, i, got)
			}
		}
	}
	watch := func(use func(w *Watch)) (ended *Watch) {
		t.Helper()
		if err := o.Watch(func(w *Watch) error { ended = w; use(w); return nil }); err != nil {
			t.Error(err)
		}
		return ended
	}
	o.commit(t, Entry{Key: a, Value: []byte("old")})
	begun, ends, ended := make(chan *Watch), make(chan struct{}), make(chan struct{})
	meanwhile = func() {
		go func() {
			defer close(ended)
			watch(func(w *Watch) { begun <- w; <-ends })
		}()
		first = <-begun
		err := o.View(func(v *View) error {
			value, err := v.Get(a)
			if string(value) != "old" {
				t.Errorf("the view has %q", value)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	o.commit(t, Entry{Key: a, Value: []byte("new")})
	meanwhile = func() {}
	second := watch(func(second *Watch) {
		check("the first, after its commit", first, true, false, false)
		check("the second", second, false, false, false)
		o.commit(t, Entry{Key: b, Value: []byte("new"), Keep: true})
		o.commit(t, Entry{Key: a})
		check("the first, after three commits", first, true, true, false)
		check("the second, after two commits", second, true, true, false)
		close(ends)
		<-ended
		check("the first, at its end", first, true, true, true)
		check("the second", second, true, true, false)
	})
	check("the second, at its end", second, true, true, true)
	if n := len(o.overlay.watches); n != 0 {
		t.Errorf("%d watches are left", n)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}
