// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Clients use the APIs of a component while a rollout replaces its pods. The API server asks these pods to convert instances to the storage
// version, and to admit them. So two things wait until the new pods are ready, because only they can answer:
//
//   - a CRD gets all versions of the manifest, but keeps the storage version that it has;
//   - a webhook configuration of an older version stays as it is.
//
// The way back to a component without the version that these webhooks admit would leave them without requests to check. If it adds neither a version nor
// a CRD, it shrinks: its CRDs stay as they are too.
//
// When the other objects of the component are ready, first the webhook configurations are applied, and then the CRDs once more. The objects that wait
// follow from the manifest and from the cluster, so a process that ends at any write is followed by one that continues.
// docs/decisions.md has the cases.

// holder decides which objects of a component wait.
type holder struct {
	owners       Owners
	reader, live client.Reader
	part         []revision.Phase
	adopt        sets.Set[object.Identity]
	// active is set if anything can wait: in a rollout, until the pods of the component are ready.
	active bool
	// replaced is set if the rollout of a newer version switches storage versions, step by step: to revert a step would undo it.
	replaced bool
	// shrinks is set if CRDs wait as a whole.
	shrinks bool
}

// heldObject is an object that waits.
type heldObject struct {
	Reference
	// waits describes the wait.
	waits string
	// omitted is set if the object is not applied at all.
	omitted bool
}

// of returns the objects of a phase as they are applied now, and those that wait.
func (h holder) of(ctx context.Context, phase revision.Phase, desired []*unstructured.Unstructured) (applied []client.Object, held []heldObject, err error) {
	for i, obj := range desired {
		one := heldObject{Reference: ReferenceTo(obj)}
		switch adopted := v1alpha1.AllowsAdoption(phase.Objects[i].GetAnnotations()) || h.adopt.Has(one.Identity); {
		case !h.active && !h.replaced:
		case object.IsCRD(obj) && h.shrinks:
			one.omitted = true
		case object.IsCRD(obj):
			obj, one.waits, err = h.keepStorage(ctx, obj, adopted)
		case h.active && isWebhookConfiguration(one.GroupKind):
			var older *unstructured.Unstructured
			older, err = h.older(ctx, phase.Owner, obj)
			one.omitted = older != nil && (h.shrinks || h.matches(older))
		}
		if err != nil {
			return nil, nil, err
		}
		if one.omitted {
			one.waits = "is applied when the pods of the component are ready"
		} else {
			applied = append(applied, obj)
		}
		if one.waits != "" {
			held = append(held, one)
		}
	}
	return applied, held, nil
}

// keepStorage returns a CRD of a manifest with the storage version that it has in the cluster, if the manifest has that version, and says so. A CRD
// with an instance in the same component is not changed: the old pods could not convert the instance.
func (h holder) keepStorage(ctx context.Context, desired *unstructured.Unstructured, adopted bool) (applied *unstructured.Unstructured, waits string, err error) {
	actual, err := h.existing(ctx, desired, adopted)
	if err != nil || actual == nil || !differs(desired, actual) || h.hasInstanceOf(desired) {
		return desired, "", err
	}
	// A cache that does not show the switch yet would revert it.
	actual, err = orNil(ReferenceTo(desired).Read(ctx, h.live))
	if err != nil || actual == nil || !differs(desired, actual) {
		return desired, "", err
	}
	applied = desired.DeepCopy()
	object.SetStorageVersion(applied, object.StorageVersion(actual))
	return applied, fmt.Sprintf("stores instances in %s until the pods of the component are ready", object.StorageVersion(actual)), nil
}

// differs reports whether a manifest has the storage version of a CRD in the cluster, and another one as its own.
func differs(desired, actual *unstructured.Unstructured) bool {
	to, from := object.StorageVersion(desired), object.StorageVersion(actual)
	return to != "" && to != from && slices.Contains(object.CRDVersions(desired), from)
}

// hasInstanceOf reports whether the component has an instance of a CRD.
func (h holder) hasInstanceOf(crd *unstructured.Unstructured) bool {
	kind := schema.GroupKind{Group: object.TextAt(crd.Object, "spec", "group"), Kind: object.TextAt(crd.Object, "spec", "names", "kind")}
	return slices.ContainsFunc(h.part, func(phase revision.Phase) bool {
		return slices.ContainsFunc(phase.Objects, func(obj *unstructured.Unstructured) bool { return object.GroupKind(obj) == kind })
	})
}

func isWebhookConfiguration(kind schema.GroupKind) bool {
	return kind == object.ValidatingWebhookConfiguration || kind == object.MutatingWebhookConfiguration
}

// older returns a webhook configuration in the cluster that the owner has not taken over yet; nil if there is none. A cache that does not have it yet
// would have it replaced.
func (h holder) older(ctx context.Context, owner string, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	actual, err := h.existing(ctx, desired, true)
	if err != nil || actual == nil || h.owners.Controls(owner, actual) {
		return nil, err
	}
	return actual, nil
}

// shrink reports whether CRDs in the cluster serve all versions of the component and more, which its webhooks admitted: webhooks of an older version no
// longer match without the other versions, or this version has taken them over. A component with an instance does not shrink: if the old pods have ended,
// nothing answers the webhooks until they switch.
func (h holder) shrink(ctx context.Context) (bool, error) {
	var loses, admits bool
	for phase, obj := range revision.Objects(h.part) {
		switch {
		case object.IsCRD(obj):
			actual, err := h.existing(ctx, obj, false)
			if err != nil || actual == nil || !servedVersions(actual).IsSuperset(servedVersions(obj)) || h.hasInstanceOf(obj) {
				return false, err
			}
			loses = loses || !servedVersions(obj).IsSuperset(servedVersions(actual))
		case isWebhookConfiguration(object.GroupKind(obj)):
			older, err := h.older(ctx, phase.Owner, obj)
			if err != nil || older != nil && h.matches(older) {
				return false, err
			}
			admits = true
		}
	}
	return loses && admits, nil
}

func servedVersions(crd *unstructured.Unstructured) sets.Set[string] {
	return sets.New(slices.DeleteFunc(object.CRDVersions(crd), func(version string) bool { return !object.ServesVersion(crd, version) })...)
}

// matches reports whether the component serves all versions in the rules of a webhook configuration, of the API groups that it has CRDs of.
// The API server asks no webhook about a version that it does not serve, and then nothing would check instances.
func (h holder) matches(configuration *unstructured.Unstructured) bool {
	served := map[string]sets.Set[string]{}
	for _, obj := range revision.Objects(h.part) {
		if object.IsCRD(obj) {
			group := object.TextAt(obj.Object, "spec", "group")
			served[group] = servedVersions(obj).Union(served[group]).Insert("*")
		}
	}
	for _, webhook := range object.MapsAt(configuration.Object, "webhooks") {
		for _, rule := range object.MapsAt(webhook, "rules") {
			for _, group := range object.TextsAt(rule, "apiGroups") {
				if known := served[group]; known != nil && !known.HasAll(object.TextsAt(rule, "apiVersions")...) {
					return false
				}
			}
		}
	}
	return true
}

// existing returns the object in the cluster; nil if there is none. If live is set, an object that the cache does not have is read from the API server:
// the cache has no object that is about to be adopted.
func (h holder) existing(ctx context.Context, obj *unstructured.Unstructured, live bool) (*unstructured.Unstructured, error) {
	actual, err := orNil(ReferenceTo(obj).Read(ctx, h.reader, client.UnsafeDisableDeepCopy))
	if err == nil && actual == nil && live {
		actual, err = orNil(ReferenceTo(obj).Read(ctx, h.live))
	}
	return actual, err
}

// orNil returns the result of a read; nil if the object or its kind does not exist.
func orNil(actual *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s, which may wait for the pods of its component: %w", object.Describe(actual), err)
	}
	return actual, nil
}

// withHeld adds the objects that wait to the result of a phase.
func withHeld(phases []Phase, held []heldObject) []Phase {
	for i := range phases {
		phase := &phases[i]
		phase.ready = phase.Complete
		for _, one := range held {
			at := slices.IndexFunc(phase.Objects, func(o Object) bool { return o.Identity == one.Identity })
			switch {
			case one.omitted:
				phase.Complete = false
				phase.Objects = append(phase.Objects, Object{Reference: one.Reference, Action: Idle, Available: true, Reason: one.waits, Held: one.waits})
			case at >= 0:
				phase.Objects[at].Held = one.waits
			}
		}
	}
	return phases
}

// holds reports whether objects of the phase wait for pods.
func (p Phase) holds() bool {
	return slices.ContainsFunc(p.Objects, func(o Object) bool { return o.Held != "" })
}

// allButHeld reports whether all objects but the ones that wait are ready.
func allButHeld(phases []Phase) bool {
	return !slices.ContainsFunc(phases, func(phase Phase) bool { return !phase.ready })
}
