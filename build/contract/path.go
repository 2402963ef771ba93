// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strconv"
	"strings"
)

// perVersion are the fields that the API server moves out of the versions if all versions have the same.
var perVersion = map[string][]string{
	"validation": {"schema"}, "subresources": {"subresources"},
	"additionalPrinterColumns": {"additionalPrinterColumns"}, "selectableFields": {"selectableFields"},
}

// AtPath returns the value of a CRD at a path of the API server, or the deepest existing one.
func (d *Definition) AtPath(path string) Value {
	steps := stepsOf(path)
	if len(steps) > 1 && steps[0] == "spec" && perVersion[steps[1]] != nil {
		lifted := append([]string{"spec", "versions", "0"}, perVersion[steps[1]]...)
		steps = append(lifted, steps[2:]...)
	}
	return d.reached(steps)
}

// AtPath returns the value at a path of the API server, or the deepest existing one.
func (v Value) AtPath(path string) Value { return v.reached(stepsOf(path)) }

// reached follows steps down to the deepest existing value, and to the first missing step.
func (v Value) reached(steps []string) Value {
	for _, step := range steps {
		if v = v.step(step); !v.Exists() {
			break
		}
	}
	return v
}

// step goes down by the name of a field, or by the index or the key of an item.
func (v Value) step(step string) Value {
	if index, err := strconv.Atoi(step); err == nil && index >= 0 && index < v.Length() {
		return v.item(index)
	}
	for _, item := range v.Items() {
		if item.At("name").Text() == step || item.At("class").Text() == step {
			return item
		}
	}
	return v.At(step)
}

// stepsOf splits a path such as "spec.versions[0].properties[a.b]".
func stepsOf(path string) (steps []string) {
	for path != "" {
		if rest, inBrackets := strings.CutPrefix(path, "["); inBrackets {
			step, after, _ := strings.Cut(rest, "]")
			steps, path = append(steps, step), after
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			steps, path = append(steps, path[:end]), path[end:]
		}
		path = strings.TrimPrefix(path, ".")
	}
	return steps
}
