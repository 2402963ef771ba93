// SPDX-License-Identifier: Apache-2.0

package predecessor

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// Action is the effect that installing a version has on an object.
type Action string

// The actions.
const (
	// Create means that the object does not exist.
	Create Action = "create"
	// Adopt means that cluster-capi-operator's object equals the version's
	// object except for its labels, annotations and owner.
	Adopt Action = "adopt"
	// AdoptAndChange means that fields of cluster-capi-operator's object change in
	// addition.
	AdoptAndChange Action = "adopt and change"
	// Change means that fields of an installed object change.
	Change Action = "change"
	// Keep means that an installed object equals the version's object.
	Keep Action = "keep"
	// Collide means that the object belongs to another user or controller; the
	// installation stops there.
	Collide Action = "collision"
	// Leave means that an object of cluster-capi-operator is not in the version and stays.
	Leave Action = "leave"
)

// ActionFor returns the action for the object of a version and the actual object in
// the cluster; actual is nil if it does not exist. namespace is the namespace of the installer.
func ActionFor(namespace string, desired, actual *unstructured.Unstructured) Action {
	switch {
	case actual == nil:
		return Create
	case Adoptable(namespace, actual), v1alpha1.AllowsAdoption(actual.GetAnnotations()):
		if within(fields(desired), actual.Object) {
			return Adopt
		}
		return AdoptAndChange
	case revision.Owner(namespace, actual) == "":
		return Collide
	case within(fields(desired), actual.Object):
		return Keep
	default:
		return Change
	}
}

// fields returns the fields of an object that its version applies, without status.
func fields(o *unstructured.Unstructured) map[string]any {
	out := o.DeepCopy().Object
	delete(out, "status")
	unstructured.RemoveNestedField(out, "metadata", "annotations", v1alpha1.AdoptAnnotation)
	return out
}

// within reports whether actual contains every field of desired with the same
// value. Elements of lists are compared by index, and empty values equal absent
// ones; actual may have more fields, because the API server sets defaults.
func within(desired, actual any) bool {
	switch want := desired.(type) {
	case map[string]any:
		got, _ := actual.(map[string]any)
		for key, value := range want {
			if !within(value, got[key]) {
				return false
			}
		}
		return true
	case []any:
		got, _ := actual.([]any)
		if len(want) != len(got) {
			return false
		}
		for i := range want {
			if !within(want[i], got[i]) {
				return false
			}
		}
		return true
	default:
		return equality.Semantic.DeepEqual(desired, actual)
	}
}
