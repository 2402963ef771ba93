// SPDX-License-Identifier: Apache-2.0

package transform_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/transform"
)

// label returns a transform that sets the label x of an object.
func label(transformName, object, value string) transform.Transform {
	return transform.Transform{Name: transformName, Apply: func(objects []*unstructured.Unstructured, _ transform.Options) ([]*unstructured.Unstructured, error) {
		for _, o := range objects {
			if o.GetName() == object {
				o.SetLabels(map[string]string{"x": value})
			}
		}
		return objects, nil
	}}
}

// TestApply_ReportsEachTransform: each result has the changes since the transform before it, also for an object that several
// transforms change.
func TestApply_ReportsEachTransform(t *testing.T) {
	t.Parallel()
	named := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "A", "metadata": map[string]any{"name": name}}}
	}
	replace := transform.Transform{Name: "replace", Apply: func(objects []*unstructured.Unstructured, _ transform.Options) ([]*unstructured.Unstructured, error) {
		return append(slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == "b" }), named("c")), nil
	}}
	transforms := []transform.Transform{
		label("1", "a", "1"), label("again", "a", "1"), label("2", "a", "2"), label("skipped", "a", "0"), label("back", "a", "1"),
		label("b", "b", "1"), replace, label("c", "c", "1"), label("none", "d", "1"),
	}
	_, results, err := transform.Apply(transforms, []*unstructured.Unstructured{named("a"), named("b")}, transform.Options{SkipTransforms: []string{"skipped"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []transform.Result{
		{Transform: "1", Changed: []string{"A a"}}, {Transform: "again"}, {Transform: "2", Changed: []string{"A a"}},
		{Transform: "skipped", Skipped: true}, {Transform: "back", Changed: []string{"A a"}},
		{Transform: "b", Changed: []string{"A b"}}, {Transform: "replace", Dropped: []string{"A b"}, Added: []string{"A c"}},
		{Transform: "c", Changed: []string{"A c"}}, {Transform: "none"},
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Two groups can define a kind with the same name, such as vCluster's as a cluster and as a control plane.
func TestInfraClusterProtection_KindsOfOneName(t *testing.T) {
	crd := func(group string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": group, "names": map[string]any{"kind": "VCluster", "singular": "vcluster", "plural": "vclusters"}}}}
		o.SetAPIVersion("apiextensions.k8s.io/v1")
		o.SetKind("CustomResourceDefinition")
		o.SetName("vclusters." + group)
		return o
	}
	only := slices.DeleteFunc(transform.All(), func(t transform.Transform) bool { return t.Name != "infra-cluster-protection" })
	objects, _, err := transform.Apply(only, []*unstructured.Unstructured{crd("a.example.com"), crd("b.example.com")}, transform.Options{ProtectClusters: []string{"vcluster"}})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, o := range objects[2:] {
		names[o.GetName()]++
	}
	want := map[string]int{"openshift-cluster-api-protect-vcluster": 2, "openshift-cluster-api-protect-vcluster.b.example.com": 2}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names of policies and bindings (-want +got):\n%s", diff)
	}
}
