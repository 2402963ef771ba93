// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GroupKindSelector calls its probe for objects of one kind. All other objects
// are True.
type GroupKindSelector struct {
	// Prober checks the selected objects.
	Prober
	// GroupKind is the kind of the selected objects.
	schema.GroupKind
}

// Probe calls the probe if the object is of the kind.
func (kp *GroupKindSelector) Probe(obj client.Object) Result {
	if obj.GetObjectKind().GroupVersionKind().GroupKind() != kp.GroupKind {
		return TrueResult()
	}
	return runProbe(kp.Prober, obj)
}

// LabelSelector calls its probe for objects whose labels match. All other objects
// are True.
type LabelSelector struct {
	// Prober checks the selected objects.
	Prober
	// Selector selects objects by their labels. Nil selects all objects.
	labels.Selector
}

// Probe calls the probe if the labels of the object match.
func (ss *LabelSelector) Probe(obj client.Object) Result {
	if ss.Selector != nil && !ss.Matches(labels.Set(obj.GetLabels())) {
		return TrueResult()
	}
	return runProbe(ss.Prober, obj)
}
