package badgerstore

import (
	"cmp"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// recentMax is how many of the newest events are listed without reading the whole store.
const recentMax = 1 << 16

// recent holds the newest events: keys are hashes, so a list would read everything.
type recent struct {
	events    []record.Recent // by ascending sequence after trim, or if they were added so
	floor     uint64          // lower sequences are not among them
	truncated bool            // some were left out
}

func (r *recent) add(l record.Recent) {
	if l.Seq < r.floor {
		r.truncated = true
		return
	}
	if r.events = append(r.events, l); len(r.events) >= 2*recentMax {
		r.trim()
		r.floor = r.events[0].Seq
	}
}

// trim sorts the events and drops all but the newest, in new memory: a list may read the old one.
func (r *recent) trim() {
	events := slices.Clone(r.events)
	slices.SortFunc(events, func(a, b record.Recent) int { return cmp.Compare(a.Seq, b.Seq) })
	events = slices.CompactFunc(events, func(a, b record.Recent) bool { return a.Seq == b.Seq })
	drop := max(0, len(events)-recentMax)
	r.events, r.truncated = slices.Clone(events[drop:]), r.truncated || drop > 0
}
