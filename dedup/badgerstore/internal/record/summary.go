package record

import (
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
	room := 64 + hashSize*len(s.Open) + (hashSize+12)*len(s.Older) + (hashSize+2)*len(s.Recent)
	c := wire.Codec{B: append(make([]byte, 0, room), version)}
	s.code(&c)
	return c.B
}

// DecodeSummary decodes a summary.
func DecodeSummary(content []byte) (s Summary, err error) {
	c := wire.Reader(string(content[min(1, len(content)):]))
	if len(content) == 0 || content[0] != version {
		return s, errors.New("the summary has another version")
	}
	if s.code(&c); !c.Whole() {
		err = errors.New("the summary is damaged")
	}
	return s, err
}

func (s *Summary) code(c *wire.Codec) {
	c.Bool(&s.Truncated)
	older := make([]Place, 0, len(s.Older))
	for p := range s.Older {
		older = append(older, p)
	}
	open := c.Count(len(s.Open), hashSize)
	generations, recent := c.Count(len(older), hashSize+2), c.Count(len(s.Recent), hashSize+1)
	if c.Decodes {
		s.Open, older, s.Recent = make([]Hash, open), make([]Place, generations), make([]Recent, recent)
		s.Older = make(map[Place]int, generations)
	}
	for i := range s.Open {
		c.Bytes(s.Open[i][:])
	}
	for _, p := range older {
		number := s.Older[p]
		c.Bytes(p.Hash[:])
		wire.Uint(c, &p.Older)
		if wire.Uint(c, &number); c.Decodes {
			s.Older[p] = number
		}
	}
	last := uint64(0)
	for i := range s.Recent {
		r := &s.Recent[i]
		since := r.Seq - last
		c.Bytes(r.Hash[:])
		if wire.Uint(c, &since); c.Decodes {
			r.Seq = last + since
		}
		last = r.Seq
	}
}
