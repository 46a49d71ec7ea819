package forward

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// Shared keeps the state of targets for several processes, in notes: those of a [dedup.Store].
type Shared interface {
	Notes(ctx context.Context, space string) iter.Seq2[dedup.Note, error]
	ChangeNote(ctx context.Context, k dedup.Key, change func(text string) (string, error)) error
}

const (
	sharedAge     = time.Second     // how old what is known of the shared state may be
	sharedTimeout = 5 * time.Second // of a call of Shared
)

// Share reads the state that several processes share, and from then on changes it there. What
// another process changes is known here within a second. A change that fails is not made. Call it
// instead of [State.Open]. Changes, also those of other processes, are logged to log, which may be
// nil.
func (s *State) Share(kept Shared, log *slog.Logger) error {
	k := s.known
	k.log = cmp.Or(log, k.log)
	k.shared = kept
	k.sharing.Lock()
	defer k.sharing.Unlock()
	return s.readShared()
}

// refresh reads the shared state if it is too old. One caller does; meanwhile others continue with
// what is known.
func (s *State) refresh() {
	k := s.known
	if k.shared == nil || !k.sharing.TryLock() {
		return
	}
	defer k.sharing.Unlock()
	if time.Since(s.read) < sharedAge {
		return
	}
	if err := s.readShared(); err != nil {
		k.log.Warn("the state of targets could not be read, and may be old", "err", err)
	}
}

func (s *State) readShared() error {
	k := s.known
	ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
	defer cancel()
	defer func() { s.read = time.Now() }() // also after an error: the next read is not at once
	texts := map[string]string{}
	for note, err := range k.shared.Notes(ctx, dedup.SpaceTarget) {
		if err != nil {
			return fmt.Errorf("state of targets: %w", err)
		}
		texts[note.Key.ID] = note.Text
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, target := range s.targets {
		next, err := target.parse(texts[target.key()])
		if err != nil {
			return err
		}
		k.set(next)
	}
	return nil
}

// changeShared applies a change to the newest shared state of a target.
func (k *known) changeShared(target Status, change func(*Status)) error {
	k.sharing.Lock()
	defer k.sharing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), sharedTimeout)
	defer cancel()
	var next Status
	note := dedup.Key{Space: dedup.SpaceTarget, ID: target.key()}
	err := k.shared.ChangeNote(ctx, note, func(text string) (out string, err error) {
		if next, err = target.parse(text); err != nil {
			return "", err
		}
		change(&next)
		changed, err := json.Marshal(next)
		return string(changed), err
	})
	if err != nil {
		k.log.Error("the state of a target was not changed", "target", target.Name, "err", err)
		return fmt.Errorf("it is not done: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set(next)
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
