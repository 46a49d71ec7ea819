package record

import (
	"cmp"
	"encoding/binary"
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

func (c *Counts) fields(f *fields) {
	var numbers, groups []byte
	if f.in == nil && c.Records != 0 {
		numbers, groups = c.appendNumbers(make([]byte, 0, 64)), c.appendGroups(nil)
	}
	if d := f.list(40, numbers); d != nil {
		for _, n := range c.numbers() {
			*n = d.Varint()
		}
	}
	for d := f.list(41, groups); d != nil && d.S != "" && !d.Bad; {
		if c.Quarantined == nil {
			c.Quarantined = map[dedup.QuarantineGroup]int64{}
		}
		group := dedup.QuarantineGroup{Endpoint: d.Text(), Reason: d.Text()}
		c.Quarantined[group] = d.Varint()
	}
}

func (c *Counts) appendNumbers(b []byte) []byte {
	for _, n := range c.numbers() {
		b = binary.AppendVarint(b, *n)
	}
	return b
}

func (c *Counts) appendGroups(b []byte) []byte {
	order := func(a, b dedup.QuarantineGroup) int {
		return cmp.Or(cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Reason, b.Reason))
	}
	for _, group := range slices.SortedFunc(maps.Keys(c.Quarantined), order) {
		b = wire.AppendString(wire.AppendString(b, group.Endpoint), group.Reason)
		b = binary.AppendVarint(b, c.Quarantined[group])
	}
	return b
}
