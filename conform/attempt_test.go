package conform

import (
	"slices"
	"testing"
)

func TestMalformedAttemptsPanic(t *testing.T) {
	t.Parallel()
	newAttempt("refused 400 where rfc9421", "a right one", "set X-Conform {id} ; sign")
	for _, one := range [][2]string{
		{"refused often", "sign"}, {"refused", "resign"}, {"refused", "sign twice"}, {"refused", "drop"},
		{"refused", "set X {ids}"}, {"refused", "sign ;drop X"}, {"refused", "set X {timestamp+}"},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is read", one)
				}
			}()
			newAttempt(one[0], "", one[1])
		}()
	}
}

func TestNeedsAreKnown(t *testing.T) {
	t.Parallel()
	facts := (&session{p: &Profile{}}).facts()
	var words []string
	for word := range needs() {
		words = append(words, word)
	}
	for _, all := range allAttempts() {
		for _, a := range all {
			words = slices.Concat(words, a.where, a.unless)
		}
	}
	for _, word := range words {
		if _, known := facts[word]; !known {
			t.Errorf("nothing says whether the need %q is met", word)
		}
	}
}
