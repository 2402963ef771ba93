// SPDX-License-Identifier: Apache-2.0

// Package text shortens and joins text for messages.
package text

import (
	"fmt"
	"strings"
)

const ellipsis = "…"

// Truncate shortens a string to limit bytes, at least the bytes of "…", which replaces the middle: an error names its object first, and the
// cause last. It does not cut characters, and removes invalid UTF-8 from a string that it cuts.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	rest := max(0, limit-len(ellipsis))
	return strings.ToValidUTF8(s[:rest/2], "") + ellipsis + strings.ToValidUTF8(s[len(s)-(rest+1)/2:], "")
}

// Join formats a list: "a, b".
func Join[S ~string](items []S) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = string(item)
	}
	return strings.Join(texts, ", ")
}

// First formats the first limit items of a list and the number of the others: "a, b and 3 more".
func First[S ~string](limit int, items []S) string {
	if len(items) <= limit {
		return Join(items)
	}
	return fmt.Sprintf("%s and %d more", Join(items[:limit]), len(items)-limit)
}

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
