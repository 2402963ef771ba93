// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GroupKindSelector asks its probe about objects of one kind. All others are
// True.
type GroupKindSelector struct {
	// Prober is asked about the objects selected.
	Prober
	// GroupKind is the kind selected.
	schema.GroupKind
}

// Probe asks the probe when the object is of the kind.
func (kp *GroupKindSelector) Probe(obj client.Object) Result {
	if obj.GetObjectKind().GroupVersionKind().GroupKind() != kp.GroupKind {
		return TrueResult()
	}
	return ask(kp.Prober, obj)
}

// LabelSelector asks its probe about objects whose labels match. All others are
// True.
type LabelSelector struct {
	// Prober is asked about the objects selected.
	Prober
	// Selector matches labels. Nil selects all objects.
	labels.Selector
}

// Probe asks the probe when the labels of the object match.
func (ss *LabelSelector) Probe(obj client.Object) Result {
	if ss.Selector != nil && !ss.Matches(labels.Set(obj.GetLabels())) {
		return TrueResult()
	}
	return ask(ss.Prober, obj)
}
