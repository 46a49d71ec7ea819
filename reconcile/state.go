package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// state is the note of a producer.
type state struct {
	First  time.Time     `json:"first"`          // since when the store serves it
	Kept   time.Time     `json:"kept,omitzero"`  // since when its events are named and kept as now
	Window time.Duration `json:"window"`         // how long they are kept
	Names  string        `json:"names"`          // what names them
	Done   time.Time     `json:"done,omitzero"`  // all before is compared
	Holder string        `json:"holder"`         // who compares
	Until  time.Time     `json:"until,omitzero"` // how long
	Last   Progress      `json:"last"`
	Walk   *position     `json:"walk,omitempty"` // the comparison that has not ended
}

// position is where a comparison is.
type position struct {
	Progress
	List string `json:"list"` // the URL of the source, whose token no other one gets
	Next string `json:"next"` // the page
	Full bool   `json:"full,omitempty"`
}

// maxNext bounds the stored address of a page, so that the note is never too long.
const maxNext = 2 << 10

// asked is the note of an event that was asked for.
type asked struct {
	Sending string    `json:"sending"`
	Time    time.Time `json:"time"` // of the sending
	Count   int       `json:"count"`
	At      time.Time `json:"at"` // the last time
	// Settled means that a sending arrived, or that the event is not asked for again.
	Settled bool `json:"settled,omitempty"`
}

// The identifiers of notes. The producer is their endpoint.
const (
	stateID  = "state"
	askedIDs = "asked:" // and the identifier of the event
)

func (r *Reconciler) key(id string) dedup.Key {
	return dedup.Key{Endpoint: r.Producer.Name, Space: dedup.SpaceReconcile, ID: id}
}

func parseState(text string) (st state, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &st)
	}
	if err != nil {
		err = fmt.Errorf("the note of the comparison is not readable: %w", err)
	}
	return st, err
}

func (r *Reconciler) load(ctx context.Context) (state, error) {
	note, err := r.Store.Note(ctx, r.key(stateID))
	if err != nil {
		return state{}, err
	}
	return parseState(note.Text)
}

// change changes the state in one durable step.
func (r *Reconciler) change(ctx context.Context, f func(*state) error) error {
	return r.Store.ChangeNote(ctx, r.key(stateID), func(text string) (string, error) {
		st, err := parseState(text)
		if err == nil {
			err = f(&st)
		}
		if err != nil {
			return "", err
		}
		return marshal(st)
	})
}

func marshal(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

func (r *Reconciler) setAsked(ctx context.Context, event string, a *asked) error {
	return r.Store.ChangeNote(ctx, r.key(askedIDs+event), func(string) (string, error) {
		if a == nil {
			return "", nil
		}
		return marshal(a)
	})
}

// loadAsked returns the events that were asked for.
func (r *Reconciler) loadAsked(ctx context.Context) (map[string]*asked, error) {
	all := map[string]*asked{}
	for note, err := range r.Store.Notes(ctx, dedup.SpaceReconcile) {
		if err != nil {
			return nil, err
		}
		event, ok := strings.CutPrefix(note.Key.ID, askedIDs)
		if !ok || note.Key.Endpoint != r.Producer.Name {
			continue
		}
		a := &asked{}
		if err := json.Unmarshal([]byte(note.Text), a); err != nil {
			return nil, fmt.Errorf("the note of an event that was asked for is not readable: %w", err)
		}
		all[event] = a
	}
	return all, nil
}

// found notes since when the store serves the producer, how its events are named and how long they
// are kept. If the window grows, identifiers that were kept for the shorter one may be forgotten.
func (r *Reconciler) found(ctx context.Context) error {
	p, now := &r.Producer, r.Clock()
	names := p.Class().String()
	if p.Key != nil {
		names += ", " + p.Key.String()
	}
	principal, _ := p.Principal()
	names += ", " + principal
	if len(names) > maxNext/2 {
		names = names[:maxNext/2]
	}
	st, err := r.load(ctx)
	if err != nil || st.Names == names && st.Window == p.Window {
		return err
	}
	first := now
	if st.First.IsZero() {
		if first, err = r.oldest(ctx, now, principal); err != nil {
			return err
		}
	}
	return r.change(ctx, func(st *state) error {
		switch {
		case st.First.IsZero():
			st.First = first
		case st.Names != names:
			st.Kept = now
		case p.Window > st.Window:
			if from := now.Add(-st.Window); from.After(st.Kept) {
				st.Kept = from
			}
		}
		st.Names, st.Window = names, p.Window
		return nil
	})
}

// oldest returns when the oldest event of the producer was accepted, of those that are named as a
// fetched one would be; now without any. One that is named otherwise shows that the configuration
// was another one.
func (r *Reconciler) oldest(ctx context.Context, now time.Time, principal string) (time.Time, error) {
	for rec, err := range r.Store.List(ctx, dedup.Filter{Producer: r.Producer.Name, Since: r.Producer.Window}) {
		if err != nil {
			return now, err
		}
		k := rec.Key
		switch digest := rec.Payload.VendorID != "" || strings.HasPrefix(k.ID, "sha256:"); {
		case k.Space != "": // it is quarantined
		case !r.source.Asks() && (digest || k.Principal != principal || k.Endpoint != r.Producer.Name):
			return now, nil
		default:
			now = rec.Accepted
		}
	}
	return now, nil
}
