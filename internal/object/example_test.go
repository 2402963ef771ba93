// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

func deployment(image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "capa-controller-manager", "namespace": "openshift-cluster-api"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "manager", "image": image, "args": []any{"--sidecar-image", image}}},
		}}},
	}}
}

func ExampleDescribe() {
	fmt.Println(object.Describe(deployment("")))
	// Output: Deployment openshift-cluster-api/capa-controller-manager
}

func ExampleReplaceImages() {
	o := deployment("registry.ci.openshift.org/openshift:aws")
	replaced := object.ReplaceImages(o, map[string]string{"registry.ci.openshift.org/openshift:aws": "quay.io/openshift/aws@sha256:1f0e"})
	fmt.Println(replaced)
	fmt.Println(object.Images(o))
	fmt.Println(object.Containers(o)[0]["args"])
	// Output:
	// [registry.ci.openshift.org/openshift:aws]
	// [quay.io/openshift/aws@sha256:1f0e]
	// [--sidecar-image quay.io/openshift/aws@sha256:1f0e]
}

func ExampleCompare() {
	service := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service"}}
	objects := []*unstructured.Unstructured{deployment(""), service}
	slices.SortFunc(objects, object.Compare)
	for _, o := range objects {
		fmt.Println(o.GetKind())
	}
	// Output:
	// Service
	// Deployment
}

func ExampleScopes() {
	var noCRDs object.Scopes
	fmt.Println(noCRDs.Of(object.ClusterRole) == object.ScopeCluster)
	// Output: true
}

func ExampleChangedFields() {
	before := map[string]any{"spec": map[string]any{"replicas": int64(1), "args": []any{"a"}, "containers": []any{map[string]any{"image": "a"}}}}
	after := map[string]any{"spec": map[string]any{"replicas": int64(1), "args": []any{"a", "b"}, "containers": []any{map[string]any{"image": "b"}}, "paused": true}}
	fmt.Println(object.ChangedFields(before, after))
	// Output: [spec.args spec.containers[0].image spec.paused]
}

// An object that only one side has differs in its fields, so that two writers of the same field have the same path.
func ExampleChangedFields_absent() {
	limits := map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}, "selector": map[string]any{}}
	fmt.Println(object.ChangedFields(map[string]any{}, limits), object.ChangedFields(limits, map[string]any{}))
	// Output: [resources.limits.memory selector] [resources.limits.memory selector]
}
