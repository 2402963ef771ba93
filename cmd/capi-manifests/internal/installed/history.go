// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

// Stored is a version with its objects, as its revision ConfigMaps store them.
type Stored struct {
	Namespace, Name string
	Set             operand.Set
}

// VersionsIn decodes the versions in ConfigMaps, in the order of their revision numbers.
func VersionsIn(all []corev1.ConfigMap) (versions []Stored, err error) {
	numbers := map[string]int64{}
	for i := range all {
		name := all[i].Labels[v1alpha1.RevisionLabel]
		if name == "" || name != all[i].Name {
			continue
		}
		if numbers[name], err = revision.Number(name); err != nil {
			return nil, err
		}
		stored, err := revision.FromConfigMaps(name, all)
		if err != nil {
			return nil, err
		}
		set, err := stored.Decode()
		if err != nil {
			return nil, err
		}
		versions = append(versions, Stored{Namespace: all[i].Namespace, Name: name, Set: set})
	}
	slices.SortFunc(versions, func(a, b Stored) int { return int(numbers[a.Name] - numbers[b.Name]) })
	return versions, nil
}

// Decode converts objects into their Go type.
func Decode[T any](objects ...*unstructured.Unstructured) ([]T, error) {
	var decoded []T
	for _, object := range objects {
		var into T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &into); err != nil {
			return nil, fmt.Errorf("decoding %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
		decoded = append(decoded, into)
	}
	return decoded, nil
}
