// SPDX-License-Identifier: Apache-2.0

package source

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// Directory is one with the files of an archive.
func directory(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	if err := txtar.Write(txtar.Parse([]byte(archive)), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestClusterctlReleases(t *testing.T) {
	for name, test := range map[string]struct {
		archive, below string
		want           []string
	}{
		"a repository":                       {"-- cluster-api/v1.0.0/core-components.yaml --\n-- ipam-x/v1.0.0/README.md --\n-- README.md --\n", "", []string{"cluster-api/v1.0.0", "ipam-x/v1.0.0"}},
		"a release of a repository":          {"-- ipam-x/v1.0.0/install.yaml --\n", "ipam-x/v1.0.0", []string{"."}},
		"a provider of a repository":         {"-- ipam-x/v1.0.0/install.yaml --\n-- ipam-x/v1.1.0/ipam-components.yaml --\n-- ipam-x/README.md --\n", "ipam-x", []string{"v1.0.0", "v1.1.0"}},
		"a release outside a repository":     {"-- out/core-components.yaml --\n-- out/a/b/core-components.yaml --\n", "out", []string{"."}},
		"a release in a wrong directory":     {"-- releases/latest/core-components.yaml --\n", "", []string{"releases/latest"}},
		"a directory with other files":       {"-- a/b/manifests.yaml --\n-- components.yaml --\n", "", nil},
		"a bundle":                           {"-- metadata.json --\n-- ipam-components.yaml --\n", "", nil},
		"the root of an image":               {"-- capi-manifests/metadata.json --\n-- ipam-x/v1.0.0/ipam-components.yaml --\n", "", nil},
		"a kustomize directory":              {"-- kustomization.yaml --\nresources: [core-components.yaml]\n-- core-components.yaml --\n", "", nil},
		"a missing directory":                {"", "nothing", nil},
		"an archive, which is not a release": {"-- ipam-components.yaml --\n", "ipam-components.yaml", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ClusterctlReleases(filepath.Join(directory(t, test.archive), test.below))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
