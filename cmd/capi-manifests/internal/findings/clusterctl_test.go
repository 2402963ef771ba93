// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
)

func TestCheckReleases_JSONValidatesAgainstTheSchema(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"ipam-x/v1.0.0/ipam-components.yaml": "", "cluster-api/v1.0.0/core-components.yaml": "kind: [\n"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v, err := CheckReleases(dir, source.ClusterctlReleases(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := schematest.Validate(schema.Validation, v.Write(JSON, false)); err != nil {
		t.Error(err)
	}
	if len(v.Bundles) != 2 || v.Counts[contract.Error] == 0 || !v.Invalid {
		t.Errorf("%d releases, %v, invalid: %t", len(v.Bundles), v.Counts, v.Invalid)
	}
}
