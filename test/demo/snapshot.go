// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// installedKinds are the kinds of which the providers in the demonstration have objects.
var installedKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ServiceAccount"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
}

// snapshot is every installed object by "Kind namespace/name".
type snapshot map[string]*unstructured.Unstructured

// take lists everything that is marked as installed.
func take(ctx context.Context, reader client.Reader) (snapshot, error) {
	objects := snapshot{}
	for _, kind := range installedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := reader.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/managed-by": v1alpha1.Prefix}); err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			obj := &list.Items[i]
			objects[fmt.Sprintf("%s %s/%s", kind.Kind, obj.GetNamespace(), obj.GetName())] = obj
		}
	}
	return objects, nil
}

// difference is what happened between two snapshots.
type difference struct {
	added, removed, changed []string
	// recreated are objects of one name that are not the same object any more.
	recreated []string
	untouched int
}

func compare(before, after snapshot) difference {
	var d difference
	for _, name := range slices.Sorted(maps.Keys(after)) {
		old, existed := before[name]
		switch {
		case !existed:
			d.added = append(d.added, name)
		case old.GetUID() != after[name].GetUID():
			d.recreated = append(d.recreated, name)
		case !equality.Semantic.DeepEqual(content(old), content(after[name])):
			d.changed = append(d.changed, name)
		default:
			d.untouched++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] == nil {
			d.removed = append(d.removed, name)
		}
	}
	return d
}

// content is an object without what every hand-over from one version to the
// next changes: which version owns it, and the server's bookkeeping.
func content(obj *unstructured.Unstructured) map[string]any {
	bare := obj.DeepCopy().Object
	for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
		unstructured.RemoveNestedField(bare, "metadata", field)
	}
	for _, annotation := range []string{v1alpha1.OwnersAnnotation, v1alpha1.RevisionAnnotation, "deployment.kubernetes.io/revision"} {
		unstructured.RemoveNestedField(bare, "metadata", "annotations", annotation)
	}
	unstructured.RemoveNestedField(bare, "status")
	return bare
}

// kinds counts the objects by kind.
func (s snapshot) kinds() string {
	counts := map[string]int{}
	for _, object := range s {
		counts[object.GetKind()]++
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return strings.Join(parts, ", ")
}
