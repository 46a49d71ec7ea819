package dedup

import "time"

// Remember asks a store to remember the key of a claim beyond its window. Without it, a captured delivery is a new event
// once its window has ended; where the producer signs no time, nothing else tells that it is old.
//
// The store remembers 16 bytes of the key's hash, the day and a count, in the durable step that makes the record,
// for as long as its [Retention] says. A held claim whose window ends without an outcome is not remembered: it was
// never accepted. [Store.Purge] forgets the key.
type Remember struct {
	// Time is when the event happened, as its signed content says; zero where that does not say. It refuses nothing by
	// itself: an event that happened before the days that the store remembers is TooOld, because nothing tells whether it
	// was accepted then.
	Time time.Time
	// Most is how many events of the key are accepted while it is remembered. Defaults to 1.
	Most int

	traces []Traced // in place of the claim's key
	again  bool     // it is another occurrence of content that is known
}

// The defaults of [Retention].
const (
	DefaultRememberFor = 90 * 24 * time.Hour
	DefaultRememberMax = 2_000_000
)

// Retention bounds what a store remembers of keys beyond their windows ([Remember]). The zero value has the defaults.
type Retention struct {
	// For is how long a key is remembered after its last acceptance, in whole days. Defaults to 90 days; less than zero
	// remembers nothing.
	For time.Duration
	// Max is how many keys are remembered. Beyond it those of the oldest day are forgotten, except for today's. Defaults to
	// 2,000,000.
	Max int64
}

// WithDefaults returns the retention with its defaults filled in.
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

// First returns the first day whose keys are remembered at now, and 0 as long as nothing has been forgotten. since is
// the day on which the store began to remember; evicted is the first day that Max has left, 0 for all.
func (r Retention) First(since, evicted Day, now time.Time) Day {
	if first := DayOf(now.Add(-r.For)); first > since {
		return max(first, evicted)
	}
	return evicted
}

// Evict returns the first day to keep of at most Max keys, given their number by day: today at the latest.
func (r Retention) Evict(counts map[Day]int64, today Day) Day {
	left := r.Max
	first := today
	for day, oldest := today, oldestOf(counts); day >= oldest && day > 0; day-- {
		if left -= counts[day]; left < 0 && day < today {
			return first
		}
		first = day
	}
	return 0
}

// oldestOf returns the first day that has a count.
func oldestOf(counts map[Day]int64) Day {
	oldest := Day(1<<16 - 1)
	for day := range counts {
		oldest = min(oldest, day)
	}
	return oldest
}

// Day is a day in UTC, as the number of days since 1970.
type Day uint16

// DayOf returns the day of a time.
func DayOf(t time.Time) Day {
	return Day(max(0, min(t.Unix()/int64(24*time.Hour/time.Second), 1<<16-1))) //nolint:gosec // bounded
}

// Start returns the beginning of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*int64(24*time.Hour/time.Second), 0).UTC() }

// Trace is what a store remembers of a key.
type Trace struct {
	Day   Day   // of the last acceptance
	Count uint8 // of acceptances
}

// maxCount is the largest count: that many acceptances or more.
const maxCount = 1<<8 - 1

// Again returns the trace after another acceptance on a day. first is the first day that is remembered.
func (t Trace) Again(day, first Day) Trace {
	if t.Day < first {
		t.Count = 0
	}
	return Trace{Day: day, Count: min(t.Count, maxCount-1) + 1}
}

// Without returns the trace with one acceptance less, for an event that was never accepted after all.
func (t Trace) Without() Trace {
	if t.Count <= 1 {
		return Trace{}
	}
	t.Count--
	return t
}

// producerSkew is how far ahead of the store a producer's clock may be, for the comparison of an event's time with the days that
// are remembered.
const producerSkew = 24 * time.Hour

// Traced is a key that is remembered for a claim.
type Traced struct {
	Key Key
	// Most is how many acceptances it allows while it is remembered.
	Most int
	// own says that it is the key of the claim's record.
	own bool
}

// Traces lists what is remembered when a claim is accepted: its key; of content that may come more than once, the key of
// its first occurrence; and the first of the slots, which counts for all of them.
func (c *Claim) Traces() []Traced {
	switch {
	case c.Remember == nil:
		return nil
	case len(c.Remember.traces) > 0:
		return c.Remember.traces
	}
	return []Traced{{c.Key, c.Remember.Most, true}}
}

// resolved returns what is remembered of a claim of an occurrence. again says that it is not the first one in the window:
// the bounds of that have allowed it.
func (r *Remember) resolved(c Claim, again bool) *Remember {
	if r == nil {
		return nil
	}
	out := *r
	out.again, out.traces = again, []Traced{{c.Key, r.Most, !again}}
	if slots := c.Occurrence.Slots; len(slots) > 0 {
		out.traces = append(out.traces, Traced{slots[0], len(slots), false})
	}
	return &out
}

// Recall says what a claim meets that Decide says is New, given what the store remembers: New, Seen or TooOld. It is pure;
// every store agrees with it. old is the record that the claim's key has (the zero Record when there is none), found returns
// what is remembered of a key, and first is the first day that is remembered (0 when nothing was ever forgotten).
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
	if !known && first > 0 && !happened.IsZero() && happened.Before(first.Start().Add(producerSkew)) && happened.Before(now.Add(-c.window())) {
		return TooOld // what happened later, and has no record within the window, was never accepted
	}
	return New
}

// Recalled returns what a claim goes on from: what is remembered of the key, without the event of the record that the
// claim's key has when that was never accepted.
func (t Traced) Recalled(old Record, found Trace) Trace {
	if t.own && old.Event != "" && old.Unaccepted() {
		return found.Without()
	}
	return found
}
