package badgerstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
	"github.com/eyelet-dev/eyelet/dedup/internal/taskqueue"
)

// summarizer implements [kv.Summary]. It names every event with an open task: a start reads
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
	from  *committer // nil until it runs
	known bool       // what follows is the state of a starting store
	open  map[record.Hash]struct{}
	record.Summary
}

// Restore implements [kv.Summary].
func (s *summarizer) Restore(content []byte) {
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

// Replay implements [kv.Summary].
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

// Save implements [kv.Summary].
func (s *summarizer) Save(at uint64) (commit uint64, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.from != nil:
		return s.from.summarize()
	case s.known:
		s.Open = slices.Collect(maps.Keys(s.open))
		return at, s.Encode()
	}
	return 0, nil
}

// follow makes later summaries those of a committer, which recovery is done with.
func (s *summarizer) follow(c *committer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.open, s.Summary = c, nil, record.Summary{}
}

// unqueue removes a task from the queue whose event cannot be read.
func (c *committer) unqueue(it taskqueue.Item[record.Hash]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks.Remove(it.Seq, it.Task)
	c.unqueued[it.Seq] = it.Event
}

// summarize returns the summary after the last commit, which the one in progress may follow. There
// is none while damage is known, so that the next start reads, and reports, all of it again.
func (c *committer) summarize() (commit uint64, content []byte) {
	if c.damages.err() != nil {
		return 0, nil
	}
	c.mu.Lock()
	s := record.Summary{Older: map[record.Place]int{}, Truncated: c.recent.truncated}
	s.Open = slices.Collect(maps.Values(c.unqueued))
	for _, h := range c.tasks.Events() {
		s.Open = append(s.Open, h)
	}
	for h, all := range c.older {
		for _, old := range all {
			s.Older[record.Place{Hash: h, Older: old.seq}] = old.number
		}
	}
	for _, p := range c.inFlight {
		s.Open = append(s.Open, p.Hash)
		if p.Older != 0 {
			s.Older[p] = 0
		}
	}
	commit, recent := c.meta.Commit, c.recent.events
	c.mu.Unlock()
	s.Recent = make([]record.Recent, len(recent))
	for i, l := range recent {
		s.Recent[i] = record.Recent{Seq: l.seq, Hash: l.place.Hash}
	}
	return commit, s.Encode()
}
