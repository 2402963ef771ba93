// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/test/registry"
)

// shipped is a layer with a bundle.
func shipped(t *testing.T) registry.Layer {
	t.Helper()
	return registry.Layer{Txtar: `
-- capi-operator-manifests/default/metadata.yaml --
name: core
attributes:
  type: core
  version: v1.13.0
installOrder: 7
-- capi-operator-manifests/default/manifests.yaml --
apiVersion: v1
kind: Namespace
metadata:
  name: capi-system
-- capi-operator-manifests/other/metadata.yaml --
name: other
attributes:
  type: addon
  version: v1.0.0
-- capi-operator-manifests/other/manifests.yaml --
apiVersion: v1
kind: Namespace
metadata:
  name: other-system
`}
}

func TestExtract_ReadsAnArchive(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "image.tar")
	image, err := registry.Format{Docker: true}.Image(shipped(t))
	if err != nil {
		t.Fatal(err)
	}
	saveArchive(t, archive, image)
	out := filepath.Join(dir, "out")
	code, stdout, stderr := run(t, "extract", archive, "--output-dir", out)
	if code != cli.ExitGood {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for profile, want := range map[string]string{"default": "capi-system", "other": "other-system"} {
		manifests, err := os.ReadFile(filepath.Join(out, profile, "manifests.yaml"))
		if err != nil || !strings.Contains(string(manifests), want) {
			t.Errorf("profile %s: got %q, %v", profile, manifests, err)
		}
	}
	if !strings.Contains(stderr, "has no field for the install order 7 of core") || strings.Count(stdout, "\n") != 4 {
		t.Errorf("got %s and %s", stdout, stderr)
	}
}
