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
}

// traces returns the keys that the claim leaves traces of: its own or, for content that may occur
// more than once, that of the first occurrence; its other names; and the first slot, which counts
// for all slots.
func (s *Step[R]) traces() []Traced {
	all := append([]Traced{{s.content, s.claim.Remember.Most}}, s.claim.Remember.Also...)
	if o := s.slots; o != nil {
		most := len(o.Slots)
		if o.Spare {
			most = maxCount
		}
		all = append(all, Traced{o.Slots[0], most})
	}
	return all
}

// recalled returns the trace that the claim continues: that of the key, without the event of the
// claim's key if that was never accepted. old is the record of the claim's key.
func (s *Step[R]) recalled(k Key, old Record) (Trace, error) {
	t, err := s.Trace(k)
	if k == s.claim.Key && old.Event != "" && old.Unaccepted() {
		t = t.Without()
	}
	return t, err
}

// recall decides by the traces of a claim for which Decide returned New: New, Seen or TooOld. The
// bounds of the window have allowed a further occurrence.
func (s *Step[R]) recall(old Record) (Verdict, error) {
	if s.claim.Remember == nil || s.number > 0 || old.live(s.now) {
		return New, nil
	}
	first, remembers, err := s.FirstDay()
	if err != nil || !remembers {
		return New, err
	}
	known := false
	for i, of := range s.traces() {
		trace, err := s.recalled(of.Key, old)
		if err != nil {
			return New, err
		}
		if trace.Count == 0 || trace.Day < first {
			continue
		}
		if int(trace.Count) >= min(max(1, of.Most), maxCount) {
			return Seen, nil
		}
		known = known || i == 0
	}
	happened := s.claim.Remember.Time
	if known || first == 0 || happened.IsZero() || !happened.Before(first.Start().Add(producerSkew)) {
		return New, nil
	}
	if happened.Before(s.now.Add(-s.claim.window())) {
		return TooOld, nil // a later event without a record was never accepted
	}
	return New, nil
}

// remember adds the traces of the claim.
func (s *Step[R]) remember(old Record) error {
	if s.claim.Remember == nil {
		return nil
	}
	first, remembers, err := s.FirstDay()
	if err != nil || !remembers {
		return err
	}
	for _, of := range s.traces() {
		t, err := s.recalled(of.Key, old)
		if err == nil {
			err = s.SetTrace(of.Key, t.Again(DayOf(s.now), first))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
