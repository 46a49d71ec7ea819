// Package refused keeps refused deliveries for the operator, in memory and if wanted in files.
package refused

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/redact"
	"github.com/eyelet-dev/eyelet/receiver"
)

// The bounds of a ring. Every entry counts as at least floor bytes, so there are at most 512.
const (
	memory  = 16 << 20 // bytes of all entries
	floor   = memory / 512
	largest = memory / 4 // bytes of an entry; larger ones, which have huge heads, are not kept

	alike     = 32 // entries of one group
	perSecond = 50 // new entries
)

// The reasons for which deliveries are not kept, or no longer, as labels of a metric.
const (
	DroppedRate = "rate" // more came in a second than the share of its rank and network
	DroppedFull = "full" // it was too large, or others took its place
	DroppedDisk = "disk" // its file could not be written
)

// Options configure a ring.
type Options struct {
	// Rules are the places of credentials, which no output has.
	Rules redact.Rules
	// For is how long a delivery is kept, in memory and on disk.
	For time.Duration
	// Dir is the folder for *.http files of all deliveries in the ring; empty writes none. Max is
	// the size of all files, in bytes, and Log gets the first of several failures. The files of
	// earlier processes count.
	Dir string
	Max int64
	Log *slog.Logger
}

// Ring keeps the newest refused deliveries, within fixed bounds. What clients cannot choose shares
// them: endpoints have a reserve before unknown paths, known peers before others, and networks that
// send less before those that send more.
type Ring struct {
	Options
	started time.Time
	folder  *folder // nil if no files are written
	rules   atomic.Pointer[redact.Rules]

	mu      sync.Mutex
	number  uint64   // of the newest entry
	entries []*entry // the oldest first
	space   space
	groups  map[group]*kept
	dropped map[string]uint64

	second   int64 // since the start, to which the following belong
	inSecond [ranks]int64
	by       map[netip.Prefix]int64
}

// kept describes a group with entries.
type kept struct {
	entries int
	more    uint64 // deliveries that are not kept
	known   bool   // one came from a known peer, which too many refusals make unknown
}

// New returns an empty ring. The error is that of the folder.
func New(o Options) (*Ring, error) {
	r := &Ring{
		Options: o, started: time.Now(), space: newSpace(memory), groups: map[group]*kept{},
		dropped: map[string]uint64{DroppedRate: 0, DroppedFull: 0}, by: map[netip.Prefix]int64{},
	}
	r.rules.Store(&r.Rules)
	if o.Dir == "" {
		return r, nil
	}
	r.dropped[DroppedDisk] = 0
	var err error
	r.folder, err = openFolder(r, o)
	return r, err
}

// AddRules hides the places of credentials of more rules, also in what the ring has. Those of
// before stay hidden.
func (r *Ring) AddRules(more redact.Rules) {
	rules := *r.rules.Load()
	add := func(to, names []string) []string {
		to = append(slices.Clone(to), names...)
		slices.Sort(to)
		return slices.Compact(to)
	}
	rules.Fields, rules.Params = add(rules.Fields, more.Fields), add(rules.Params, more.Params)
	for _, path := range more.Members {
		if !slices.ContainsFunc(rules.Members, func(known []string) bool { return slices.Equal(known, path) }) {
			rules.Members = append(slices.Clone(rules.Members), path)
		}
	}
	r.rules.Store(&rules)
}

// Close ends the writing of files. The ring can still be read.
func (r *Ring) Close() error {
	if r.folder == nil {
		return nil
	}
	return r.folder.close()
}

// Add keeps a delivery if the bounds allow it. It is the function for [receiver.Config.Refused].
func (r *Ring) Add(_ context.Context, f receiver.Refused) {
	if g := groupOf(&f); r.admit(&f, g) {
		r.insert(newEntry(f, g))
	}
}

// admit reports whether the rate allows another entry, and counts it. A network gets at most as
// much as it leaves to the others, so n busy ones leave one part of n+1.
func (r *Ring) admit(f *receiver.Refused, g group) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if second := int64(f.Time.Sub(r.started) / time.Second); second != r.second {
		r.second, r.inSecond = second, [ranks]int64{}
		clear(r.by)
	}
	if k := r.groups[g]; k != nil {
		f.Known = f.Known || k.known
	}
	left, used := int64(perSecond), int64(0)
	for rank, n := range r.inSecond {
		if used += n; rank >= rankOf(f) {
			left = min(left, limit(rank, perSecond)-used)
		}
	}
	network := Network(f.Peer)
	if r.by[network] >= left {
		r.drop(g, DroppedRate)
		return false
	}
	r.inSecond[rankOf(f)]++
	r.by[network]++
	return true
}

// drop counts a delivery of the group that is not kept, or no longer.
func (r *Ring) drop(g group, reason string) {
	r.dropped[reason]++
	if k := r.groups[g]; k != nil {
		k.more++
	}
}

func (r *Ring) insert(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(e.Time)
	if e.charge > largest {
		r.drop(e.group, DroppedFull)
		return
	}
	if k := r.groups[e.group]; k != nil && k.entries == alike {
		r.evict(slices.IndexFunc(r.entries, func(old *entry) bool { return old.group == e.group }))
	}
	e.part = r.space.add(e.group, rankOf(&e.Refused), e.charge)
	for r.space.bytes > memory {
		r.evict(r.space.victim(len(r.entries), func(i int) *part { return r.entries[i].part }))
	}
	k := r.groups[e.group]
	if k == nil {
		k = &kept{}
		r.groups[e.group] = k
	}
	k.entries++
	k.known = k.known || e.Known
	r.number++
	e.number = r.number
	r.entries = append(r.entries, e)
	if r.folder != nil {
		r.folder.notify()
	}
}

// evict makes room for a newer entry.
func (r *Ring) evict(i int) {
	r.drop(r.entries[i].group, DroppedFull)
	r.remove(i)
}

func (r *Ring) remove(i int) {
	e := r.entries[i]
	r.entries = slices.Delete(r.entries, i, i+1)
	r.space.remove(e.part)
	if k := r.groups[e.group]; k.entries == 1 {
		delete(r.groups, e.group)
	} else {
		k.entries--
	}
}

// expire removes the entries that are too old.
func (r *Ring) expire(now time.Time) {
	for len(r.entries) > 0 && now.Sub(r.entries[0].Time) > r.For {
		r.remove(0)
	}
}

// Refused returns the deliveries that are kept, the newest first, without credentials.
func (r *Ring) Refused() []inspect.Refused {
	entries, more := r.snapshot()
	list := make([]inspect.Refused, 0, len(entries))
	for _, e := range slices.Backward(entries) {
		d := e.line(e.mask(r.rules.Load()))
		d.More = more[e.number]
		list = append(list, d)
	}
	return list
}

// RefusedDetail returns a delivery without credentials, or false if it is not kept.
func (r *Ring) RefusedDetail(number uint64) (inspect.RefusedDetail, bool) {
	e := r.from(number)
	if e == nil || e.number != number {
		return inspect.RefusedDetail{}, false
	}
	d := e.detail(r.rules.Load())
	_, more := r.snapshot()
	d.More = more[number]
	return d, true
}

// Kept returns a delivery as it came, credentials included, for a program that explains it. Less
// than the whole of a large body is kept; BodyRead is then partial.
func (r *Ring) Kept(number uint64) (receiver.Refused, bool) {
	e := r.from(number)
	if e == nil || e.number != number {
		return receiver.Refused{}, false
	}
	f := e.Refused
	if e.digest != [32]byte{} {
		f.BodyRead = receiver.BodyPartial
	}
	return f, true
}

// snapshot returns the entries, the oldest first, and for the newest of each group the number of
// deliveries that are not kept.
func (r *Ring) snapshot() (entries []*entry, more map[uint64]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(time.Now())
	more, seen := map[uint64]uint64{}, map[group]bool{}
	for _, e := range slices.Backward(r.entries) {
		if !seen[e.group] {
			seen[e.group], more[e.number] = true, r.groups[e.group].more
		}
	}
	return slices.Clone(r.entries), more
}

// from returns the oldest entry with at least this number, or nil.
func (r *Ring) from(number uint64) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(time.Now())
	i, _ := slices.BinarySearchFunc(r.entries, number, func(e *entry, n uint64) int { return cmp.Compare(e.number, n) })
	if i == len(r.entries) {
		return nil
	}
	return r.entries[i]
}

// lost counts a delivery without a file.
func (r *Ring) lost() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped[DroppedDisk]++
}

// Counts returns the number of deliveries that are kept, and of those that were dropped by reason.
func (r *Ring) Counts() (kept int, dropped map[string]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries), maps.Clone(r.dropped)
}
