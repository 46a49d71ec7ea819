package record

import (
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
