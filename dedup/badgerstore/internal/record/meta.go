package record

import (
	"encoding/binary"
	"time"

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
	f := fields{out: append(make([]byte, 0, 192), version)}
	m.fields(&f)
	return Seal(MetaKey, f.out)
}

// DecodeMeta checks and decodes the value of the meta.
func DecodeMeta(value []byte) (m Meta, err error) {
	content, err := unseal(MetaKey, value)
	if err != nil {
		return m, err
	}
	d := wire.Decoder{S: string(content[1:])}
	f := fields{in: &d}
	m.fields(&f)
	f.end()
	return m, ended(&d, MetaKey)
}

func (m *Meta) fields(f *fields) {
	uintField(f, 1, &m.Commit)
	uintField(f, 2, &m.Seq)
	uintField(f, 3, &m.Token)
	uintField(f, 4, &m.Boot)
	f.time(5, &m.Wall)
	uintField(f, 6, &m.Window)
	f.bool(7, &m.Census.Known)
	uintField(f, 8, &m.Census.Entries)
	uintField(f, 9, &m.Census.Sum)
	var gaps []byte
	for _, g := range m.Gaps {
		gaps = binary.AppendVarint(wire.AppendTime(gaps, g.From), int64(g.Rest))
	}
	for d := f.list(10, gaps); d != nil && d.S != ""; {
		m.Gaps = append(m.Gaps, Gap{From: d.Time(), Rest: time.Duration(d.Varint())})
	}
	uintField(f, 20, &m.Since)
	uintField(f, 21, &m.Evicted)
	f.time(30, &m.Reclaimed)
	uintField(f, 31, &m.Removed)
	m.Counts.fields(f)
}
