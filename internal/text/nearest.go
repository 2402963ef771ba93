// SPDX-License-Identifier: Apache-2.0

package text

// maxEdits is the number of edits of a typing error. With three, gcpmachines would be one of awsmachines.
const maxEdits = 2

// Nearest returns the candidate that the word likely misspells; empty if there is none.
func Nearest(word string, candidates []string) (nearest string) {
	best := min(len(word)/3, maxEdits) + 1
	for _, candidate := range candidates {
		if edits := EditDistance(word, candidate); edits < best {
			nearest, best = candidate, edits
		}
	}
	return nearest
}

// EditDistance returns the number of bytes to insert, delete or replace to turn a into b.
func EditDistance(a, b string) int {
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
