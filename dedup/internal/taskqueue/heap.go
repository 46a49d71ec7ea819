package taskqueue

// Heap is a binary heap that keeps its smallest item first and can report the index of its items.
type Heap[T any] struct {
	items []T
	less  func(a, b T) bool
	moved func(item T, i int)
}

// NewHeap returns an empty heap in the order of less. moved, if not nil, is called with every new
// index of an item.
func NewHeap[T any](less func(a, b T) bool, moved func(item T, i int)) Heap[T] {
	if moved == nil {
		moved = func(T, int) {}
	}
	return Heap[T]{less: less, moved: moved}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the smallest item. The heap must not be empty.
func (h *Heap[T]) First() T { return h.items[0] }

// Reset replaces all items.
func (h *Heap[T]) Reset(items []T) {
	h.items = items
	for i := len(items) - 1; i >= 0; i-- {
		h.down(i)
	}
}

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

// Remove removes the item at an index and returns it.
func (h *Heap[T]) Remove(i int) T {
	item, last := h.items[i], len(h.items)-1
	moved := h.items[last]
	clear(h.items[last:])
	h.items = h.items[:last]
	if i < last {
		h.Replace(i, moved)
	}
	return item
}

// Replace replaces the item at an index, or restores the order after that item changed.
func (h *Heap[T]) Replace(i int, item T) {
	h.items[i] = item
	if h.up(i) == i {
		h.down(i)
	}
}

// up moves an item toward the front and returns its new index.
func (h *Heap[T]) up(i int) int {
	item := h.items[i]
	for parent := (i - 1) / 2; i > 0 && h.less(item, h.items[parent]); parent = (i - 1) / 2 {
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, item)
	return i
}

// down moves an item toward the end.
func (h *Heap[T]) down(i int) {
	item := h.items[i]
	for child := 2*i + 1; child < len(h.items); child = 2*i + 1 {
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], item) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, item)
}

func (h *Heap[T]) set(i int, item T) {
	h.items[i] = item
	h.moved(item, i)
}
