package record

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

// Meta is what every commit writes: the counters, and the clock.
type Meta struct {
	Commit uint64        // number of the commit
	Seq    uint64        // sequence of the newest event
	Token  uint64        // newest token
	Boot   uint64        // how often the store was opened
	Wall   time.Time     // when the commit was made
	Window time.Duration // longest window of any claim
	Census Census        // what the store holds
	Counts Counts        // in which states
	Gaps   []Gap         // times that do not count for windows, oldest first

	Since   uint64 // the day on which the store began to remember keys beyond their windows
	Evicted uint64 // the first of those days that was not forgotten for lack of space; 0 for all

	Reclaimed time.Time // when space was last reclaimed, or the store was created
	Removed   int64     // bytes of bodies and keys deleted since then
}

// Gap is a time between two commits that does not count for windows.
type Gap struct {
	From time.Time     // the last commit before it
	Rest time.Duration // how long it was
}

// End returns the end of the gap.
func (g Gap) End() time.Time { return g.From.Add(g.Rest) }

// Encode returns the value of the meta.
func (m *Meta) Encode() []byte {
	c := wire.Codec{B: append(make([]byte, 0, 192), version)}
	m.code(&c)
	return Seal(MetaKey, c.B)
}

// DecodeMeta checks and decodes the value of the meta.
func DecodeMeta(value []byte) (m Meta, err error) {
	c, err := unseal(MetaKey, value)
	if err == nil {
		m.code(&c)
		err = ended(&c, MetaKey)
	}
	return m, err
}

func (m *Meta) code(c *wire.Codec) {
	for _, n := range [...]*uint64{
		&m.Commit, &m.Seq, &m.Token, &m.Boot, &m.Since, &m.Evicted, &m.Census.Entries, &m.Census.Sum,
	} {
		wire.Uint(c, n)
	}
	c.Bool(&m.Census.Known)
	c.Time(&m.Wall)
	c.Time(&m.Reclaimed)
	wire.Uint(c, &m.Window)
	wire.Int(c, &m.Removed)
	if n := c.Count(len(m.Gaps), 2); c.Decodes && n > 0 {
		m.Gaps = make([]Gap, n)
	}
	for i := range m.Gaps {
		c.Time(&m.Gaps[i].From)
		wire.Int(c, &m.Gaps[i].Rest)
	}
	m.Counts.code(c)
}

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

// Census counts what a store holds. Every commit writes it with the counters, and a start compares
// it with what it reads. This detects a missing table, a log damaged in its middle and a state that
// is not the newest one. Without the census, the event of a lost key would be accepted as new.
type Census struct {
	Known   bool   // false during a repair
	Entries uint64 // events of every generation, and aliases
	Sum     uint64 // of the digests of all entries, modulo 2^64
}

// Add adds entries and the sum of their digests.
func (c *Census) Add(entries, sum uint64) {
	c.Entries += entries
	c.Sum += sum
}

// Digest is what one entry adds to the sum. checksum is that of the value with the newest state of
// an event, or of the value of an alias. It covers the key; 0 is for an unreadable value.
func Digest(family byte, p Place, checksum uint32) uint64 {
	x := binary.LittleEndian.Uint64(p.Hash[:]) ^ uint64(family)<<56 ^ uint64(checksum)
	for _, n := range [...]uint64{
		binary.LittleEndian.Uint64(p.Hash[8:]), p.Older, uint64(checksum)<<32 | uint64(family),
	} {
		x = (x ^ n) + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
