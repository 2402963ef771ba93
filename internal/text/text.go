// SPDX-License-Identifier: Apache-2.0

// Package text shortens and joins text for messages.
package text

import (
	"fmt"
	"strings"
)

const ellipsis = "…"

// Truncate shortens a string to limit bytes, at least the bytes of "…": a shortened string ends with it. It does not
// cut characters, and removes invalid UTF-8 from a string that it cuts.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:max(0, limit-len(ellipsis))], "") + ellipsis
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
