// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/variable"
)

func TestContentsOf(t *testing.T) {
	of := bundleOf(`# a comment
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
        args: ["--v=${LOGLEVEL}", "--w=${LOGLEVEL:=2}", "$(POD_IP)", "${URL:=${HOST:-localhost}:80}", "${EMPTY:=}", "$${ESCAPED}", "${DASH-def}"]
        env: [{name: ROLE, value: "${ROLE/#arn/role-arn}"}]
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}}
- {apiVersion: v1, kind: Service, metadata: {name: b}}
---
{apiVersion: v1, kind: PodTemplate, metadata: {name: t}, template: {spec: {ephemeralContainers: [{image: example.com/c}]}}}
---
{apiVersion: example.com/v1, kind: Recipe, metadata: {name: r}, items: [flour]}
`)
	got, err := bundle.ContentsOf(of)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *string { return &s }
	want := bundle.Contents{
		Objects: 5,
		Kinds:   []bundle.KindCount{{"", "PodTemplate", 1}, {"", "Service", 2}, {"apps", "Deployment", 1}, {"example.com", "Recipe", 1}},
		Images:  []string{"example.com/a", "example.com/b", "example.com/c"},
		Variables: []variable.Variable{
			{Name: "EMPTY", Default: text(""), Required: false}, {Name: "HOST", Default: text("localhost"), Required: false}, {Name: "LOGLEVEL", Default: text("2"), Required: true},
			{Name: "REPLICAS", Default: text("1"), Required: false}, {Name: "ROLE", Default: nil, Required: true}, {Name: "URL", Default: text("${HOST:-localhost}:80"), Required: false},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

func TestContentsOf_InvalidYAML(t *testing.T) {
	_, err := bundle.ContentsOf(bundleOf("kind: A\n---\nkind: {\n"))
	if !errors.Is(err, extractor.ErrInvalid) || err.Error() != "reading the manifests of cluster-api-provider-demo: line 3 (document 2): yaml: line 3: did not find expected node content" {
		t.Errorf("got %v", err)
	}
}

func bundleOf(manifests string) extractor.Bundle {
	return extractor.Bundle{Metadata: extractor.Metadata{ProviderName: "cluster-api-provider-demo"}, Manifests: []byte(manifests)}
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: demo\n"

func FuzzContentsOf(f *testing.F) {
	for _, seed := range []string{
		configMap, "kind: List\nitems: [1, {kind: A}]\n", "- a\n", "---\n---\n", "kind: [\n", "a: ${X:=${Y}}${Z^^}${\n", "metadata: 1\nkind: 2\n",
		"apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [1, {image: 2}]}}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, manifests []byte) {
		contents, err := bundle.ContentsOf(extractor.Bundle{Manifests: manifests})
		if err != nil && !errors.Is(err, extractor.ErrInvalid) {
			t.Errorf("the error is not ErrInvalid: %v", err)
		}
		sum := 0
		for _, kind := range contents.Kinds {
			sum += kind.Count
		}
		if sum != contents.Objects {
			t.Errorf("%d objects by kind, %d in total", sum, contents.Objects)
		}
	})
}
