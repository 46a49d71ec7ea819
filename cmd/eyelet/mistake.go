package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// place is where a setting was written: a line of a file, or a variable of the environment, or a flag.
type place struct {
	file string
	line int
}

// String returns "FILE:LINE", or what stands for it.
func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// mistake is something that the user has to change. It is printed as one line and a hint, without a stack, and
// the program exits with 2.
type mistake struct {
	at   place
	what string // one line
	hint string // what to do about it; may be empty
}

// Error returns the one line.
func (m *mistake) Error() string {
	if m.at.file == "" {
		return m.what
	}
	return m.at.String() + ": " + m.what
}

// mistakes are all that was found at once.
type mistakes []*mistake

// Error returns a line for each mistake.
func (ms mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = m.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted puts the mistakes of a file in the order of its lines and drops repetitions.
func (ms mistakes) sorted() mistakes {
	slices.SortStableFunc(ms, func(a, b *mistake) int {
		if c := strings.Compare(a.at.file, b.at.file); c != 0 {
			return c
		}
		return a.at.line - b.at.line
	})
	return slices.CompactFunc(ms, func(a, b *mistake) bool { return a.Error() == b.Error() })
}

// err returns nil when there is no mistake.
func (ms mistakes) err() error {
	if len(ms) == 0 {
		return nil
	}
	return ms.sorted()
}

// wrong returns a mistake that stands in no file, with its hint.
func wrong(hint, format string, args ...any) error {
	return &mistake{what: oneLine(fmt.Sprintf(format, args...)), hint: hint}
}

// oneLine keeps a message on its line, whatever an error of a library holds.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// mistakesIn returns the mistakes that err consists of; ok is false for errors of another kind.
func mistakesIn(err error) (ms mistakes, ok bool) {
	var many mistakes
	if errors.As(err, &many) {
		return many, true
	}
	var one *mistake
	if errors.As(err, &one) {
		return mistakes{one}, true
	}
	return nil, false
}

// didYouMean returns a hint that names the known word nearest to the one that was written, or lists all of
// them.
func didYouMean(word string, known []string) string {
	if best := nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) > 0 && len(known) <= 40 {
		sorted := slices.Sorted(slices.Values(known))
		return "known here: " + strings.Join(sorted, ", ")
	}
	return ""
}

func nearest(word string, known []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := distance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to add, drop, change, or swap with their neighbour, to get from a to b.
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
