// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/setting"
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

// Installed is what a cluster has: the ClusterAPI object and the stored versions.
type Installed struct {
	// Namespace is the namespace of the installer; empty if no version is stored.
	Namespace string
	// ClusterAPI is the object in the cluster; the zero value if there is none.
	ClusterAPI v1alpha1.ClusterAPI
	// Ignored are the fields that the drift policy of the release leaves to other actors.
	Ignored []v1alpha1.IgnoredFields

	cluster *apiserver.Cluster
	// objects are the objects of each version.
	objects map[string][]*unstructured.Unstructured
	// mask knows the values of Secrets.
	mask *masking.Mask
}

// ReadInstalled reads a cluster.
func ReadInstalled(ctx context.Context, cluster *apiserver.Cluster) (*Installed, error) {
	found := &Installed{cluster: cluster, objects: map[string][]*unstructured.Unstructured{}, mask: &masking.Mask{}}
	if err := read(ctx, cluster, v1alpha1.GroupVersion.WithKind("ClusterAPI"), "", v1alpha1.ClusterAPIName, &found.ClusterAPI); err != nil {
		return nil, err
	}
	var stored []*unstructured.Unstructured
	for _, label := range []string{v1alpha1.RevisionLabel, v1alpha1.RevisionPartLabel} {
		listed, err := cluster.List(ctx, corev1.SchemeGroupVersion.WithKind("ConfigMap"), label)
		if err != nil {
			return nil, err
		}
		stored = append(stored, listed...)
	}
	configMaps, err := installed.Decode[corev1.ConfigMap](stored...)
	if err != nil {
		return nil, err
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

// read decodes an object of the cluster, if it exists.
func read(ctx context.Context, cluster *apiserver.Cluster, kind schema.GroupVersionKind, namespace, name string, into any) error {
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(kind)
	like.SetNamespace(namespace)
	like.SetName(name)
	found, err := cluster.Read(ctx, like)
	if err != nil || found == nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, into)
}

// Reveal returns a set with the values of the Secrets that settings refer to, as the installer applies it. Messages of the report do not have
// the values. The error names the Secrets that this user may not read, and missing ones: their values are not compared.
func (i *Installed) Reveal(ctx context.Context, set operand.Set, components []v1alpha1.ComponentSettings) (operand.Set, error) {
	values, errs := map[string]string{}, []error(nil)
	for _, key := range (setting.Settings{Components: components}).SecretKeys() {
		var secret corev1.Secret
		err := read(ctx, i.cluster, corev1.SchemeGroupVersion.WithKind("Secret"), i.Namespace, key.Name, &secret)
		value, found := secret.Data[key.Key]
		switch {
		case err != nil:
			errs = append(errs, err)
		case !found:
			errs = append(errs, fmt.Errorf("key %q of Secret %s/%s not found", key.Key, i.Namespace, key.Name))
		default:
			values[setting.Placeholder(key)] = string(value)
		}
	}
	i.mask.Add(values)
	return set.Revealed(setting.Secrets{Values: values}), errors.Join(errs...)
}
