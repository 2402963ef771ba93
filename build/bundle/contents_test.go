// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

func TestContentsOfCountsObjectsAndNamesImagesAndVariables(t *testing.T) {
	bundle := bundleOf(`# a comment
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
spec:
  replicas: ${REPLICAS:=1}
  template:
    spec:
      initContainers: [{name: copy, image: example.com/b}]
      containers:
      - name: manager
        image: example.com/a
        args: ["--v=${LOGLEVEL}", "--w=${LOGLEVEL:=2}", "$(POD_IP)", "${URL:=${HOST:-localhost}:80}", "${EMPTY:=}"]
        env: [{name: ROLE, value: "${ROLE/#arn/role-arn}"}]
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}}
- {apiVersion: v1, kind: Service, metadata: {name: b}}
---
`)
	got, err := build.ContentsOf(bundle)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	want := build.Contents{
		Objects: 3,
		Kinds:   []build.KindCount{{"", "Service", 2}, {"apps", "Deployment", 1}},
		Images:  []string{"example.com/a", "example.com/b"},
		Variables: []build.Variable{
			{"EMPTY", text(""), false}, {"HOST", text("localhost"), false}, {"LOGLEVEL", text("2"), true},
			{"REPLICAS", text("1"), false}, {"ROLE", nil, true}, {"URL", text("${HOST:-localhost}:80"), false},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

func TestContentsOfNamesTheDocumentThatIsNoYAML(t *testing.T) {
	_, err := build.ContentsOf(bundleOf("kind: A\n---\nkind: {\n"))
	if !errors.Is(err, extractor.ErrInvalid) || err.Error() != "reading the manifests of cluster-api-provider-demo: document 2: error converting YAML to JSON: yaml: line 1: did not find expected node content" {
		t.Errorf("got %v", err)
	}
}

func FuzzContentsOf(f *testing.F) {
	for _, seed := range []string{
		configMap, "kind: List\nitems: [1, {kind: A}]\n", "- a\n", "---\n---\n", "kind: [\n", "a: ${X:=${Y}}${Z^^}${\n", "metadata: 1\nkind: 2\n",
		"apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [1, {image: 2}]}}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, manifests []byte) {
		contents, err := build.ContentsOf(extractor.Bundle{Manifests: manifests})
		if err != nil && !errors.Is(err, extractor.ErrInvalid) {
			t.Errorf("the error is not ErrInvalid: %v", err)
		}
		sum := 0
		for _, kind := range contents.Kinds {
			sum += kind.Count
		}
		if sum != contents.Objects {
			t.Errorf("%d objects by kind, %d in all", sum, contents.Objects)
		}
	})
}
