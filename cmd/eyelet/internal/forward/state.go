package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eyelet-dev/eyelet/internal/atomicfile"
)

// State is what is known about targets: which are switched off, have moved or will end. One State
// serves all targets of a process. Without a file ([State.Open]) or a store that several processes
// share ([State.Share]) it is lost with the process.
type State struct {
	mu      sync.Mutex // held briefly: every delivery takes it
	path    string     // "" before Open
	log     *slog.Logger
	targets map[string]Status
	changes uint64 // counts the changes of targets

	disk    sync.Mutex // held while the file is written; taken before mu
	written uint64     // the number of changes in the file
	replace func(path, text string) error

	shared sharedState
	next   *State // serves the targets of this state, too; nil unless it was succeeded
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
	return &State{targets: map[string]Status{}, log: slog.New(slog.DiscardHandler), replace: atomicfile.WriteText}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if log != nil {
		s.log = log
	}
	if path == "" {
		return nil
	}
	kept, err := readState(path)
	if err != nil {
		return fmt.Errorf("state of targets %s: %w", path, err)
	}
	for _, k := range kept {
		if now, ok := s.targets[k.Name]; ok && now.Configured == k.Configured {
			s.targets[k.Name] = k
		}
	}
	s.path = path
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

// List returns the status of all targets, by name.
func (s *State) List() []Status {
	s.refresh()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.targets), func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
}

// SwitchOn makes the target accept events again and resets its count of Terminal outcomes. The
// error is [ErrUnknownTarget], or says why the change is not on disk, though it applies to this
// process all the same, or why it is not made.
func (s *State) SwitchOn(name string) error {
	return s.toggle(name, func(st *Status) {
		st.Off, st.Since, st.Reason, st.Terminals = false, time.Time{}, "", 0
	})
}

// SwitchOff defers all events of the target until it is switched on. The errors are those of
// SwitchOn.
func (s *State) SwitchOff(name, reason string, now time.Time) error {
	return s.toggle(name, func(st *Status) { st.switchOff(reason, now) })
}

func (st *Status) switchOff(reason string, now time.Time) {
	if !st.Off {
		st.Off, st.Since, st.Reason = true, now.UTC(), reason
	}
}

// register adds a target before the file is read.
func (s *State) register(name, configured string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.targets[name]; twice {
		return fmt.Errorf("two targets have the name %q", name)
	}
	s.targets[name] = Status{Name: name, Configured: configured}
	return nil
}

func (s *State) get(name string) Status {
	s.refresh()
	s.mu.Lock()
	known, next := s.targets[name], s.next
	s.mu.Unlock()
	if next != nil {
		if now := next.get(name); now.Configured == known.Configured {
			return now
		}
	}
	return known
}

// Succeed copies the status of the targets of s and of the named ones from another state, with its
// file or its store. Later changes by targets of the other state change s, too. A target with
// another URL has a new status. Call it instead of [State.Open] and [State.Share].
func (s *State) Succeed(old *State, keep ...string) {
	old.disk.Lock() // no older state is written later
	defer old.disk.Unlock()
	old.mu.Lock()
	defer old.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range old.targets {
		if now, ok := s.targets[name]; ok && now.Configured == known.Configured || slices.Contains(keep, name) {
			s.targets[name] = known
		}
	}
	s.path, s.log, s.changes, s.written = old.path, old.log, old.changes+1, old.written
	s.shared.kept, s.shared.ctx = old.shared.kept, old.shared.ctx
	old.next, s.next = s, nil
}

// Withdraw undoes [State.Succeed] of another state: the changes since are copied to that state, and
// later ones do not reach s. s is not used after it.
func (s *State) Withdraw(old *State) {
	old.disk.Lock() // in the order of Succeed, and of the changes that old passes on
	defer old.disk.Unlock()
	old.mu.Lock()
	defer old.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range old.targets {
		if now := s.targets[name]; now.Configured == known.Configured {
			old.targets[name] = now
		}
	}
	old.changes, old.written, old.next = s.changes, s.written, nil
}

// update applies a change and, if it changes anything, returns once it is on disk. A change that
// cannot be written applies to this process, and is written with the next one.
func (s *State) update(name string, change func(*Status)) error {
	if s.shared.kept != nil {
		return s.updateShared(name, false, change)
	}
	before, at, err := s.apply(name, change)
	if err != nil || before == at {
		return err
	}
	return s.persist(name, at)
}

// toggle is update for a person: it waits for the disk even if nothing changed, because an earlier
// write of the same change may have failed or may not have ended.
func (s *State) toggle(name string, change func(*Status)) error {
	if s.shared.kept != nil {
		return s.updateShared(name, true, change)
	}
	_, at, err := s.apply(name, change)
	if err != nil {
		return err
	}
	if err := s.persist(name, at); err != nil {
		return fmt.Errorf("it is done, but a restart would undo it: %w", err)
	}
	return nil
}

// apply applies a change and returns the number of changes before and after it.
func (s *State) apply(name string, change func(*Status)) (before, at uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.targets[name]
	if ok && s.next != nil {
		return s.next.applyTo(name, old.Configured, change)
	}
	if !ok {
		return 0, 0, fmt.Errorf("%w: %q", ErrUnknownTarget, name)
	}
	before = s.changes
	next := old
	if change(&next); next != old {
		s.targets[name] = next
		s.changes++
		s.logChange(old, next)
	}
	return before, s.changes, nil
}

// applyTo is apply, unless the target has another URL.
func (s *State) applyTo(name, configured string, change func(*Status)) (before, at uint64, err error) {
	s.mu.Lock()
	same := s.targets[name].Configured == configured
	s.mu.Unlock()
	if !same {
		return 0, 0, nil
	}
	return s.apply(name, change)
}

// logChange logs changes. URLs are not logged: they may hold credentials.
func (s *State) logChange(before, after Status) {
	switch {
	case after.Off && !before.Off:
		s.log.Error("target is switched off, and its events wait until a person switches it on",
			"target", after.Name, "reason", after.Reason)
	case before.Off && !after.Off:
		s.log.Info("target is switched on", "target", after.Name)
	}
	if after.Moved != before.Moved {
		s.log.Warn("target moved for good (308)", "target", after.Name)
	}
	if !after.Sunset.Equal(before.Sunset) && !after.Sunset.IsZero() {
		s.log.Warn("target will end", "target", after.Name, "sunset", after.Sunset)
	}
	if !after.Legal.Equal(before.Legal) {
		s.log.Error("target refuses for legal reasons (451); decide whether to send to it", "target", after.Name)
	}
}

// persist returns once the file has as many changes as at. Deliveries continue meanwhile: a write
// includes all changes so far, and an older state is never written after a newer one.
func (s *State) persist(name string, at uint64) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.written >= at {
		return nil
	}
	s.mu.Lock()
	path, log, newest, next := s.path, s.log, s.changes, s.next
	s.mu.Unlock()
	if next != nil {
		return next.persist(name, at)
	}
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(stateFile{stateFormat, s.List()}, "", "  ")
	if err == nil {
		err = s.replace(path, string(text)+"\n")
	}
	if err != nil {
		log.Error("the state of a target is not on disk, and would be lost by a restart", "target", name, "err", err)
		return fmt.Errorf("state of targets: %w", err)
	}
	s.written = newest
	return nil
}
