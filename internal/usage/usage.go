// Package usage holds errors that the user has to fix: in the arguments, the configuration or the
// machine. The program prints each as one line with a hint, and exits with 2.
package usage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/internal/nearest"
)

// Place is where a setting was written: a line of a file, an environment variable, or a flag.
type Place struct {
	File string // or the name of the variable or flag
	Line int    // 0 outside of files
}

// String returns FILE:LINE, or the name of the variable or flag.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is one thing to fix.
type Error struct {
	At   Place  // zero where no setting is to blame
	What string // one line
	Hint string // how to fix it; may be empty
}

// Error returns the place and what is wrong there, without the hint.
func (e *Error) Error() string {
	if e.At.File == "" {
		return e.What
	}
	return e.At.String() + ": " + e.What
}

// Errorf returns an error without a place.
func Errorf(hint, format string, args ...any) error {
	return &Error{What: OneLine(fmt.Sprintf(format, args...)), Hint: hint}
}

// Errors are all errors that were found at once.
type Errors []*Error

// Add appends an error.
func (es *Errors) Add(at Place, hint, format string, args ...any) {
	*es = append(*es, &Error{At: at, What: OneLine(fmt.Sprintf(format, args...)), Hint: hint})
}

// Error returns one line per error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns the errors by file and line, without duplicates; nil if there are none.
func (es Errors) Err() error {
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.At.File, b.At.File), a.At.Line-b.At.Line)
	})
	return slices.CompactFunc(es, func(a, b *Error) bool { return a.Error() == b.Error() })
}

// Find returns the usage errors in err; ok is false if it is an error of another kind.
func Find(err error) (es Errors, ok bool) {
	if errors.As(err, &es) {
		return es, true
	}
	if one, ok := errors.AsType[*Error](err); ok {
		return Errors{one}, true
	}
	return nil, false
}

// OneLine replaces line breaks and runs of white space with single spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Cause returns the text of an error about a file without the file's name.
func Cause(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// RootCause returns the text of the innermost error.
func RootCause(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// DidYouMean returns a hint: the known word nearest to word, else all known words if at most 40.
func DidYouMean(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) > 0 && len(known) <= 40 {
		return "known here: " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
	}
	return ""
}

// Nearest returns the known word nearest to word, or "" if none is near.
func Nearest(word string, known []string) string { return nearest.Word(word, known) }
