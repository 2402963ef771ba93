// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// snapshot is every installed object by "Kind namespace/name".
type snapshot map[string]*unstructured.Unstructured

// take lists all objects that are marked as installed.
func take(ctx context.Context, reader client.Reader) (snapshot, error) {
	installed, err := fixture.Installed(ctx, reader)
	if err != nil {
		return nil, err
	}
	objects := snapshot{}
	for i := range installed {
		object := &installed[i]
		objects[object.GetKind()+" "+path.Join(object.GetNamespace(), object.GetName())] = object
	}
	return objects, nil
}

// difference is the change between two snapshots.
type difference struct {
	added, removed, changed []string
	// recreated are objects with the same name and another UID.
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

// content returns an object without the fields that each new version changes: its owner, and the metadata of the API
// server.
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
