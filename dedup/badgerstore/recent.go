package badgerstore

import (
	"cmp"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// listed is an event in the order of acceptance, whichever generation it is by now.
type listed struct {
	seq   uint64
	place record.Place
}

// recentMax is how many of the newest events are listed without reading the whole store.
const recentMax = 1 << 16

// recent holds the places of the newest events: keys are hashes, so a list would read everything.
type recent struct {
	events    []listed // by ascending sequence
	truncated bool     // older ones were left out
}

func (r *recent) add(seq uint64, h record.Hash) {
	if len(r.events) >= 2*recentMax {
		r.events, r.truncated = slices.Clone(r.events[recentMax:]), true
	}
	r.events = append(r.events, listed{seq, record.Place{Hash: h}})
}

// newest selects the recentMax events with the highest sequences.
type newest struct {
	events    []listed
	floor     uint64 // lower sequences are not among them
	truncated bool   // some were left out
}

func (n *newest) add(l listed) {
	if l.seq < n.floor {
		n.truncated = true
		return
	}
	if n.events = append(n.events, l); len(n.events) >= 2*recentMax {
		n.trim()
		n.floor = n.events[0].seq
	}
}

// trim sorts the events and drops all but the newest.
func (n *newest) trim() {
	slices.SortFunc(n.events, func(a, b listed) int { return cmp.Compare(a.seq, b.seq) })
	n.events = slices.CompactFunc(n.events, func(a, b listed) bool { return a.seq == b.seq })
	if drop := len(n.events) - recentMax; drop > 0 {
		n.events, n.truncated = slices.Clone(n.events[drop:]), true
	}
}

func (n *newest) recent() recent {
	n.trim()
	return recent{events: slices.Clone(n.events), truncated: n.truncated}
}
