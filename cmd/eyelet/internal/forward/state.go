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

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/atomicfile"
)

// State is what targets taught us: who is switched off, who moved, who will end. One State serves all targets
// of a process. Without a file it forgets everything at the end of the process; [State.Open] gives it one.
type State struct {
	mu      sync.Mutex // held for moments only: every delivery asks
	path    string     // "" before Open
	log     *slog.Logger
	targets map[string]Status
	changes uint64 // how often targets has changed

	disk    sync.Mutex // held while the file is written, and taken before mu
	written uint64     // the changes that the file has
	replace func(path, text string) error
}

// Status is what is known about one target.
type Status struct {
	// Name is the target's stable name.
	Name string `json:"name"`
	// Configured is a digest of the configured URL: what was learned holds for that URL only.
	Configured string `json:"configured"`
	// Off says that nothing is sent until a person switches the target on; since when, and why.
	Off    bool      `json:"off"`
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"`
	// Terminals counts the Terminal outcomes since the last Accepted one.
	Terminals int `json:"terminals,omitempty"`
	// Moved is the URL of the last 308; empty when there was none. It may hold what only the target should see.
	Moved string `json:"moved,omitempty"`
	// Sunset is the time at which the target said that it will end (RFC 8594); zero when it said nothing.
	Sunset time.Time `json:"sunset,omitzero"`
	// Legal is the last time at which the target answered 451.
	Legal time.Time `json:"legal,omitzero"`
}

// stateFormat is the version of the file.
const stateFormat = 1

// stateFile is the file's content.
type stateFile struct {
	Format  int      `json:"format"`
	Targets []Status `json:"targets"`
}

// ErrUnknownTarget is returned for a name that no target has.
var ErrUnknownTarget = errors.New("no such target")

// NewState returns an empty state, for targets to be made with.
func NewState() *State {
	return &State{targets: map[string]Status{}, log: slog.New(slog.DiscardHandler), replace: atomicfile.WriteText}
}

// Open reads what an earlier process kept in the file at path, which need not exist, and keeps every change
// there from now on, on disk before the outcome that caused it is known to anybody. It is called once, after
// the targets were made and before the first delivery: what the file says about targets that are no more, or
// that have another URL in the configuration now, is forgotten. A path of "" keeps nothing. Changes are
// reported to log, which may be nil.
//
// A file that does not parse or is of a newer format is an error, since it may hold a target that somebody
// switched off.
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
	}
	if err != nil {
		return nil, err
	}
	var f stateFile
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&f); err != nil || f.Format < 1 {
		return nil, errors.New("the file is damaged; without it every target is on, where its configuration says")
	}
	if f.Format > stateFormat {
		return nil, fmt.Errorf("the file is of format %d, and this program knows up to %d", f.Format, stateFormat)
	}
	return f.Targets, nil
}

// List returns what is known, by name.
func (s *State) List() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.targets), func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
}

// SwitchOn makes the target take events again, with its Terminal outcomes counted from zero. Switching on what
// is on changes nothing but the count. The error is [ErrUnknownTarget], or says why the change is not on disk;
// it holds for this process all the same.
func (s *State) SwitchOn(name string) error {
	return s.toggle(name, func(st *Status) {
		st.Off, st.Since, st.Reason, st.Terminals = false, time.Time{}, "", 0
	})
}

// SwitchOff makes the target take nothing until it is switched on; its events wait. The errors are those of
// SwitchOn.
func (s *State) SwitchOff(name, reason string, now time.Time) error {
	return s.toggle(name, func(st *Status) { st.switchOff(reason, now) })
}

func (st *Status) switchOff(reason string, now time.Time) {
	if !st.Off {
		st.Off, st.Since, st.Reason = true, now.UTC(), reason
	}
}

// register makes a target known, before the file is read.
func (s *State) register(name, configured string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.targets[name]; twice {
		return fmt.Errorf("two targets are called %q", name)
	}
	s.targets[name] = Status{Name: name, Configured: configured}
	return nil
}

func (s *State) get(name string) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.targets[name]
}

// update changes what is known and, when that changes anything, returns once the file has it. When the file cannot
// be written the change holds for this process, and the next one is written with it.
func (s *State) update(name string, change func(*Status)) error {
	before, at, err := s.apply(name, change)
	if err != nil || before == at {
		return err
	}
	return s.persist(name, at)
}

// toggle is update for a person, who is told that it is on disk also when there is nothing to change: the
// change may be another's whose write failed, or has not ended.
func (s *State) toggle(name string, change func(*Status)) error {
	_, at, err := s.apply(name, change)
	if err != nil {
		return err
	}
	return s.persist(name, at)
}

// apply changes what is known, and returns the number of changes before and after it.
func (s *State) apply(name string, change func(*Status)) (before, at uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.targets[name]
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

// report logs what a person must know. URLs are not logged: they may hold credentials.
func (s *State) logChange(before, after Status) {
	switch {
	case after.Off && !before.Off:
		s.log.Error("target is switched off, and its events wait until a person switches it on", "target", after.Name, "reason", after.Reason)
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
		s.log.Error("target refuses for legal reasons (451): a person has to look at it", "target", after.Name)
	}
}

// keep returns once the file has as many changes as at. Deliveries go on meanwhile: who writes takes with it all that
// has changed by then, and nothing older is written after it.
func (s *State) persist(name string, at uint64) error {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.written >= at {
		return nil
	}
	path, log, f, newest := s.snapshot()
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = s.replace(path, string(text)+"\n")
	}
	if err != nil {
		log.Error("what a target said is not on disk, and would be forgotten by a restart", "target", name, "err", err)
		return fmt.Errorf("state of targets: %w", err)
	}
	s.written = newest
	return nil
}

// snapshot returns what the file has to say by now, and how many changes that has.
func (s *State) snapshot() (path string, log *slog.Logger, f stateFile, newest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Format = stateFormat
	for _, name := range slices.Sorted(maps.Keys(s.targets)) {
		f.Targets = append(f.Targets, s.targets[name])
	}
	return s.path, s.log, f, s.changes
}
