package forward

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Shared keeps the state of targets for several processes, as texts under their keys.
type Shared interface {
	// Targets returns all texts by their keys.
	Targets(ctx context.Context) (map[string]string, error)
	// ChangeTarget replaces the text of a key, "" if there is none, by that which change returns
	// for it. No other change of the key happens between. It may call change again after an error.
	ChangeTarget(ctx context.Context, key string, change func(text string) (string, error)) error
}

const (
	sharedAge     = time.Second     // how old what is known of the shared state may be
	sharedTimeout = 5 * time.Second // of a call of Shared
)

// sharedState is the part of a State that several processes share. kept is nil without it.
type sharedState struct {
	kept Shared
	ctx  context.Context // of the calls of kept, which have their own time
	mu   sync.Mutex      // held while it is read or changed
	read time.Time       // when it was last read
}

// Share reads the state that several processes share, and from then on changes it there. What
// another process changes is known here within a second. A change that fails is not made. Call it
// instead of [State.Open]. Changes, also those of other processes, are logged to log, which may be
// nil.
func (s *State) Share(ctx context.Context, kept Shared, log *slog.Logger) error {
	s.log = cmp.Or(log, s.log)
	s.shared.kept, s.shared.ctx = kept, context.WithoutCancel(ctx)
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	return s.readShared() //nolint:contextcheck // it has its own time
}

// refresh reads the shared state if it is too old. One caller does; meanwhile others continue with
// what is known.
func (s *State) refresh() {
	if s.shared.kept == nil || !s.shared.mu.TryLock() {
		return
	}
	defer s.shared.mu.Unlock()
	if time.Since(s.shared.read) < sharedAge {
		return
	}
	if err := s.readShared(); err != nil {
		s.log.Warn("the state of targets could not be read, and may be old", "err", err)
	}
}

func (s *State) readShared() error {
	ctx, cancel := context.WithTimeout(s.shared.ctx, sharedTimeout)
	defer cancel()
	texts, err := s.shared.kept.Targets(ctx)
	s.shared.read = time.Now() // also after an error: the next read is not at once
	if err != nil {
		return fmt.Errorf("state of targets: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, old := range s.targets {
		next, err := old.parse(texts[old.key()])
		if err != nil {
			return err
		}
		s.targets[name] = next
		s.logChange(old, next)
	}
	return nil
}

// updateShared applies a change to the newest shared state of a target, unless it changes nothing
// that is known here.
func (s *State) updateShared(name string, always bool, change func(*Status)) error {
	s.mu.Lock()
	old, ok := s.targets[name]
	s.mu.Unlock()
	next := old
	if change(&next); !ok {
		return fmt.Errorf("%w: %q", ErrUnknownTarget, name)
	} else if next == old && !always {
		return nil
	}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.shared.ctx, sharedTimeout)
	defer cancel()
	err := s.shared.kept.ChangeTarget(ctx, old.key(), func(text string) (string, error) {
		newest, err := old.parse(text)
		if err != nil {
			return "", err
		}
		change(&newest)
		next = newest
		out, err := json.Marshal(newest)
		return string(out), err
	})
	if err != nil {
		s.log.Error("the state of a target was not changed", "target", name, "err", err)
		return fmt.Errorf("it is not done: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logChange(s.targets[name], next)
	s.targets[name] = next
	return nil
}

// key names the target and its URL, so that receivers whose configurations differ for a while do
// not overwrite what the others know.
func (st *Status) key() string { return st.Name + " " + st.Configured }

// parse returns the status that a text of the shared state holds.
func (st *Status) parse(text string) (Status, error) {
	kept := Status{Name: st.Name, Configured: st.Configured}
	if text == "" {
		return kept, nil
	}
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return kept, fmt.Errorf("the state of target %q cannot be read: %w", st.Name, err)
	}
	return kept, nil
}
