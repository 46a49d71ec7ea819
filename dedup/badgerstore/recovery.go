package badgerstore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/kv"
	"github.com/eyelet-dev/eyelet/dedup/badgerstore/internal/record"
)

// recovery runs before the committer: it checks that the store is whole, restores the memory of
// the committer, and repairs what a crash left behind.
type recovery struct {
	*committer
	running []*row        // events whose tasks were interrupted, or wait by a clock that was set back
	behind  time.Duration // how far the clock is behind the last commit
}

// lostGap exceeds the number of events and tokens that lost logs can hold.
const lostGap = 1 << 32

// check compares the counters with the clock and the content. It writes
// nothing unless the store may be opened.
func (v *recovery) check() error {
	m, err := readMeta(v.db)
	if err != nil {
		return fmt.Errorf("store %s: %w; restore a backup", v.dir, err)
	}
	if err := checkClock(v.core, m); err != nil {
		return err
	}
	v.meta = m
	v.openGaps()
	if by := m.Wall.Sub(v.now()); by > clockSlack {
		v.behind = by
	}
	v.published = m.Seq
	if s := v.summary; s.known && m.Census.Known {
		if err := v.takeSummary(s); err != nil {
			return fmt.Errorf("store %s: %w", v.dir, err)
		}
		v.acceptMeta(v.db.Lost())
		return nil
	}
	return v.takeStock()
}

// checkClock refuses a clock that is behind the last commit. One that is far ahead is a gap.
func checkClock(c *core, m record.Meta) error {
	now := c.now()
	if m.Wall.IsZero() || c.options.AcceptClock || !now.Before(m.Wall.Add(-clockSlack)) {
		return nil
	}
	return fmt.Errorf("store %s: the clock says %s, but the last commit was later, at %s: set the clock; "+
		"if the clock is right, accept it once (AcceptClock, --accept-clock)",
		c.dir, now.Format(time.RFC3339), m.Wall.Format(time.RFC3339))
}

// openGaps records the time since the last commit if it was too long to count.
func (v *recovery) openGaps() {
	m := &v.meta
	all, found := gaps(m.Gaps).at(v.now(), m.Wall, max(m.Window, dedup.DefaultWindow))
	if found != nil {
		v.log.Warn("the last commit is longer ago than a window: that time does not count for windows, and "+
			"nothing is deleted for a day. Set the clock if it is wrong",
			"dir", v.dir, "last", m.Wall, "now", v.now(), "gap", found.Rest)
	}
	m.Gaps, v.gaps = all, all
}

// takeStock reads what the store holds, and compares it with what the last commit counted.
func (v *recovery) takeStock() error {
	found, err := surveyAll(v.core, v.visit)
	if err != nil {
		return fmt.Errorf("store %s: %w", v.dir, err)
	}
	counted := v.meta.Census
	missing := missing(counted, found.census, found.damaged)
	if missing && !v.options.AcceptLoss {
		return fmt.Errorf("store %s lost acknowledged data: %s. Its files are unchanged; %s", v.dir,
			difference(counted, found.census), restoreOrAccept)
	}
	v.meta.Census, v.meta.Counts = found.census, found.total.Counts
	v.publishStock(found)
	if missing {
		v.log.Warn("opened with missing events (accept-loss)", "dir", v.dir, "counted", counted.Entries,
			"found", found.census.Entries)
	}
	v.acceptMeta(missing || v.db.Lost())
	return nil
}

// takeSummary reads the events of the summary instead of all.
func (v *recovery) takeSummary(s *summarizer) error {
	found := survey{newest: recent{events: s.Recent, truncated: s.Truncated}}
	if s.Truncated && len(s.Recent) > 0 {
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
	found.newest.trim()
	v.publishStock(found)
	return err
}

// visit remembers an event that may have open tasks, or an older generation.
func (v *recovery) visit(r *row) {
	now := v.now()
	v.older.update(r)
	if interrupted(&r.rec) || v.behind > 0 && shortenWaits(&r.edit().rec, now, v.behind) {
		v.running = append(v.running, r)
		return
	}
	v.schedule(r)
}

// publishStock publishes what a start has found.
func (v *recovery) publishStock(found survey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.recent = found.newest
	v.count(&v.meta.Counts)
}

func interrupted(r *dedup.Record) bool {
	return slices.ContainsFunc(r.Tasks, func(t dedup.Task) bool { return t.State == dedup.Running })
}

// acceptMeta takes the counters over. If commits are lost and that was accepted, it makes them
// those of a new history.
func (v *recovery) acceptMeta(lost bool) {
	m := &v.meta
	if lost { // the numbers of the lost commits must not be used again
		m.Seq, m.Token = m.Seq+lostGap, m.Token+lostGap
		m.Commit = max(m.Commit, v.db.Newest())
	}
	v.startTraces()
	m.Boot++
	m.Window = max(m.Window, dedup.DefaultWindow)
	if m.Reclaimed.IsZero() {
		m.Reclaimed = v.now()
	}
	v.published = m.Seq
	v.removed.Store(m.Removed)
	v.reclaimed.Store(m.Reclaimed.UnixNano())
}

// startTraces records when the store began to remember keys, and logs it until that is For ago.
// Keys accepted before are not remembered: repeated after their window, they are new.
func (v *recovery) startTraces() {
	m, keep, now := &v.meta, v.options.Remember, v.now()
	if keep.Off() {
		m.Since, m.Evicted = 0, 0
		return
	}
	if m.Since == 0 {
		m.Since = uint64(dedup.DayOf(now))
	}
	if since := dedup.Day(m.Since); now.Before(since.Start().Add(keep.For)) { //nolint:gosec // a day
		v.log.Info("events are remembered beyond their windows from this day on; earlier ones are not",
			"dir", v.dir, "since", since.Start().Format(time.DateOnly), "for", keep.For)
	}
}

// run repairs what the process before left behind.
func (v *recovery) run() error {
	if err := v.resumeTasks(); err != nil {
		return err
	}
	switch {
	case v.behind > 0:
		v.log.Warn("opened with the clock behind the last commit (accept-clock): waits are shortened", "dir", v.dir,
			"behind", v.behind, "events", len(v.running))
	case len(v.running) > 0:
		v.log.Info("tasks were interrupted by the end of the process", "dir", v.dir, "events", len(v.running))
	}
	return nil
}

// resumeTasks makes interrupted tasks wait for their next attempt, and others no longer than they
// had to before the clock was set back. It commits at least once, so that every start has a number.
func (v *recovery) resumeTasks() error {
	rows := v.running
	for committed := false; !committed || len(rows) > 0; committed = true {
		err := v.commitDirect(func(b *batch) {
			for size := int64(0); len(rows) > 0 && size <= batchBytes; rows = rows[1:] {
				size += rows[0].stateSize()
				v.resume(b, rows[0])
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *recovery) resume(b *batch, r *row) {
	r.before = r.tally()
	next := r.edit()
	shortenWaits(&next.rec, b.now, v.behind)
	for i, t := range next.rec.Tasks {
		wait := v.options.RecoverWait(t.Attempt)
		if next.rec.Hold {
			wait = 0 // the next delivery runs it
			if t.State == dedup.Running && v.gaps.covers(t.Until) {
				next.rec.Tasks[i].Until = b.now // its lease ended in a time that does not count
			}
		}
		next.rec.Recover(i, b.now, wait)
		if next.rec.Hold && t.State == dedup.Running {
			v.gaps.extend(&next.rec)
		}
	}
	b.put(next)
}

// missing compares what a start found with what the last commit counted. Damaged values cannot
// be compared and are reported on their own, but the number of entries has to agree.
func missing(counted, found record.Census, damaged int) bool {
	return counted.Known && counted != found && (damaged == 0 || counted.Entries != found.Entries)
}

func difference(want, have record.Census) string {
	if want.Entries == have.Entries {
		return fmt.Sprintf("all %d events and aliases that its last commit counted are there, but not all in "+
			"their newest state", want.Entries)
	}
	return fmt.Sprintf("its last commit counted %d events and aliases, and %d are there", want.Entries, have.Entries)
}

// restoreOrAccept is what to do about a loss.
const restoreOrAccept = "restore a backup, or accept the loss (AcceptLoss, --accept-loss): lost events are gone, " +
	"and a repeated delivery of one is new"
