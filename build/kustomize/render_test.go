// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// unusual has values that YAML can write in several ways. Its kind is unknown, like the kind of a CRD's
// instance.
const unusual = `
apiVersion: example.com/v1
kind: Unusual
metadata:
  name: unusual
  labels: &labels {a: b}
spec:
  integers: [9007199254740993, 18446744073709551615, 0x1F, 0o17, 017]
  floats: [1e3, 1.50, 3.0]
  texts: ["1", 'true', yes, off, "0777", !!str 123, !!binary aGVsbG8=, "${B}", "${A:=2}"]
  lines: |
    line

    more ${X:=1}
  long: "a text that is longer than the width at which YAML is folded by default, and has a colon: here"
  times: [2020-01-01, 2020-01-01T00:00:00Z, "2020-01-01"]
  nothing: [null, ~, "", {}, []]
  anchor: *labels
  merged: {<<: *labels, c: d}
`

// TestRender_AsKustomizePrints: an object is the same as after kustomize has printed and parsed it, and is printed in the
// same way whether it is encoded directly or as a tree.
func TestRender_AsKustomizePrints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"kustomization.yaml": "resources: [unusual.yaml]\nnamePrefix: an-\n", "unusual.yaml": unusual} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	resources, err := run(&textFiles{FileSystem: filesys.MakeFsOnDisk()}, dir)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := resources.Resources()[0].MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON(encoded); err != nil {
		t.Fatal(err)
	}
	got, err := Render(dir)
	if err != nil || len(got) != 1 {
		t.Fatalf("%d objects: %v", len(got), err)
	}
	if diff := cmp.Diff(want.Object, got[0].Object); diff != "" {
		t.Errorf("(-kustomize +rendered):\n%s", diff)
	}
	printed, err := Print(got)
	if err != nil {
		t.Fatal(err)
	}
	var tree yaml.Node
	if err := tree.Encode(got[0].Object); err != nil {
		t.Fatal(err)
	}
	if byTree, err := encode(&tree); err != nil || !bytes.Equal(byTree, printed) {
		t.Errorf("%v (-tree +printed):\n%s", err, cmp.Diff(string(byTree), string(printed)))
	}
}
