// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
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
		if got := cli.DoubleDashes(command.New(""), strings.Fields(line)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %s", line, got, want)
		}
	}
}
