package spec

import (
	"maps"
	"slices"
	"strings"
)

// Suggest returns a sentence with the known name that was probably meant, or with all of them when none is near.
func Suggest[T any](written string, known map[string]T) string {
	if best := Nearest(written, known); best != "" {
		return "did you mean " + quote(best) + "?"
	}
	return "known: " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// Nearest returns the known name that is near to the written one; "" when none is.
func Nearest[T any](written string, known map[string]T) string {
	best, least := "", max(2, len(written)/3)+1
	if len(written) <= 64 {
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if d := distance(strings.ToLower(written), strings.ToLower(name)); d < least {
				best, least = name, d
			}
		}
	}
	return best
}

// distance returns how many letters must be added, removed, replaced or swapped with their neighbour to turn a into b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
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
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
