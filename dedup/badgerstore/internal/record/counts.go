package record

import (
	"cmp"
	"maps"
	"slices"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

// Counts are the statistics of a store after a commit. Every commit writes them, because a start
// does not read the events that are finished.
type Counts struct {
	Records, Pending, Running, Dead int64
	Backlog                         int64 // bytes of the bodies of open events
	Waiting, WaitingBytes           int64 // open events that no claimer holds
	Quarantined                     map[dedup.QuarantineGroup]int64
}

// Add adds other counts, multiplied. It leaves the map alone and makes a new one if it has to.
func (c *Counts) Add(other *Counts, by int64) {
	mine := c.numbers()
	for i, n := range other.numbers() {
		*mine[i] += by * *n
	}
	if len(other.Quarantined) == 0 {
		return
	}
	sum := maps.Clone(c.Quarantined)
	if sum == nil {
		sum = map[dedup.QuarantineGroup]int64{}
	}
	for group, n := range other.Quarantined {
		if sum[group] += by * n; sum[group] == 0 {
			delete(sum, group)
		}
	}
	c.Quarantined = sum
}

func (c *Counts) numbers() [7]*int64 {
	return [...]*int64{&c.Records, &c.Pending, &c.Running, &c.Dead, &c.Backlog, &c.Waiting, &c.WaitingBytes}
}

func (c *Counts) code(w *wire.Codec) {
	for _, n := range c.numbers() {
		wire.Int(w, n)
	}
	groups := slices.AppendSeq(make([]dedup.QuarantineGroup, 0, len(c.Quarantined)), maps.Keys(c.Quarantined))
	slices.SortFunc(groups, func(a, b dedup.QuarantineGroup) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Reason, b.Reason))
	})
	if n := w.Count(len(groups), 3); w.Decodes && n > 0 {
		groups, c.Quarantined = make([]dedup.QuarantineGroup, n), make(map[dedup.QuarantineGroup]int64, n)
	}
	for _, group := range groups {
		n := c.Quarantined[group]
		w.Text(&group.Endpoint)
		w.Text(&group.Reason)
		if wire.Int(w, &n); w.Decodes {
			c.Quarantined[group] = n
		}
	}
}
