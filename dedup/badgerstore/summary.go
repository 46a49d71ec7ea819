package badgerstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// summarizer implements [kv.Summarizer]. It names every event with an open task: a start reads
// only those and what the redo log has changed since:
//
//   - The committer removes an event from it after the commit that finished the last task, and
//     names the events that a commit in progress changes.
//   - A start adds each event that a commit changes which it applies again, and each older
//     generation.
//
// It may name events that are finished or gone: a start reads the state of each one.
type summarizer struct {
	mu    sync.Mutex
	from  func() (commit uint64, content []byte) // nil until the committer runs
	known bool                                   // what follows is the state of a starting store
	open  map[record.Hash]struct{}
	record.Summary
}

// Load implements [kv.Summarizer].
func (s *summarizer) Load(content []byte) {
	var err error
	s.known = false
	if content == nil {
		return
	}
	if s.Summary, err = record.DecodeSummary(content); err != nil {
		return
	}
	s.known, s.open = true, make(map[record.Hash]struct{}, len(s.Open))
	for _, h := range s.Open {
		s.open[h] = struct{}{}
	}
}

// Replay implements [kv.Summarizer].
func (s *summarizer) Replay(e kv.Entry) {
	if !s.known || !record.KnownKey(e.Key) {
		return
	}
	switch e.Key[0] {
	case record.FamilyOlder:
		s.Older[record.PlaceOf(e.Key)] = 0
		fallthrough
	case record.FamilyEvent:
		s.open[record.PlaceOf(e.Key).Hash] = struct{}{}
	}
}

// Save implements [kv.Summarizer].
func (s *summarizer) Save(at uint64) (commit uint64, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.from != nil:
		return s.from()
	case s.known:
		s.Open = slices.Collect(maps.Keys(s.open))
		return at, s.Encode()
	}
	return 0, nil
}

// follow makes later summaries those of the committer, which recovery is done with.
func (s *summarizer) follow(from func() (commit uint64, content []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.open, s.Summary = from, nil, record.Summary{}
}
