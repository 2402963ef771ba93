// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"fmt"

	"github.com/capi-installer/capi-installer/build/contract"
)

// maxRepeated is the maximum number of findings with the same rule and message that
// are listed separately.
const maxRepeated = 3

// group is a finding with the number of findings that it represents.
type group struct {
	contract.Finding
	count int
}

// grouped merges findings with the same file, rule and message if there are more
// than maxRepeated: a rule that every webhook violates is one problem. The first
// finding represents all.
func grouped(all []contract.Finding) (groups []group) {
	type key struct{ file, rule, message string }
	keyOf := func(f contract.Finding) key { return key{f.File, f.Rule, f.Message} }
	counts := map[key]int{}
	for _, f := range all {
		counts[keyOf(f)]++
	}
	shown := map[key]bool{}
	for _, f := range all {
		switch count := counts[keyOf(f)]; {
		case count <= maxRepeated:
			groups = append(groups, group{f, 1})
		case !shown[keyOf(f)]:
			groups = append(groups, group{f, count})
			shown[keyOf(f)] = true
		}
	}
	return groups
}

// others describes the findings that are not shown; empty if there are none.
func (g group) others() string {
	if g.count == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", g.count-1)
}
