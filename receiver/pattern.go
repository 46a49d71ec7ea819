package receiver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
)

// A pattern is an exact event type, or a prefix followed by "*". "*" alone is the empty prefix.

// checkPattern reports what is wrong with a pattern.
func checkPattern(pattern string) error {
	if pattern == "" {
		return errors.New(`the pattern is empty: "*" takes every type`)
	}
	if i := strings.IndexByte(pattern, '*'); i >= 0 && i != len(pattern)-1 {
		return fmt.Errorf("bad pattern %q: \"*\" may only stand at the end", pattern)
	}
	return nil
}

// patternsOverlap reports whether some event type is taken by both patterns. An event type never ends in a
// "*" that means something, so the shorter prefix decides.
func patternsOverlap(a, b string) bool { return patternCovers(a, b) || patternCovers(b, a) }

// patternCovers reports whether a takes every type that b takes.
func patternCovers(a, b string) bool {
	prefix, ok := strings.CutSuffix(b, "*")
	if !ok {
		return dedup.MatchType(a, b)
	}
	return strings.HasSuffix(a, "*") && dedup.MatchType(a, prefix)
}
