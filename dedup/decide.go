package dedup

import (
	"fmt"
	"slices"
	"time"
)

// Decide says what a claim meets, given the record that its key has (the zero Record when there is none).
// It is pure; every store agrees with it. Aliases are the store's to look up, after Decide said New.
//
// A conflict comes before anything else that a live record could say, so that a key which is in flight with
// one payload never tells its state to the sender of another. A held claim that is free again is New to a claim
// that holds, and Known to any other.
func Decide(old Record, c Claim, now time.Time) Verdict {
	if old.Event == "" || old.Expired(now) {
		return New
	}
	if old.Fingerprint != (Fingerprint{}) && c.Fingerprint != (Fingerprint{}) && old.Fingerprint != c.Fingerprint {
		return Conflict
	}
	if c.Hold && free(old, now) {
		return New
	}
	if c.Series != (Key{}) && !old.Newest {
		return Superseded
	}
	return Known
}

// Supersede makes the record an older one of its series. Stores call it for the record that had the series when another
// one is accepted. Its window ends when it would have ended, which may be at once.
func (r *Record) Supersede() { r.Newest = false }

// free reports whether the record is of a claim that was held and is held no longer, without an outcome: it
// was released, its lease ran out, or the process that held it died.
func free(r Record, now time.Time) bool {
	return r.freed() || r.lapses() && !r.Held(now)
}

// Continues reports whether the claim goes on with the event that old is, a held claim that is free, instead of
// making another one.
func Continues(old Record, c Claim, now time.Time) bool {
	return c.Hold && old.Event != "" && !old.Expired(now) && free(old, now)
}

// AliasTaken reports whether an alias of the claim belongs to other, a live record of another key: the verdict is
// then Aliased instead of New. other is the zero Record when no record has the alias. Aliases of SpaceSent are never taken.
func AliasTaken(other Record, alias Key, c Claim, now time.Time) bool {
	return other.live(now) && other.Key != c.Key && alias.Space != SpaceSent
}

// Full reports whether as many deliveries as wanted are kept aside for original already, so that only its
// counter grows. A delivery whose original is gone (the zero Record) is kept.
func (a *Quarantine) Full(original Record) bool {
	return original.Event != "" && a.Max > 0 && original.QuarantineCount >= a.Max
}

// maxAliases is how many aliases a record keeps. A claim that is released again and again brings new ones
// each time (every delivery has its own nonce); the oldest give way.
const maxAliases = 64

// Accept returns the record that a claim with the verdict New makes. old is the record that the key had
// (zero when none), event and seq are what the store gives to an event that it sees for the first time, token
// is a token larger than any before it.
//
// A held claim that was free goes on as the event that it was, with its attempts counted on. The new claim adds
// its aliases and its lease, and nothing else: whatever it says beyond the fingerprint need not be signed.
//
// The claim must pass [Claim.Check]. The record shares its slices and maps with the claim, or with old.
func Accept(old Record, c Claim, event string, seq, token uint64, now time.Time) Record {
	if Continues(old, c, now) {
		r := old
		r.Aliases, r.Tasks = joinAliases(old.Aliases, c.Names()), slices.Clone(old.Tasks)
		r.Newest = c.Series != (Key{})
		r.Start(0, token, now, c.Lease)
		return r
	}
	r := Record{Event: event, Seq: seq, Accepted: now, Generation: old.Generation + 1, Aliases: c.Names(), Fingerprint: c.Fingerprint}
	r.Key, r.Payload, r.Newest = c.Key, c.Payload, c.Series != (Key{})
	r.Response, r.Hold, r.DropBody, r.Note = c.Response, c.Hold, c.DropBody, c.Note
	r.Window = c.Window
	if r.Window <= 0 {
		r.Window = DefaultWindow
	}
	for _, t := range c.Tasks {
		r.Tasks = append(r.Tasks, Task{Handler: t.Handler, Lane: t.Lane, State: Pending, Due: now})
	}
	switch {
	case c.Quarantine != nil:
		r.QuarantineReason, r.Original, r.Hold = c.Quarantine.Reason, c.Quarantine.Of, false
		if r.Shared = c.Quarantine.Share; r.Shared {
			r.Payload.Body = nil
		}
		for i := range r.Tasks {
			r.Tasks[i].State, r.Tasks[i].Reason, r.Tasks[i].Ended = Dead, c.Quarantine.Reason, now
		}
	case c.Hold:
		r.Start(0, token, now, c.Lease)
	}
	r.settle(now)
	return r
}

// joinAliases returns the aliases of before and after, each once, the newest maxAliases of them.
func joinAliases(before, after []Key) []Key {
	var out []Key
	for _, k := range before {
		if !slices.Contains(after, k) {
			out = append(out, k)
		}
	}
	out = append(out, after...)
	return out[max(0, len(out)-maxAliases):]
}

// Start makes task i running under a new token, and counts the attempt.
func (r *Record) Start(i int, token uint64, now time.Time, lease time.Duration) Lease {
	t := &r.Tasks[i]
	t.State, t.Token, t.Until, t.Started = Running, token, now.Add(lease), now
	t.Attempt++
	r.settle(now)
	return Lease{Event: r.Event, Task: i, Token: token, Until: t.Until}
}

// Holds reports whether the lease is the newest of its task, and the task still runs.
func (r *Record) Holds(l Lease) bool {
	return l.Event == r.Event && l.Task >= 0 && l.Task < len(r.Tasks) &&
		r.Tasks[l.Task].Token == l.Token && r.Tasks[l.Task].State == Running
}

// Extend makes the lease end d from now. It returns ErrLeaseLost, and changes nothing, unless the record
// Holds the lease.
func (r *Record) Extend(l Lease, d time.Duration, now time.Time) error {
	if !r.Holds(l) {
		return ErrLeaseLost
	}
	r.Tasks[l.Task].Until = now.Add(d)
	return nil
}

// Finish applies the result of leased work. It returns ErrLeaseLost, and changes nothing, unless the record
// Holds the lease, and ErrInvalid for a result of no known kind. A held claim that is retried is
// released: only the next delivery runs it again.
func (r *Record) Finish(l Lease, res Result, now time.Time) error {
	if !r.Holds(l) {
		return ErrLeaseLost
	}
	if res.Kind < ResultDone || res.Kind > ResultRelease {
		return fmt.Errorf("%w: kind %d of result", ErrInvalid, res.Kind)
	}
	t := &r.Tasks[l.Task]
	t.Ended, t.Reason, t.Err, t.Until = now, res.Reason, res.Err, time.Time{}
	switch res.Kind {
	case ResultDone:
		t.State = Done
		if res.Response.Status != 0 {
			r.Response = res.Response
		}
	case ResultDead:
		t.State = Dead
		if res.Response.Status != 0 {
			r.Response = res.Response
		}
	case ResultRetry:
		t.State, t.Due = Pending, now.Add(max(0, res.After))
		if res.Postponed {
			t.Postponed++
		}
	case ResultRelease:
		t.State, t.Due = Pending, now
		if !r.Hold {
			t.Attempt--
		}
	}
	r.settle(now)
	return nil
}

// Recover makes task i, when it is running, pending again after the process that ran it died or its lease
// ran out. The attempt counts; the task is due after wait. A held claim becomes free.
func (r *Record) Recover(i int, now time.Time, wait time.Duration) {
	t := &r.Tasks[i]
	if t.State != Running {
		return
	}
	freed := now
	if r.Hold && t.Until.Before(now) {
		freed = t.Until // as Ends has it, however late this is noticed
	}
	t.State, t.Due, t.Until, t.Ended = Pending, now.Add(wait), time.Time{}, now
	t.Reason, t.Err = ReasonInterrupted, "the attempt was interrupted: its process ended or its lease ran out"
	r.settle(freed)
}

// Reopen makes dead tasks pending with their attempts counted from zero and adds tasks of handlers that the
// record does not have. It returns ErrNotDead when that changes nothing, and for a claim that is held or
// waits for its next delivery; ErrNoPayload when the body was dropped; ErrInvalid for a task without a handler. An
// error leaves the record untouched.
func (r *Record) Reopen(tasks []NewTask, now time.Time) error {
	for _, n := range tasks {
		if n.Handler == "" {
			return fmt.Errorf("%w: task without a handler", ErrInvalid)
		}
	}
	if r.Hold && r.Open() || !r.reopens(tasks) {
		return ErrNotDead
	}
	if r.Dropped() {
		return ErrNoPayload
	}
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.State == Dead {
			*t = Task{Handler: t.Handler, Lane: t.Lane, State: Pending, Due: now, Token: t.Token}
		}
	}
	for _, n := range tasks {
		if !r.has(n.Handler) {
			r.Tasks = append(r.Tasks, Task{Handler: n.Handler, Lane: n.Lane, State: Pending, Due: now})
		}
	}
	r.Hold = false
	r.settle(now)
	return nil
}

// RunNow makes the pending tasks that wait for a later time due at now. It returns ErrNotWaiting, and changes
// nothing, when there is none; a claim that is held or was released waits for its next delivery, not for time.
func (r *Record) RunNow(now time.Time) error {
	waits := func(t Task) bool { return t.State == Pending && t.Due.After(now) }
	if r.Hold || !slices.ContainsFunc(r.Tasks, waits) {
		return ErrNotWaiting
	}
	for i := range r.Tasks {
		if waits(r.Tasks[i]) {
			r.Tasks[i].Due = now
		}
	}
	return nil
}

// reopens reports whether there is a dead task, or one of a handler that the record does not have.
func (r *Record) reopens(tasks []NewTask) bool {
	for _, t := range r.Tasks {
		if t.State == Dead {
			return true
		}
	}
	for _, n := range tasks {
		if !r.has(n.Handler) {
			return true
		}
	}
	return false
}

func (r *Record) has(handler string) bool {
	for _, t := range r.Tasks {
		if t.Handler == handler {
			return true
		}
	}
	return false
}

// settle keeps Finished and Expires true to the tasks, and drops the body that nobody needs any more. The
// window begins with the last outcome and never runs while work is left. A claim that was held and then freed
// has its window too, so that an event whose producer gave up does not stay for ever.
func (r *Record) settle(now time.Time) {
	if r.Open() && !r.freed() {
		r.Finished, r.Expires = time.Time{}, time.Time{}
		return
	}
	if r.Finished.IsZero() {
		r.Finished, r.Expires = now, now.Add(r.Window)
	}
	if r.Dropped() {
		r.Payload.Body = nil
	}
}

// freed reports whether the record is of a claim that was held and then released.
func (r *Record) freed() bool {
	return r.Hold && len(r.Tasks) == 1 && r.Tasks[0].State == Pending
}

// lapses reports whether the record is of a held claim, which is free when its lease runs out.
func (r *Record) lapses() bool {
	return r.Hold && len(r.Tasks) == 1 && r.Tasks[0].State == Running
}
