// Package nearest finds the known word that a misspelt one probably means.
package nearest

import (
	"slices"
	"strings"
)

// Word returns the known word nearest to word, or "" if none is near.
func Word(word string, known []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := Distance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Distance counts the letters to insert, delete, replace or swap to get from a to b, in any letter
// case. It takes time proportional to the product of their lengths.
func Distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = 1 + min(last[j+1], row[j], last[j])
			if a[i] == b[j] {
				row[j+1] = last[j]
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
