// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strings"
	"testing"
)

func TestDoubleDashes(t *testing.T) {
	for line, want := range map[string]string{
		"generate -kustomize-dir=a -name b -v":        "generate --kustomize-dir=a --name b -v",
		"generate --kustomize-dir a -- -name":         "generate --kustomize-dir a -- -name",
		"validate a -o json -ojson -severity=error":   "validate a -o json -ojson --severity=error",
		"generate -unknown b":                         "generate -unknown b",
		"inspect - -manifests":                        "inspect - --manifests",
		"unknown -name b":                             "unknown -name b",
		"generate --attribute type=core -attribute x": "generate --attribute type=core --attribute x",
	} {
		if got := doubleDashes(New(""), strings.Fields(line)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %s", line, got, want)
		}
	}
}
