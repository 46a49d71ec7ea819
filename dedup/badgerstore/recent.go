package badgerstore

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// recentMax is how many of the newest events are listed without reading the whole store.
const recentMax = 1 << 16

// recent remembers where the newest events are. The keys of the store are hashes and know no order, so
// without it every list would read everything.
type recent struct {
	events []listed // by rising sequence
	cut    bool     // older ones have been left out
}

// add notes a new event, whose sequence is larger than any before.
func (r *recent) add(seq uint64, h record.Hash) {
	if len(r.events) >= 2*recentMax {
		r.events = append([]listed(nil), r.events[recentMax:]...)
		r.cut = true
	}
	r.events = append(r.events, listed{seq, record.Place{Hash: h}})
}

// fill takes what a scan collected.
func (r *recent) fill(found newestHeap, cut bool) {
	r.events, r.cut = found, cut
	slices.SortFunc(r.events, func(a, b listed) int { return cmp.Compare(a.seq, b.seq) })
}

// newestHeap keeps the largest sequences that it was offered; the smallest of them is at the root.
type newestHeap []listed

// offer adds an event and reports whether one had to be left out.
func (h *newestHeap) offer(l listed) (cut bool) {
	if len(*h) < recentMax {
		heap.Push(h, l)
		return false
	}
	if l.seq > (*h)[0].seq {
		(*h)[0] = l
		heap.Fix(h, 0)
	}
	return true
}

func (h newestHeap) Len() int           { return len(h) }
func (h newestHeap) Less(i, j int) bool { return h[i].seq < h[j].seq }
func (h newestHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *newestHeap) Push(x any)        { *h = append(*h, x.(listed)) }
func (h *newestHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
