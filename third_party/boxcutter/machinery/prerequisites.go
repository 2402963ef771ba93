// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// prerequisites are the namespaces and kinds that a phase creates. Until they exist,
// the API server cannot check the objects that depend on them.
type prerequisites struct {
	namespaces map[string]bool
	kinds      map[schema.GroupKind]bool
}

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	definition    = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

func prerequisitesOf(steps []step) prerequisites {
	out := prerequisites{namespaces: map[string]bool{}, kinds: map[schema.GroupKind]bool{}}
	for _, step := range steps {
		if step.plan == nil || step.plan.action != ActionCreated {
			continue
		}
		switch step.plan.desired.GetObjectKind().GroupVersionKind().GroupKind() {
		case namespaceKind:
			out.namespaces[step.plan.desired.GetName()] = true
		case definition:
			out.kinds[definedKind(step.plan.desired)] = true
		}
	}
	return out
}

// mark marks the plans of objects that depend on them.
func (p prerequisites) mark(steps []step) {
	for _, step := range steps {
		if step.plan != nil {
			step.plan.awaits = p.awaitedBy(step.plan.desired)
		}
	}
}

func (p prerequisites) awaitedBy(obj Object) bool {
	return p.namespaces[obj.GetNamespace()] || p.kinds[obj.GetObjectKind().GroupVersionKind().GroupKind()]
}

// definedKind returns the kind that a CustomResourceDefinition defines.
func definedKind(crd Object) schema.GroupKind {
	data, err := content(crd)
	if err != nil {
		return schema.GroupKind{}
	}
	group, _, _ := unstructured.NestedString(data, "spec", "group")
	kind, _, _ := unstructured.NestedString(data, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}
