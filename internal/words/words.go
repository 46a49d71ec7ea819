// Package words gives the values of a type the words that a configuration has for them, in their
// order. An empty one is a default that has none.
package words

import (
	"fmt"
	"slices"
	"strings"
)

// Of returns the word of a value.
func Of[T ~int](v T, words []string) ([]byte, error) {
	if v < 0 || int(v) >= len(words) {
		return nil, fmt.Errorf("there is no value %d", int(v))
	}
	return []byte(words[v]), nil
}

// Read sets the value that has a word.
func Read[T ~int](to *T, text []byte, words []string) error {
	i := slices.Index(words, string(text))
	if i < 0 || len(text) == 0 {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
	}
	*to = T(i)
	return nil
}
