package dedup

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Note is a small text that a store keeps beside its events, such as how far a lane was handled
// ([Fence]). It survives what [Store.Guarantees] declares.
type Note struct {
	// Key names the note. Its Space says what the text is.
	Key Key
	// Text is the note, at most MaxNote bytes of UTF-8. It is empty if there is none.
	Text string
	// At is when it was last changed, by the clock of the store.
	At time.Time
}

// MaxNote is the length of the longest note, in bytes.
const MaxNote = 16 << 10

// Notes are the notes of a store within one durable step.
type Notes interface {
	// Note returns the note of a key, with an empty text if there is none.
	Note(Key) (Note, error)
	// SetNote replaces the text of a key. An empty one removes the note.
	SetNote(k Key, text string) error
}

// Expired reports whether a store may forget the note at now: a fence that has not moved for
// [FenceFor]. Other notes stay until they are removed.
func (n *Note) Expired(now time.Time) bool {
	return n.Key.Space == SpaceFence && !now.Before(n.At.Add(FenceFor))
}

// CheckNote returns an error that wraps ErrInvalid unless a text may be that of a note.
func CheckNote(text string) error {
	if len(text) > MaxNote || !utf8.ValidString(text) {
		return fmt.Errorf("%w: a note of %d bytes; at most %d of UTF-8", ErrInvalid, len(text), MaxNote)
	}
	return nil
}
