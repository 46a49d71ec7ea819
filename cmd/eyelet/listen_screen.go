package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/replay"
)

// listenScreen prints one line for each delivery, and reads keys on a terminal.
type listenScreen struct {
	*listenCmd
	settings *config.Settings
	store    dedup.Store
	seen     chan receiver.Observation
	colour   bool

	typing  bool // a filter
	text    string
	samples int // that were sent

	mu     sync.Mutex
	filter string
	last   string // the event that r sends again
}

// listenLine is the line of a delivery in JSON.
type listenLine struct {
	Time     time.Time `json:"time"`
	Producer string    `json:"producer"`
	Type     string    `json:"type"`
	ID       string    `json:"id"`
	Event    string    `json:"event,omitempty"`
	Status   int       `json:"status"` // of the response to the delivery
	Code     string    `json:"code"`
	// State is that of forwarding: done, dead, or pending if it is tried again.
	State string `json:"state,omitempty"`
	Error string `json:"error,omitempty"`
	// Took is in seconds, of the attempt or else of the delivery.
	Took float64 `json:"took"`
}

// maxSeen is how many observations wait to be printed; more are dropped.
const maxSeen = 1024

func newListenScreen(f *listenCmd) *listenScreen {
	return &listenScreen{listenCmd: f, seen: make(chan receiver.Observation, maxSeen), colour: f.terminal(f.Out)}
}

// observe takes an observation of the receiver, and never waits.
func (s *listenScreen) observe(o receiver.Observation) {
	select {
	case s.seen <- o:
	default:
	}
}

// run prints lines until ctx ends. An event that is stored gets its line after each attempt, any
// other delivery after its response.
func (s *listenScreen) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-s.seen:
			forwarded := o.Kind == receiver.KindDelivery && o.Code == "accepted" && !s.relay
			if o.Kind == receiver.KindDelivery && !forwarded || o.Kind == receiver.KindAttempt && !s.relay {
				s.line(s.lineOf(ctx, o))
			}
		}
	}
}

func (s *listenScreen) lineOf(ctx context.Context, o receiver.Observation) listenLine {
	line := listenLine{Time: time.Now(), Producer: o.Endpoint, Type: o.Type, ID: o.ID, Event: o.Event, Status: o.Status,
		Code: string(o.Code), Took: o.Took.Seconds()}
	if o.Kind == receiver.KindAttempt {
		line.Status, line.Code, line.State = 200, "accepted", o.State.String()
		if rec, err := s.store.Get(ctx, o.Event); err == nil {
			for _, task := range rec.Tasks {
				line.Error = task.Err
			}
			line.ID, line.Type = cmp.Or(rec.Payload.VendorID, line.ID), rec.Payload.Type
		}
	} else if o.Err != nil {
		line.Error = o.Err.Error()
	}
	if o.Event != "" {
		s.mu.Lock()
		s.last = o.Event
		s.mu.Unlock()
	}
	return line
}

// line prints a line if it has the text of the filter.
func (s *listenScreen) line(l listenLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := l.text()
	if s.format == "json" {
		data, err := json.Marshal(l)
		if err != nil {
			return
		}
		text = string(data)
	}
	if s.filter != "" && !strings.Contains(strings.ToLower(text), s.filter) {
		return
	}
	if s.colour && (l.Status >= 400 || l.State == "dead" || l.Error != "") {
		text = "\x1b[31m" + text + "\x1b[0m"
	}
	_, _ = fmt.Fprintf(s.Out, "%s\n", text) // see [program.printf]
}

func (l listenLine) text() string {
	text := fmt.Sprintf("%s  %-18s %-28s %d %s", l.Time.Format(time.TimeOnly), sanitize(l.Producer), sanitize(l.Type),
		l.Status, strings.ReplaceAll(l.Code, "_", " "))
	switch {
	case l.State == "done":
		text += ", forwarded"
	case l.State == "dead":
		text += ", refused by the application"
	case l.State != "":
		text += ", is forwarded again later"
	}
	if l.Error != "" {
		text += ": " + sanitize(l.Error)
	}
	took := time.Duration(l.Took * float64(time.Second)).Round(100 * time.Microsecond)
	return fmt.Sprintf("%s  %v  %s", text, took, sanitize(l.ID))
}

// say prints a message about a key.
func (s *listenScreen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.Out, format+"\n", args...) // see [program.printf]
}

// again sends the last event to the application, as it was accepted.
func (s *listenScreen) again(ctx context.Context) {
	s.mu.Lock()
	event := s.last
	s.mu.Unlock()
	if event == "" {
		s.say("there is no event yet")
		return
	}
	stored, err := s.store.Get(ctx, event)
	if err != nil {
		s.say("%v", err)
		return
	}
	rec, err := replay.Export(stored)
	if err != nil {
		s.say("%v", err)
		return
	}
	r, err := replay.Send(ctx, rec, replay.Options{URL: s.targetOf(stored.Payload.Endpoint),
		Header: replay.Original(rec)})
	if err != nil {
		s.say("sent again: %v", err)
		return
	}
	s.say("sent again: %d in %v", r.Status, r.Took.Round(100*time.Microsecond))
}

// sample sends a sample of the next preset, as send does.
func (s *listenScreen) sample(ctx context.Context) {
	name := s.vendors[s.samples%len(s.vendors)].Name
	s.samples++
	var text bytes.Buffer
	quiet := *s.program
	quiet.Out, quiet.Err = &text, &text
	if quiet.Run(ctx, "send", name, "--config", s.sendsFrom(name), "--producer", name) != exitOK {
		s.say("%s", strings.TrimSpace(text.String()))
	}
}

// press does what a key means, and reports whether there are more.
func (s *listenScreen) press(ctx context.Context, key byte) (more bool) {
	switch {
	case s.typing && (key == '\r' || key == '\n' || key == keyEscape):
		s.typing = false
		s.setFilter(s.text)
	case s.typing && key == keyDelete:
		s.text = s.text[:max(0, len(s.text)-1)]
	case s.typing && key >= ' ':
		s.text += string(rune(key))
	case s.typing:
	case key == 'q':
		return false
	case key == 'r':
		s.again(ctx)
	case key == 't':
		s.sample(ctx)
	case key == '/':
		s.typing, s.text = true, ""
		s.say("show only lines with (Enter ends, empty shows all):")
	default:
		if says, ok := pressed(ctx, s.program, s.settings, key); ok {
			s.say("%s", strings.TrimSuffix(says, "\n"))
		}
	}
	return true
}

func (s *listenScreen) setFilter(text string) {
	s.mu.Lock()
	s.filter = strings.ToLower(text)
	s.mu.Unlock()
	if text == "" {
		text = "everything"
	}
	s.say("showing %s", sanitize(text))
}
