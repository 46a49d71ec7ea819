package badgerstore

import "github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"

// kept is an event behind the newest one of its key.
type kept struct {
	seq        uint64
	generation int
}

// generations tells which older generations of a key are kept: dead letters whose key came again after its window,
// mostly, of which there are few. Where the newest event of a key is gone, the next one is counted on from them. To look
// for them in the database would cost each new key a walk through all tables.
type generations map[record.Hash][]kept

// note keeps what there is to know of a row; only the older ones count.
func (g generations) note(r *row) {
	h, seq := r.place.Hash, r.place.Older
	if seq == 0 {
		return
	}
	var left []kept
	for _, k := range g[h] {
		if k.seq != seq {
			left = append(left, k)
		}
	}
	if !r.gone {
		left = append(left, kept{seq, r.rec.Generation})
	}
	if g[h] = left; len(left) == 0 {
		delete(g, h)
	}
}

// lastGeneration returns the largest number of the older generations of a key that are kept, 0 when there is none.
func (b *batch) lastGeneration(h record.Hash) int {
	last := 0
	for _, all := range [...][]kept{b.s.older[h], b.retired[h]} {
		for _, k := range all {
			if r := b.rows[record.Place{Hash: h, Older: k.seq}]; r == nil || !r.gone {
				last = max(last, k.generation)
			}
		}
	}
	return last
}

// noteRetired makes a generation count that became an older one in this batch.
func (b *batch) noteRetired(r *row) {
	if b.retired == nil {
		b.retired = generations{}
	}
	h, before := r.place.Hash, b.retired[r.place.Hash]
	b.retired[h] = append(before[:len(before):len(before)], kept{r.place.Older, r.rec.Generation})
	b.undo = append(b.undo, func() { b.retired[h] = before })
}
