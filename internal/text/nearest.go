// SPDX-License-Identifier: Apache-2.0

package text

// Nearest returns the candidate that needs the fewest edits to become the word; empty if even that is no likely typing error, with
// more than a third of the word's characters edited.
func Nearest(word string, candidates []string) (nearest string) {
	best := len(word)/3 + 1
	for _, candidate := range candidates {
		if edits := distance(word, candidate); edits < best {
			nearest, best = candidate, edits
		}
	}
	return nearest
}

// distance returns the Levenshtein distance of two texts, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			edits := diagonal
			if a[i] != b[j] {
				edits++
			}
			diagonal = row[j+1]
			row[j+1] = min(edits, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
