package dedup

import (
	"context"
	"iter"
)

// Source is the content of a store that no process has open, to be copied into a store of another
// kind. badgerstore.Export makes one, and pgstore.Copy takes it.
type Source struct {
	// Events is how many events Items yields.
	Events int64
	// Seq and Token are the largest numbers that the store has used.
	Seq, Token uint64
	// Since is the day on which the store began to remember keys beyond their windows, 0 if it did
	// not. Evicted is the first of those days that it did not forget for lack of space, 0 for all.
	Since, Evicted Day
	// Items yields everything, once. Records are as a start of the store leaves them: interrupted
	// tasks are pending with their attempt counted, and held claims are free. An error is the last
	// that it yields.
	Items func(ctx context.Context) iter.Seq2[Item, error]
}

// Item is an event of a [Source], the trace of a key, or a note.
type Item struct {
	// Record is the event with its body, which is nil if it is no longer kept, and not nil if it
	// is empty. Without an event, the item is a trace, or the note if that has a text.
	Record Record
	// Older marks an event whose key has a newer one.
	Older bool
	// Names are the aliases of the event that no other event took over.
	Names []Key
	// Hash is the beginning of the hash of the key of a trace.
	Hash  [16]byte
	Trace Trace
	Note  Note
}
