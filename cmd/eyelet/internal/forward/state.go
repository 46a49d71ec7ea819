package forward

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/internal/atomicfile"
)

// State is what is known about targets: which are switched off, have moved or will end. One State
// serves all targets of a configuration:
//
//	state := forward.NewState()
//	target, err := forward.New(forward.Config{Name: "shop", URL: url, State: state})
//	err = state.Open("targets.json", log)
//
// Without a file or a store that several processes share ([State.Share]) it is lost with the
// process. The state of the next configuration succeeds it ([State.Succeed]).
type State struct {
	// Wrap, when set before the first event, returns what sends the requests of an event.
	Wrap func(event string, transport http.RoundTripper) http.RoundTripper

	targets map[string]Status // without what is known; does not change after the first delivery
	known   *known            // also of the states that this one succeeds
	read    time.Time         // when what processes share was last read; guarded by known.sharing
}

// known is what is known about targets of all configurations of a process. A target with another
// URL is another one.
type known struct {
	mu      sync.Mutex // held briefly: every delivery takes it
	log     *slog.Logger
	all     map[string]Status // by their keys
	changes uint64            // of all, so far

	path    string     // of the file; "" before Open
	disk    sync.Mutex // held while the file is written; taken before mu
	written uint64     // the number of changes in the file
	replace func(path, text string) error

	shared  Shared     // what several processes know; nil without it
	sharing sync.Mutex // held while it is read or changed
}

// Status is what is known about one target.
type Status struct {
	Name string `json:"name"` // stable
	// Configured is a digest of the configured URL. The status applies to that URL only.
	Configured string `json:"configured"`
	// Off means that nothing is sent until a person switches the target on. Since and Reason say
	// when and why it was switched off.
	Off       bool      `json:"off"`
	Since     time.Time `json:"since,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	Terminals int       `json:"terminals,omitempty"` // consecutive Terminal outcomes
	// Moved is the URL of the last 308; empty without one. It may hold secrets of the target.
	Moved  string    `json:"moved,omitempty"`
	Sunset time.Time `json:"sunset,omitzero"` // when the target will end (RFC 8594); zero if it did not say
	Legal  time.Time `json:"legal,omitzero"`  // when the target last answered 451
}

const stateFormat = 1

type stateFile struct {
	Format  int      `json:"format"`
	Targets []Status `json:"targets"`
}

// ErrUnknownTarget is returned for the name of no target.
var ErrUnknownTarget = errors.New("no such target")

// NewState returns an empty state.
func NewState() *State {
	return &State{targets: map[string]Status{}, known: &known{
		all: map[string]Status{}, log: slog.New(slog.DiscardHandler), replace: atomicfile.WriteText,
	}}
}

// register adds a target before the file is read.
func (s *State) register(name, configured string) error {
	if _, twice := s.targets[name]; twice {
		return fmt.Errorf("two targets have the name %q", name)
	}
	s.targets[name] = Status{Name: name, Configured: configured}
	return nil
}

// Open reads the file at path, which need not exist, and from then on writes every change to it
// before the outcome that caused the change is returned. Call it once, after the targets were made
// and before the first delivery. Entries of targets that no longer exist, or that have another
// configured URL, are dropped. An empty path keeps nothing. Changes are logged to log, which may
// be nil.
//
// A file that does not parse or has a newer format is an error, because it may hold a target that
// was switched off.
func (s *State) Open(path string, log *slog.Logger) error {
	k := s.known
	k.log = cmp.Or(log, k.log)
	if path == "" {
		return nil
	}
	kept, err := readState(path)
	if err != nil {
		return fmt.Errorf("state of targets %s: %w", path, err)
	}
	for _, st := range kept {
		if st.Configured == s.targets[st.Name].Configured {
			k.all[st.key()] = st
		}
	}
	k.path = path
	return nil
}

func readState(path string) ([]Status, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var f stateFile
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&f); err != nil || f.Format < 1 {
		return nil, errors.New("the file is damaged; without it every target is on, where its configuration says")
	}
	if f.Format > stateFormat {
		return nil, fmt.Errorf("the file has format %d, and this program knows up to %d", f.Format, stateFormat)
	}
	return f.Targets, nil
}

// Succeed makes s know what another state knows, with its file or its store: what the targets of
// either find out from then on applies to those of both. Of the targets that s does not have, it
// lists the named ones. Call it instead of [State.Open] and [State.Share].
func (s *State) Succeed(old *State, list ...string) {
	s.known = old.known
	for _, name := range list {
		if target, ok := old.targets[name]; ok {
			s.targets[name] = target
		}
	}
}

// List returns the status of all targets, by name.
func (s *State) List() (all []Status) {
	s.refresh()
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.targets)) {
		all = append(all, s.known.status(s.targets[name]))
	}
	return all
}

func (s *State) get(name string) Status {
	s.refresh()
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	return s.known.status(s.targets[name])
}

// status returns what is known about a target; mu is held.
func (k *known) status(target Status) Status {
	if st, ok := k.all[target.key()]; ok {
		return st
	}
	return target
}

// SwitchOn makes the target accept events again and resets its count of Terminal outcomes. The
// error is [ErrUnknownTarget], or says why the change is not on disk, though it applies to this
// process all the same, or why it is not made.
func (s *State) SwitchOn(name string) error {
	return s.update(name, true, func(st *Status) {
		st.Off, st.Since, st.Reason, st.Terminals = false, time.Time{}, "", 0
	})
}

// SwitchOff defers all events of the target until it is switched on. The errors are those of
// SwitchOn.
func (s *State) SwitchOff(name, reason string, now time.Time) error {
	return s.update(name, true, func(st *Status) { st.switchOff(reason, now) })
}

func (st *Status) switchOff(reason string, now time.Time) {
	if !st.Off {
		st.Off, st.Since, st.Reason = true, now.UTC(), reason
	}
}

// update applies a change. It returns at once if that changes nothing, unless a person wants it to
// be kept, because an earlier write of the same change may have failed. Else it returns once the
// change is on disk. One that cannot be written applies to this process, and is written with the
// next one.
func (s *State) update(name string, kept bool, change func(*Status)) error {
	target, ok := s.targets[name]
	if !ok {
		return fmt.Errorf("%w: %q", ErrUnknownTarget, name)
	}
	k := s.known
	k.mu.Lock()
	old := k.status(target)
	next := old
	change(&next)
	at := k.changes
	if next != old && k.shared == nil {
		k.set(next)
		k.changes++
		at = k.changes
	}
	k.mu.Unlock()
	switch {
	case next == old && !kept:
		return nil
	case k.shared != nil:
		return k.changeShared(target, change)
	}
	return k.persist(name, at)
}

// set replaces what is known about a target, and logs what has changed; mu is held.
func (k *known) set(next Status) {
	k.logChange(k.status(Status{Name: next.Name, Configured: next.Configured}), next)
	k.all[next.key()] = next
}

// logChange logs changes. URLs are not logged: they may hold credentials.
func (k *known) logChange(before, after Status) {
	switch {
	case after.Off && !before.Off:
		k.log.Error("target is switched off, and its events wait until a person switches it on",
			"target", after.Name, "reason", after.Reason)
	case before.Off && !after.Off:
		k.log.Info("target is switched on", "target", after.Name)
	}
	if after.Moved != before.Moved {
		k.log.Warn("target moved for good (308)", "target", after.Name)
	}
	if !after.Sunset.Equal(before.Sunset) && !after.Sunset.IsZero() {
		k.log.Warn("target will end", "target", after.Name, "sunset", after.Sunset)
	}
	if !after.Legal.Equal(before.Legal) {
		k.log.Error("target refuses for legal reasons (451); decide whether to send to it", "target", after.Name)
	}
}

// persist returns once the file has as many changes as at. Deliveries continue meanwhile: a write
// includes all changes so far, and an older state is never written after a newer one.
func (k *known) persist(name string, at uint64) error {
	k.disk.Lock()
	defer k.disk.Unlock()
	if k.path == "" || k.written >= at {
		return nil
	}
	k.mu.Lock()
	newest, targets := k.changes, slices.Collect(maps.Values(k.all))
	k.mu.Unlock()
	slices.SortFunc(targets, func(a, b Status) int { return strings.Compare(a.key(), b.key()) })
	text, err := json.MarshalIndent(stateFile{stateFormat, targets}, "", "  ")
	if err == nil {
		err = k.replace(k.path, string(text)+"\n")
	}
	if err != nil {
		k.log.Error("the state of a target is not on disk, and would be lost by a restart", "target", name, "err", err)
		return fmt.Errorf("it is done, but a restart would undo it: state of targets: %w", err)
	}
	k.written = newest
	return nil
}
