package badgerstore

import (
	"container/heap"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// oldest knows when the oldest event that waits for workers was accepted.
type oldest struct {
	open map[uint64]time.Time // when they were accepted, by sequence
	ages ageHeap              // of open events, and of not many more that are open no more
}

type age struct {
	accepted time.Time
	seq      uint64
}

// note follows a record.
func (o *oldest) note(r *dedup.Record, gone bool) {
	waits := !gone && r.Open() && r.Ends().IsZero()
	_, known := o.open[r.Seq]
	switch {
	case waits && !known:
		o.open[r.Seq] = r.Accepted
		heap.Push(&o.ages, age{r.Accepted, r.Seq})
	case !waits && known:
		delete(o.open, r.Seq)
	}
	if len(o.ages) > 2*len(o.open)+agesMost {
		o.forget()
	}
}

// agesMost is how many ages of events that are open no more are kept at least: one event that waits for long must
// not keep those of all that ended since.
const agesMost = 512

// forget leaves the ages of open events only.
func (o *oldest) forget() {
	o.ages = make(ageHeap, 0, len(o.open))
	for seq, accepted := range o.open {
		o.ages = append(o.ages, age{accepted, seq})
	}
	heap.Init(&o.ages)
}

// accepted returns the time, zero when no event waits.
func (o *oldest) accepted() time.Time {
	for len(o.ages) > 0 {
		if _, ok := o.open[o.ages[0].seq]; ok {
			return o.ages[0].accepted
		}
		heap.Pop(&o.ages)
	}
	return time.Time{}
}

type ageHeap []age

func (h ageHeap) Len() int           { return len(h) }
func (h ageHeap) Less(i, j int) bool { return h[i].accepted.Before(h[j].accepted) }
func (h ageHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ageHeap) Push(x any)        { *h = append(*h, x.(age)) }
func (h *ageHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
