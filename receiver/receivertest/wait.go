package receivertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

const (
	waitMax  = 10 * time.Second // for handlers that do not return
	waitPoll = time.Millisecond
)

// Wait waits until no handler runs, no task is due, and Config.Observe was called for every
// attempt. Tasks that wait for a retry stay pending
// until [Receiver.Step]. It fails the test after 10 seconds.
func (rx *Receiver) Wait() {
	rx.t.Helper()
	end := time.Now().Add(waitMax)
	for {
		busy := rx.busy()
		if busy == "" {
			return
		}
		if time.Now().After(end) {
			rx.t.Fatalf("receivertest: still not done after %s: %s", waitMax, busy)
		}
		time.Sleep(waitPoll)
	}
}

// Step waits as Wait does, moves the clock by d, and waits again: retries that are due by then have
// run, and windows that end have ended. It requires the store of New.
func (rx *Receiver) Step(d time.Duration) {
	rx.t.Helper()
	if rx.clock == nil {
		rx.t.Fatal("receivertest: Step needs the store of New: leave Config.Store unset")
	}
	rx.Wait()
	rx.clock.Advance(d)
	rx.Wait()
}

// busy names a task that runs or is about to; "" if there is none.
func (rx *Receiver) busy() string {
	now, lanes := rx.now(), map[string]bool{}
	for _, rec := range rx.records() {
		if rec.Hold { // runs in its delivery
			continue
		}
		for i, task := range rec.Tasks {
			if task.State != dedup.Running && !rx.isObserved(&rec, task) {
				return fmt.Sprintf("the observation of handler %s, event %s", task.Handler, rec.Event)
			}
			if !task.Open() {
				continue
			}
			lane := rec.LaneOf(i)
			blocked := lane != "" && lanes[lane] && !rec.Yields(i)
			lanes[lane] = true
			if task.State == dedup.Running || !blocked && !task.Due.After(now) {
				return fmt.Sprintf("handler %s, event %s (%s)", task.Handler, rec.Event, rec.Payload.Type)
			}
		}
	}
	return ""
}

// isObserved reports whether the last attempt of a task, which is recorded, was observed. A store
// of the test may hold events of another receiver, whose attempts are not.
func (rx *Receiver) isObserved(rec *dedup.Record, task dedup.Task) bool {
	if _, here := rx.accepted.Load(rec.Event); !here {
		return true
	}
	last, _ := rx.observed.Load(taskOf{rec.Event, task.Handler})
	n, _ := last.(int)
	return n >= task.Attempt
}

// records returns all records, in accepted order.
func (rx *Receiver) records() []dedup.Record {
	rx.t.Helper()
	var all []dedup.Record
	for rec, err := range rx.Store.List(rx.t.Context(), dedup.Filter{}) {
		if err != nil {
			rx.t.Fatal(err)
		}
		all = append(all, rec)
	}
	slices.Reverse(all)
	return all
}

// DeadLetter is a task that failed for good, or a quarantined delivery, which has no handler if
// none matches it.
type DeadLetter struct {
	Endpoint, Type, Handler string
	Event                   string // the receiver's own id
	Attempts                int
	Reason                  string // "rejected", "exhausted", "undecodable", "same_bytes", ...
	Err                     string // the handler's last error
}

// String returns one line.
func (d DeadLetter) String() string {
	text := fmt.Sprintf("%s %s: %s after %d attempts", d.Handler, d.Type, d.Reason, d.Attempts)
	return strings.TrimSuffix(text+": "+d.Err, ": ")
}

// Dead waits as Wait does and returns the dead letters, in accepted order.
func (rx *Receiver) Dead() []DeadLetter {
	rx.t.Helper()
	rx.Wait()
	var dead []DeadLetter
	for _, rec := range rx.records() {
		letter := DeadLetter{Endpoint: rec.Payload.Endpoint, Type: rec.Payload.Type, Event: rec.Event}
		if rec.Quarantined() && len(rec.Tasks) == 0 {
			letter.Reason = rec.QuarantineReason
			dead = append(dead, letter)
		}
		for _, task := range rec.Tasks {
			if task.State == dedup.Dead {
				letter.Handler, letter.Attempts = task.Handler, task.Attempt
				letter.Reason, letter.Err = task.Reason, task.Err
				dead = append(dead, letter)
			}
		}
	}
	return dead
}
