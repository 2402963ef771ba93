// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	bctypes "pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
)

// Engine applies and removes the objects of revisions with boxcutter.
type Engine struct {
	// Revisions is boxcutter's engine.
	Revisions *boxcutter.RevisionEngine
	// Owners writes and reads the owners of an object in an annotation.
	Owners *ownerhandling.OwnerStrategyAnnotation
	// Cache watches the kinds of the objects that are installed.
	Cache managedcache.TrackingCache
	// Live reads past the cache; it tells whether a CRD has instances.
	Live client.Reader
	// Writer marks the CRDs that stay when their version goes.
	Writer client.Writer

	plans map[string]plan
}

// plan is a version divided into phases: it takes a while and changes rarely.
type plan struct {
	of     string
	phases []revision.Phase
}

// availableProbe is the type of the probe that tells whether an object works.
const availableProbe = "Available"

// apply brings the cluster one step nearer to the revision. Objects that a newer
// revision has taken over are left to it, and hold nothing up here. Objects in
// the way that ask to be taken over are taken over.
func (e *Engine) apply(ctx context.Context, rev *revisionObjects) (machinery.RevisionResult, error) {
	if err := e.prepare(ctx, rev); err != nil {
		return nil, err
	}
	result, err := e.reconcile(ctx, rev, nil)
	if result == nil || err != nil {
		return result, err
	}
	if offered := offered(result); len(offered) > 0 {
		return e.reconcile(ctx, rev, offered)
	}
	return result, nil
}

// reconcile is one pass over the revision. offered are the objects in the way
// that may be taken over.
func (e *Engine) reconcile(ctx context.Context, rev *revisionObjects, offered sets.Set[string]) (machinery.RevisionResult, error) {
	options := []boxcutter.RevisionReconcileOption{
		boxcutter.WithProbe(boxcutter.ProgressProbeType, probe.UnlessTakenOver(rev.number, probe.Progress())),
		boxcutter.WithProbe(availableProbe, probe.Available()),
		boxcutter.WithAggregatePhaseReconcileErrors(),
		atOnce,
	}
	return e.Revisions.Reconcile(ctx, e.revision(rev), append(options, adoptions(rev.phases, offered)...)...)
}

// remove deletes what only this revision has. CRDs that somebody else manages,
// and CRDs that still have instances, stay.
func (e *Engine) remove(ctx context.Context, rev *revisionObjects) (machinery.RevisionTeardownResult, error) {
	if err := e.prepare(ctx, rev); err != nil {
		return nil, err
	}
	keep, err := e.kept(ctx, rev)
	if err != nil {
		return nil, err
	}
	return e.Revisions.Teardown(ctx, e.revision(rev), append(keep, boxcutter.WithAggregatePhaseTeardownErrors(), atOnce)...)
}

// prepare divides the revision into phases and has the cache watch its kinds.
func (e *Engine) prepare(ctx context.Context, rev *revisionObjects) error {
	if err := e.plan(rev); err != nil {
		return err
	}
	if err := e.Cache.Watch(ctx, identity(rev.owner), rev.kinds()); err != nil {
		return fmt.Errorf("watching the objects of version %s: %w", rev.name, err)
	}
	return nil
}

// plan divides the revision into phases, unless that was done before.
func (e *Engine) plan(rev *revisionObjects) error {
	of := rev.digest + " without " + strings.Join(rev.unmanaged, " ")
	if known := e.plans[rev.name]; known.of == of {
		rev.phases = known.phases
		return nil
	}
	if err := rev.plan(); err != nil {
		return err
	}
	if e.plans == nil {
		e.plans = map[string]plan{}
	}
	e.plans[rev.name] = plan{of: of, phases: rev.phases}
	return nil
}

// forget ends the watches that only this revision needed.
func (e *Engine) forget(ctx context.Context, rev *revisionObjects) error {
	delete(e.plans, rev.name)
	if err := e.Cache.Free(ctx, identity(rev.owner)); err != nil {
		return fmt.Errorf("ending the watches of version %s: %w", rev.name, err)
	}
	return nil
}

// revision is what boxcutter is given.
func (e *Engine) revision(rev *revisionObjects) boxcutter.Revision {
	phases := make([]boxcutter.Phase, len(rev.phases))
	for i, phase := range rev.phases {
		phases[i] = boxcutter.NewPhase(phase.Name, objects(phase))
	}
	return boxcutter.NewRevisionWithOwner(rev.owner, rev.number, phases, identity(rev.owner), e.Owners).
		WithReconcileOptions(boxcutter.WithSiblingOwnerClassifier(sibling))
}

// identity is the owner that the objects of a version name. Its UID follows from
// the version's name, which is never used twice, and not from the revision
// ConfigMap: when that is deleted by mistake and written again, the objects
// still have the same owner.
func identity(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.OperatorNamespace,
			Name:      name,
			UID:       types.UID("revision-" + name),
		},
	}
}

// sibling says whether an owner is another version of ours.
func sibling(owner metav1.OwnerReference) bool {
	return owner.Kind == "ConfigMap" && owner.UID == identity(owner.Name).UID
}

// objects are a phase's objects as they are applied: without the annotation
// that speaks to the installer alone.
func objects(phase revision.Phase) []client.Object {
	out := make([]client.Object, len(phase.Objects))
	for i, obj := range phase.Objects {
		out[i] = obj
		if _, adopt := obj.GetAnnotations()[v1alpha1.AdoptAnnotation]; adopt {
			applied := obj.DeepCopy()
			unstructured.RemoveNestedField(applied.Object, "metadata", "annotations", v1alpha1.AdoptAnnotation)
			out[i] = applied
		}
	}
	return out
}

func allowsAdoption(obj client.Object) bool {
	return obj.GetAnnotations()[v1alpha1.AdoptAnnotation] == v1alpha1.AdoptAlways
}

// offered are the objects in the way of which the cluster's own copy says that it
// may be taken over: an administrator has written that, or this installer, when it
// left a CRD behind.
func offered(result machinery.RevisionResult) sets.Set[string] {
	found := sets.New[string]()
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			if object.Action() == machinery.ActionCollision && allowsAdoption(object.Object()) {
				found.Insert(describe(object.Object()))
			}
		}
	}
	return found
}

// adoptions are the options that let objects be taken over: whoever controls
// them, if the manifest says so, and if nobody does, if they are offered.
func adoptions(phases []revision.Phase, offered sets.Set[string]) []boxcutter.RevisionReconcileOption {
	var out []boxcutter.RevisionReconcileOption
	for _, phase := range phases {
		var options []boxcutter.PhaseReconcileOption
		for _, obj := range phase.Objects {
			switch {
			case allowsAdoption(obj):
				options = append(options, boxcutter.WithObjectReconcileOptions(obj, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone)))
			case offered.Has(describe(obj)):
				options = append(options, boxcutter.WithObjectReconcileOptions(obj, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController)))
			}
		}
		if options != nil {
			out = append(out, boxcutter.WithPhaseReconcileOptions(phase.Name, options...))
		}
	}
	return out
}

// kept are the options that have a teardown leave CRDs in place: the unmanaged
// ones, and those of which there are instances.
func (e *Engine) kept(ctx context.Context, rev *revisionObjects) ([]boxcutter.RevisionTeardownOption, error) {
	var out []boxcutter.RevisionTeardownOption
	for _, phase := range rev.phases {
		var options []boxcutter.PhaseTeardownOption
		for _, obj := range phase.Objects {
			keep, err := e.keeps(ctx, rev, obj)
			if err != nil {
				return nil, err
			}
			if keep {
				options = append(options, boxcutter.WithObjectTeardownOptions(obj, bctypes.WithOrphan()))
			}
		}
		if options != nil {
			out = append(out, boxcutter.WithPhaseTeardownOptions(phase.Name, options...))
		}
	}
	return out, nil
}

// keeps says whether an object stays in the cluster when its revision goes. It
// asks the API server and no cache: a CRD that is deleted takes every object of
// its kind with it, so whatever is not certain is an error, or the CRD stays.
func (e *Engine) keeps(ctx context.Context, rev *revisionObjects, obj *unstructured.Unstructured) (bool, error) {
	if obj.GetKind() != crdKind {
		return false, nil
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(obj.GroupVersionKind())
	err := e.Live.Get(ctx, client.ObjectKeyFromObject(obj), crd)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", describe(obj), err)
	}
	if !e.Owners.IsController(identity(rev.owner), crd) {
		return false, nil // boxcutter leaves it alone: a newer revision has it, or nobody of ours
	}
	if slices.Contains(rev.unmanaged, crd.GetName()) {
		return true, nil
	}
	keep, err := e.mayHaveInstances(ctx, crd)
	if err != nil || !keep {
		return false, err
	}
	return true, e.offer(ctx, crd)
}

// offer notes on a CRD that stays that it may be taken over again: by the next
// version that brings it.
func (e *Engine) offer(ctx context.Context, crd *unstructured.Unstructured) error {
	if allowsAdoption(crd) {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AdoptAnnotation, v1alpha1.AdoptAlways))
	if err := e.Writer.Patch(ctx, crd, patch); err != nil {
		return fmt.Errorf("marking %s, which stays because of its instances: %w", describe(crd), err)
	}
	return nil
}

// mayHaveInstances says whether there is an object of the kind that a CRD in the
// cluster defines, or whether that cannot be told because the kind is not served.
func (e *Engine) mayHaveInstances(ctx context.Context, crd *unstructured.Unstructured) (bool, error) {
	kind := instanceKind(crd)
	if established, _ := probe.Condition(crd, "Established"); established != "True" || kind.Version == "" {
		return true, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := e.Live.List(ctx, list, client.Limit(1)); err != nil {
		return false, fmt.Errorf("looking for instances of %s: %w", describe(crd), err)
	}
	return len(list.Items) > 0, nil
}

// instanceKind is the list kind that a CRD defines, in the version in which
// objects are stored, so that listing them needs no conversion, or else in
// another one that is served. The version is empty if none is.
func instanceKind(crd *unstructured.Unstructured) schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	served := ""
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if version["served"] == true && (served == "" || version["storage"] == true) {
			served, _ = version["name"].(string)
		}
	}
	return schema.GroupVersionKind{Group: group, Version: served, Kind: kind + "List"}
}
