package taskqueue

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type numbered struct{ value, index int }

// TestAHeapAgreesWithASortedList checks the first item and every index after each step.
func TestAHeapAgreesWithASortedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := NewHeap(func(a, b *numbered) bool { return a.value < b.value }, func(e *numbered, i int) { e.index = i })
		var all []*numbered
		pick := func(t *rapid.T) int {
			if len(all) == 0 {
				t.Skip("empty")
			}
			return rapid.IntRange(0, len(all)-1).Draw(t, "item")
		}
		value := rapid.IntRange(0, 50)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				e := &numbered{value: value.Draw(t, "value")}
				all = append(all, e)
				h.Push(e)
			},
			"remove": func(t *rapid.T) {
				n := pick(t)
				if e := h.Remove(all[n].index); e != all[n] {
					t.Fatalf("removed %v, want %v", e, all[n])
				}
				all = slices.Delete(all, n, n+1)
			},
			"replace": func(t *rapid.T) {
				e := all[pick(t)]
				e.value = value.Draw(t, "value")
				h.Replace(e.index, e)
			},
			"reset": func(*rapid.T) { h.Reset(slices.Clone(all)) },
			"": func(t *rapid.T) {
				if h.Len() != len(all) {
					t.Fatalf("%d items, want %d", h.Len(), len(all))
				}
				for i, e := range h.items {
					if e.index != i {
						t.Fatalf("the item at %d has index %d", i, e.index)
					}
				}
				byValue := func(a, b *numbered) int { return cmp.Compare(a.value, b.value) }
				if len(all) > 0 && h.First().value != slices.MinFunc(all, byValue).value {
					t.Fatalf("the first is %d", h.First().value)
				}
			},
		})
	})
}
