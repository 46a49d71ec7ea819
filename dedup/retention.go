package dedup

import (
	"maps"
	"slices"
	"time"
)

// Remember makes a store remember the key of a claim beyond its window. Without it, a captured
// delivery is a new event once its window ended; if the producer signs no time, nothing else
// shows that it is old.
//
// The store keeps a [Trace]: 16 bytes of the hash of the key, a day and a count, stored in the
// same durable step as the record, for as long as its [Retention] allows. A held claim whose
// window ends without an outcome leaves no trace, because it was never accepted. [Store.Purge]
// deletes the trace.
type Remember struct {
	// Time is when the event happened, according to its signed content; zero if that does not
	// say. An event that happened before the days that the store remembers is TooOld, because
	// it may have been accepted then.
	Time time.Time
	// Most is how many events of the key are accepted while it is remembered. Defaults to 1.
	Most int
	// Also are other names of the event that leave a trace. A purge keeps these traces.
	Also []Traced

	traces []Traced // instead of the claim's key
	again  bool     // a further occurrence of known content
}

// The defaults of [Retention].
const (
	DefaultRememberFor = 90 * 24 * time.Hour
	DefaultRememberMax = 2_000_000
)

// Retention bounds the traces of a store (see [Remember]). The zero value means the defaults.
type Retention struct {
	// For is how long a key is remembered after its last acceptance, in whole days. Defaults to
	// 90 days. A negative value remembers nothing.
	For time.Duration
	// Max is how many keys are remembered. Beyond it the keys of the oldest days are forgotten,
	// but never those of today. Defaults to 2,000,000.
	Max int64
}

// WithDefaults returns the retention with zero fields set to their defaults.
func (r Retention) WithDefaults() Retention {
	if r.For == 0 {
		r.For = DefaultRememberFor
	}
	if r.Max <= 0 {
		r.Max = DefaultRememberMax
	}
	return r
}

// Off reports whether nothing is remembered.
func (r Retention) Off() bool { return r.For < 0 }

// First returns the first day that is remembered at now, 0 if nothing was forgotten yet. since
// is the day on which the store started to remember; evicted is the first day that Max allows,
// 0 for all.
func (r Retention) First(since, evicted Day, now time.Time) Day {
	if first := DayOf(now.Add(-r.For)); first > since {
		return max(first, evicted)
	}
	return evicted
}

// Evict returns the first day to keep so that at most Max keys remain, given the number of keys
// by day. It is today at the latest, and 0 for all.
func (r Retention) Evict(counts map[Day]int64, today Day) Day {
	left := r.Max
	for _, day := range slices.Backward(slices.Sorted(maps.Keys(counts))) {
		if left -= counts[day]; left < 0 && day < today {
			return day + 1
		}
	}
	return 0
}

// Day is a day in UTC, counted from 1970.
type Day uint16

// DayOf returns the day of a time.
func DayOf(t time.Time) Day {
	return Day(max(0, min(t.Unix()/int64(24*time.Hour/time.Second), 1<<16-1))) //nolint:gosec // bounded
}

// Start returns the beginning of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*int64(24*time.Hour/time.Second), 0).UTC() }

// Trace is what a store remembers of a key beyond its window.
type Trace struct {
	Day   Day   // of the last acceptance
	Count uint8 // of acceptances
}

// maxCount is the largest count of a trace; it also means more than that.
const maxCount = 1<<8 - 1

// Again returns the trace after another acceptance on a day. first is the first day that is
// remembered.
func (t Trace) Again(day, first Day) Trace {
	if t.Day < first {
		t.Count = 0
	}
	return Trace{Day: day, Count: min(t.Count, maxCount-1) + 1}
}

// Without returns the trace without one acceptance, for an event that was never accepted after all.
func (t Trace) Without() Trace {
	if t.Count <= 1 {
		return Trace{}
	}
	t.Count--
	return t
}

// producerSkew is how far the clock of a producer may be ahead when the time of an event is
// compared with the remembered days.
const producerSkew = 24 * time.Hour

// Traced is a key that a claim leaves a trace of.
type Traced struct {
	Key Key
	// Most is how many acceptances are allowed while the key is remembered.
	Most int
	// own marks the key of the claim's record.
	own bool
}

// Traces returns the keys that an accepted claim leaves traces of: its own; for content that
// may occur more than once, that of the first occurrence; its other names; and the first slot,
// which counts for all slots.
func (c *Claim) Traces() []Traced {
	switch {
	case c.Remember == nil:
		return nil
	case len(c.Remember.traces) > 0:
		return c.Remember.traces
	}
	return c.Remember.with(Traced{c.Key, c.Remember.Most, true})
}

// with appends the traces of other names.
func (r *Remember) with(own Traced) []Traced {
	return append([]Traced{own}, r.Also...)
}

// under returns the traces of a further occurrence of the content that a key is a digest of.
func (r *Remember) under(content Key) *Remember {
	if r == nil {
		return nil
	}
	out := *r
	out.traces = r.with(Traced{content, r.Most, false})
	return &out
}

// resolved returns the traces of a claim of an occurrence. again marks a further occurrence in
// the window, which the bounds of the window have allowed.
func (r *Remember) resolved(c Claim, again bool) *Remember {
	slots := c.Occurrence.Slots
	if r == nil || !again && len(slots) == 0 { // the key's own
		return r
	}
	out := *r
	out.again, out.traces = again, r.with(Traced{c.Key, r.Most, !again})
	if most := len(slots); most > 0 {
		if c.Occurrence.Spare {
			most = maxCount
		}
		out.traces = append(out.traces, Traced{slots[0], most, false})
	}
	return &out
}

// Recall decides a claim for which Decide returned New, given the traces of the store: New,
// Seen or TooOld. It is pure, and all stores agree with it. old is the record of the key (the
// zero Record if there is none), found returns the trace of a key, and first is the first day
// that is remembered (0 if nothing was forgotten yet).
func Recall(old Record, c Claim, found func(Key) Trace, first Day, now time.Time) Verdict {
	if c.Remember == nil || c.Remember.again || old.live(now) {
		return New
	}
	known := false
	for i, of := range c.Traces() {
		trace := of.Recalled(old, found(of.Key))
		if trace.Count == 0 || trace.Day < first {
			continue
		}
		if int(trace.Count) >= min(max(1, of.Most), maxCount) {
			return Seen
		}
		known = known || i == 0
	}
	happened := c.Remember.Time
	if known || first == 0 || happened.IsZero() || !happened.Before(first.Start().Add(producerSkew)) {
		return New
	}
	if happened.Before(now.Add(-c.window())) {
		return TooOld // a later event without a record was never accepted
	}
	return New
}

// Recalled returns the trace that a claim continues: the stored one, without the event of the
// claim's key if that was never accepted.
func (t Traced) Recalled(old Record, found Trace) Trace {
	if t.own && old.Event != "" && old.Unaccepted() {
		return found.Without()
	}
	return found
}
