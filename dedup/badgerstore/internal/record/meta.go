package record

import (
	"encoding/binary"
	"time"
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
	Gaps   []Gap         // times that do not count for windows, oldest first

	Since   uint64 // the day on which the store began to remember keys beyond their windows
	Evicted uint64 // the first of those days that was not forgotten for lack of space; 0 for all

	Reclaimed time.Time // when space was last reclaimed, or the store was created
	Removed   int64     // bytes of bodies deleted since then
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
	b := make([]byte, 1, 192)
	b[0] = version
	b = appendUintField(b, 1, m.Commit)
	b = appendUintField(b, 2, m.Seq)
	b = appendUintField(b, 3, m.Token)
	b = appendUintField(b, 4, m.Boot)
	b = appendTimeField(b, 5, m.Wall)
	b = appendUintField(b, 6, uint64(m.Window)) //nolint:gosec // decoded by the same conversion
	b = appendBoolField(b, 7, m.Census.Known)
	b = appendUintField(b, 8, m.Census.Entries)
	b = appendUintField(b, 9, m.Census.Sum)
	var gaps []byte
	for _, g := range m.Gaps {
		gaps = binary.AppendVarint(appendTime(gaps, g.From), int64(g.Rest))
	}
	b = appendField(b, 10, gaps)
	b = appendUintField(b, 20, m.Since)
	b = appendUintField(b, 21, m.Evicted)
	b = appendTimeField(b, 30, m.Reclaimed)
	b = appendUintField(b, 31, uint64(m.Removed)) //nolint:gosec // decoded by the same conversion
	return Seal(MetaKey, b)
}

// DecodeMeta checks and decodes the value of the meta.
func DecodeMeta(value []byte) (m Meta, err error) {
	content, err := unseal(MetaKey, value)
	if err != nil {
		return m, err
	}
	if content[0] == 1 {
		return decodeMeta1(content)
	}
	d := decoder{s: string(content[1:])}
	for f := d.fields(); f.next(); {
		m.decode(f.number, &f.content)
	}
	return m, d.end(MetaKey)
}

func (m *Meta) decode(number uint64, d *decoder) {
	switch number {
	case 1:
		m.Commit = d.uvarint()
	case 2:
		m.Seq = d.uvarint()
	case 3:
		m.Token = d.uvarint()
	case 4:
		m.Boot = d.uvarint()
	case 5:
		m.Wall = d.time()
	case 6:
		m.Window = time.Duration(d.uvarint()) //nolint:gosec // encoded by the same conversion
	case 7:
		m.Census.Known = d.byte() == 1
	case 8:
		m.Census.Entries = d.uvarint()
	case 9:
		m.Census.Sum = d.uvarint()
	case 10:
		for d.s != "" {
			m.Gaps = append(m.Gaps, Gap{From: d.time(), Rest: time.Duration(d.varint())})
		}
	case 20:
		m.Since = d.uvarint()
	case 21:
		m.Evicted = d.uvarint()
	case 30:
		m.Reclaimed = d.time()
	case 31:
		m.Removed = int64(d.uvarint()) //nolint:gosec // encoded by the same conversion
	}
}

// decodeMeta1 decodes version 1: five numbers of eight bytes and the time.
func decodeMeta1(content []byte) (m Meta, err error) {
	if len(content) < 1+5*8 {
		return m, Damaged(MetaKey, "too short", nil)
	}
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(content[1+8*i:]) }
	m = Meta{Commit: n(0), Seq: n(1), Token: n(2), Boot: n(3), Window: time.Duration(n(4))}
	d := decoder{s: string(content[1+5*8:])}
	m.Wall = d.time()
	return m, d.end(MetaKey)
}
