// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ChangedFields returns the paths of the values of JSON that differ, such as "spec.containers[0].image". Lists of different
// length differ as a whole. An absent object is the same as an empty one: the paths are the paths of its fields.
func ChangedFields(before, after any) []string { return changedBelow("", before, after) }

func changedBelow(path string, before, after any) (changed []string) {
	if Equal(before, after) {
		return nil
	}
	beforeMap, isMap := before.(map[string]any)
	afterMap, isMapToo := after.(map[string]any)
	if isMap && isMapToo || isMap && after == nil && len(beforeMap) > 0 || isMapToo && before == nil && len(afterMap) > 0 {
		keys := slices.Sorted(maps.Keys(beforeMap))
		for _, key := range slices.Sorted(maps.Keys(afterMap)) {
			if _, both := beforeMap[key]; !both {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			changed = append(changed, changedBelow(strings.TrimPrefix(path+"."+key, "."), beforeMap[key], afterMap[key])...)
		}
		return changed
	}
	beforeList, isList := before.([]any)
	afterList, isListToo := after.([]any)
	if isList && isListToo && len(beforeList) == len(afterList) {
		for i := range beforeList {
			changed = append(changed, changedBelow(fmt.Sprintf("%s[%d]", path, i), beforeList[i], afterList[i])...)
		}
		return changed
	}
	return []string{path}
}
