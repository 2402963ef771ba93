// SPDX-License-Identifier: Apache-2.0

package kustomize_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build/kustomize"
)

// TestRender_ErrorsHaveFileLineAndCause: an error is one line, without the resource.
func TestRender_ErrorsHaveFileLineAndCause(t *testing.T) {
	t.Parallel()
	const fine = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n"
	for name, test := range map[string]struct {
		files map[string]string
		path  string
		want  string
	}{
		"KeyTwice":            {map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": fine + "---\n" + fine + "data: {}\ndata: {}\n"}, "", `DIR/a.yaml:9: key "data" already set in map`},
		"KeyTwiceInFile":      {map[string]string{"components.yaml": fine + "data: {}\ndata: {}\n"}, "components.yaml", `DIR/components.yaml:5: key "data" already set in map`},
		"BrokenYAML":          {map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": fine + "---\nkind: [\n"}, "", `DIR/a.yaml:5: did not find expected node content`},
		"BrokenKustomization": {map[string]string{"kustomization.yaml": "resources: [a.yaml\n"}, "", `DIR/kustomization.yaml:1: did not find expected ',' or ']'`},
		"MissingFile":         {map[string]string{"kustomization.yaml": "namePrefix: a-\nresources:\n- b.yaml\n"}, "", `DIR/kustomization.yaml:3: b.yaml: file does not exist`},
		"MissingBelow":        {map[string]string{"kustomization.yaml": "resources: [base]\n", "base/kustomization.yaml": "resources: [c.yaml]\n"}, "", `DIR/base/kustomization.yaml:1: c.yaml: file does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range test.files {
				file = filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := kustomize.Render(filepath.Join(dir, test.path))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, strings.ReplaceAll(err.Error(), dir, "DIR")); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
