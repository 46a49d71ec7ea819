package record

import (
	"encoding/binary"
	"errors"

	"github.com/eyelet-dev/eyelet/dedup/internal/wire"
)

// Summary is what a start needs of the events of a store, so that it does not read all of them.
type Summary struct {
	Open      []Hash        // of events with open tasks, and possibly of others
	Older     map[Place]int // the older generations with their numbers; zero for one to be read
	Recent    []Recent      // the newest events, by ascending sequence
	Truncated bool          // older events were left out of Recent
}

// Recent is an event in the order of acceptance.
type Recent struct {
	Seq  uint64
	Hash Hash
}

// Encode returns the summary as bytes.
func (s *Summary) Encode() []byte {
	b := make([]byte, 0, 64+hashSize*len(s.Open)+(hashSize+12)*len(s.Older)+(hashSize+2)*len(s.Recent))
	b = append(b, version, 0)
	if s.Truncated {
		b[1] = 1
	}
	b = binary.AppendUvarint(b, uint64(len(s.Open)))
	for i := range s.Open {
		b = append(b, s.Open[i][:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Older)))
	for p, number := range s.Older {
		b = binary.AppendUvarint(append(b, p.Hash[:]...), p.Older)
		b = binary.AppendUvarint(b, uint64(number)) //nolint:gosec // not negative
	}
	last := uint64(0)
	for i := range s.Recent {
		b = binary.AppendUvarint(append(b, s.Recent[i].Hash[:]...), s.Recent[i].Seq-last)
		last = s.Recent[i].Seq
	}
	return b
}

// DecodeSummary decodes a summary.
func DecodeSummary(content []byte) (s Summary, err error) {
	d := wire.Decoder{S: string(content)}
	if d.Byte() != version {
		return s, errors.New("the summary has another version")
	}
	s.Truncated = d.Byte() == 1
	for n := d.Count(); n > 0 && !d.Bad; n-- {
		s.Open = append(s.Open, hashIn(&d))
	}
	s.Older = map[Place]int{}
	for n := d.Count(); n > 0 && !d.Bad; n-- {
		p := Place{Hash: hashIn(&d), Older: d.Uvarint()}
		s.Older[p] = int(d.Uvarint())
	}
	for last := uint64(0); d.S != "" && !d.Bad; {
		r := Recent{Hash: hashIn(&d)}
		last += d.Uvarint()
		r.Seq = last
		s.Recent = append(s.Recent, r)
	}
	if d.Bad {
		err = errors.New("the summary is damaged")
	}
	return s, err
}

func hashIn(d *wire.Decoder) (h Hash) {
	copy(h[:], d.Take(hashSize))
	return h
}
