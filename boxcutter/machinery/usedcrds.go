// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inUse says whether the object is a CustomResourceDefinition that is to stay
// because there are objects of its kind, or may be. Whoever may be asked about
// them is past every cache, and is asked anew each time.
func (e *ObjectEngine) inUse(ctx context.Context, r *removal) (bool, error) {
	if !r.options.KeepUsedCRDs || r.actual.GetObjectKind().GroupVersionKind().GroupKind() != definition {
		return false, nil
	}
	if e.unfilteredReader == nil {
		return false, misuse(r.actual, "used CRDs are to be kept, but the engine has no UnfilteredReader to look for their objects")
	}
	crd, err := readDefinition(r.actual)
	if err != nil {
		return false, err
	}
	if crd.version == "" {
		return true, nil // There may be objects, but no way to see them.
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.kind.Group, Version: crd.version, Kind: crd.kind.Kind + "List"})
	switch err := e.unfilteredReader.List(ctx, list, client.Limit(1)); {
	case err == nil:
		return len(list.Items) > 0, nil
	case absent(err) && !crd.established:
		return false, nil // It has never been served, so that nobody could create any.
	default:
		return false, fmt.Errorf("looking for objects of %s: %w", types.ToObjectRef(r.actual), err)
	}
}

// servedKind is what a CustomResourceDefinition has the API server serve.
type servedKind struct {
	kind schema.GroupKind
	// version is one that is served, empty when there is none.
	version     string
	established bool
}

func readDefinition(crd Object) (servedKind, error) {
	data, err := content(crd)
	if err != nil {
		return servedKind{}, fmt.Errorf("reading the content of %s: %w", types.ToObjectRef(crd), err)
	}
	out := servedKind{kind: definedKind(crd)}
	// A change of names is not served before it is accepted.
	if kind, found, _ := unstructured.NestedString(data, "status", "acceptedNames", "kind"); found && kind != "" {
		out.kind.Kind = kind
	}
	versions, _, _ := unstructured.NestedSlice(data, "spec", "versions")
	for _, item := range versions {
		if version, ok := item.(map[string]any); ok && version["served"] == true && out.version == "" {
			out.version, _ = version["name"].(string)
		}
	}
	conditions, _, _ := unstructured.NestedSlice(data, "status", "conditions")
	for _, item := range conditions {
		if condition, ok := item.(map[string]any); ok && condition["type"] == "Established" {
			out.established = condition["status"] == "True"
		}
	}
	return out, nil
}
