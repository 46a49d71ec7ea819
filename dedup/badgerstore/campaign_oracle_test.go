package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
)

// ledger is the knowledge of the campaign's oracle: everything that was acknowledged to the
// children of one store.
type ledger struct {
	events map[string]*acknowledged // by event
	newest map[string]string        // event by identifier
	wrong  []string
	// halves counts damaged values of events that were never acknowledged. A failed write may
	// leave them if the machine goes down before the next start. They are reported, and their
	// retry is not new.
	halves int
}

// acknowledged is what is known about one event.
type acknowledged struct {
	id        string
	purging   bool // it may be gone
	ends      int  // acknowledged results
	state     dedup.State
	reopening int // how often it may have been reopened
}

func newLedger() *ledger {
	return &ledger{events: map[string]*acknowledged{}, newest: map[string]string{}}
}

func (l *ledger) fault(format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// record records one line of a child.
func (l *ledger) record(words []string) {
	if len(words) < 2 {
		return
	}
	a := l.events[words[len(words)-1]]
	switch words[0] {
	case "new", "known":
		l.accepted(words[0], words[1], words[2])
	case "done", "dead":
		if a == nil { // its claim follows
			a = &acknowledged{}
			l.events[words[1]] = a
		}
		a.ends++
		a.state = dedup.Done
		if words[0] == "dead" {
			a.state = dedup.Dead
		}
		if a.ends > 1+a.reopening {
			l.fault("%s was finished %d times", words[1], a.ends)
		}
	case "purging":
		a.purging = true
	case "reopening":
		a.reopening++
	case "wrong":
		l.fault("%s", strings.Join(words[1:], " "))
	}
}

// accepted records that an identifier belongs to an event. An identifier has one event, unless
// its window is short or the event may have been purged.
func (l *ledger) accepted(verdict, id, event string) {
	a := l.events[event]
	if a == nil {
		a = &acknowledged{}
		l.events[event] = a
	}
	a.id = id
	before := l.newest[id]
	switch {
	case before == event || strings.HasPrefix(id, "short-"):
	case before == "" || l.events[before].purging:
		l.newest[id] = event
	case verdict == "known" && a.purging: // reported late
	default:
		l.fault("%s is %s as %s, and was accepted as %s", id, verdict, event, before)
	}
}

// check opens the store, compares everything that was acknowledged, and closes the store.
func (l *ledger) check(dir string) {
	s, err := Open(dir, campaignOptions())
	if err != nil {
		l.fault("the store is refused: %v", err)
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			l.fault("close: %v", err)
		}
	}()
	for event, a := range l.events {
		if !a.purging && a.id != "" && !strings.HasPrefix(a.id, "short-") {
			l.look(s, event, a)
		}
	}
	for id, event := range l.newest {
		if !l.events[event].purging {
			l.probe(s, id, event)
		}
	}
	report, err := s.Check(context.Background())
	if err != nil {
		l.fault("check: %v", err)
	}
	l.halves = 0
	for _, d := range report.Damaged {
		if a := l.events[d.Event]; a != nil || d.Event == "" {
			l.fault("a damaged value: %+v", d)
		} else {
			l.halves++
		}
	}
}

// look compares one record with what was acknowledged about it.
func (l *ledger) look(s *Store, event string, a *acknowledged) {
	r, err := s.Get(context.Background(), event)
	switch {
	case err != nil:
		l.fault("%s of %s: %v", event, a.id, err)
		return
	case r.Key.ID != a.id:
		l.fault("%s belongs to %s, not %s", event, r.Key.ID, a.id)
	case !bytes.Equal(r.Payload.Body, campaignBody(a.id)):
		l.fault("%s of %s has a different body of %d bytes", event, a.id, len(r.Payload.Body))
	}
	if a.ends > 0 && a.reopening == 0 && r.Tasks[0].State != a.state {
		l.fault("%s of %s was finished as %v and is %v", event, a.id, a.state, r.Tasks[0].State)
	}
}

// probe asks whether an identifier is known, without storing anything.
func (l *ledger) probe(s *Store, id, event string) {
	c := campaignClaim(id)
	c.OnlyKnown = true
	ds, err := s.Claim(context.Background(), c)
	var unavailable *dedup.ErrUnavailable
	switch {
	case errors.As(err, &unavailable):
		l.fault("the store is unavailable: %v", err)
	case err != nil:
		l.fault("claim of %s: %v", id, err)
	case ds[0].Verdict != dedup.Known || ds[0].Record.Event != event:
		l.fault("%s is %v as %q, and was accepted as %s", id, ds[0].Verdict, ds[0].Record.Event, event)
	}
}
