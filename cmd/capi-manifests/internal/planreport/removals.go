// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// removals returns the objects of the stored versions that are installed and that the release lacks: they would be removed, or, if they are CRDs
// with instances, retained. unmanaged CRDs stay.
func removals(ctx context.Context, cluster *apiserver.Cluster, stored map[string][]*unstructured.Unstructured, desired []*unstructured.Unstructured, unmanaged []string) ([]Action, error) {
	handled := map[string]bool{}
	for _, o := range desired {
		handled[object.Describe(o)] = true
	}
	for _, name := range unmanaged {
		handled[object.CustomResourceDefinition.Kind+" "+name] = true
	}
	var found []Action
	for _, o := range slices.Concat(slices.Collect(maps.Values(stored))...) {
		name := object.Describe(o)
		if handled[name] {
			continue
		}
		handled[name] = true
		actual, err := cluster.Read(ctx, o)
		if err != nil {
			return nil, err
		}
		if actual == nil || actual.GetLabels()[predecessor.ManagedByLabel] != v1alpha1.Prefix {
			continue
		}
		action := Action{Action: Remove, Object: name}
		if object.IsCRD(actual) {
			if action, err = removalOfCRD(ctx, cluster, actual); err != nil {
				return nil, err
			}
		}
		found = append(found, action)
	}
	return found, nil
}

// removalOfCRD returns the action on a CRD that the release lacks.
func removalOfCRD(ctx context.Context, cluster *apiserver.Cluster, crd *unstructured.Unstructured) (Action, error) {
	action := Action{Action: Remove, Object: object.Describe(crd)}
	number, err := instancesOf(ctx, cluster, crd)
	if number > 0 {
		action.Action, action.Message = Retain, "it has "+term.Plural(number, "instance", "instances")
	}
	return action, err
}

// instancesOf returns the number of instances of a CRD.
func instancesOf(ctx context.Context, cluster *apiserver.Cluster, crd *unstructured.Unstructured) (int, error) {
	group, kind := object.TextAt(crd.Object, "spec", "group"), object.TextAt(crd.Object, "spec", "names", "kind")
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		if version["served"] != true {
			continue
		}
		instances, err := cluster.List(ctx, schema.GroupVersionKind{Group: group, Version: object.TextAt(version, "name"), Kind: kind}, "")
		return len(instances), err
	}
	return 0, nil
}

// Installed are the stored versions of a cluster.
type Installed struct {
	// Namespace is the namespace of the installer; empty if no version is stored.
	Namespace string
	// objects are the objects of each version.
	objects map[string][]*unstructured.Unstructured
}

// ReadInstalled returns the stored versions of a cluster.
func ReadInstalled(ctx context.Context, cluster *apiserver.Cluster) (Installed, error) {
	found := Installed{objects: map[string][]*unstructured.Unstructured{}}
	var stored []*unstructured.Unstructured
	for _, label := range []string{v1alpha1.RevisionLabel, v1alpha1.RevisionPartLabel} {
		listed, err := cluster.List(ctx, corev1.SchemeGroupVersion.WithKind("ConfigMap"), label)
		if err != nil {
			return Installed{}, err
		}
		stored = append(stored, listed...)
	}
	configMaps, err := installed.Decode[corev1.ConfigMap](stored...)
	if err != nil {
		return Installed{}, err
	}
	versions, err := installed.VersionsIn(configMaps)
	for _, version := range versions {
		found.Namespace = version.Namespace
		for _, component := range version.Set.Operands {
			found.objects[version.Name] = append(found.objects[version.Name], component.Objects...)
		}
	}
	return found, err
}
