package badgerstore

import (
	"cmp"
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

// announce notes which events a commit is about to change.
func (c *committer) announce(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight = c.inFlight[:0] // a refused commit leaves its own
	for _, r := range b.rows {
		if r.changed() {
			c.inFlight = append(c.inFlight, r.place)
		}
	}
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

// takeSummary reads the events of the summary instead of all.
func (v *recovery) takeSummary(s *summarizer) error {
	found := survey{}
	for _, r := range s.Recent {
		found.newest.events = append(found.newest.events, listed{r.Seq, record.Place{Hash: r.Hash}})
	}
	if found.newest.truncated = s.Truncated; s.Truncated && len(s.Recent) > 0 {
		found.newest.floor = s.Recent[0].Seq
	}
	places := make([]record.Place, 0, len(s.open))
	for h := range s.open {
		places = append(places, record.Place{Hash: h})
	}
	for p, number := range s.Older {
		_, open := s.open[p.Hash]
		if open || number == 0 {
			places = append(places, p)
		} else {
			v.older[p.Hash] = append(v.older[p.Hash], generation{p.Older, number})
		}
	}
	slices.SortFunc(places, func(a, b record.Place) int { return cmp.Compare(string(a.Hash[:]), string(b.Hash[:])) })
	err := v.db.View(func(in *kv.View) error {
		(&scanner{core: v.core, in: in, found: &found, visit: v.visit}).places(places)
		return nil
	})
	v.publishStock(found)
	return err
}
