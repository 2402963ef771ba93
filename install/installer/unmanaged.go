// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
)

// An unmanaged CRD is somebody else's. One that was ours before is released:
// every mark of ours is removed, and nothing else is changed. One that is
// unmanaged no more is taken back, but only while the cluster's checker finds
// that it is compatible with the version that ran with it: otherwise whoever
// looked after it meanwhile has made of it what this would destroy.

// release removes our marks from the CRDs of these names that have them: label,
// annotations, and that we hold its fields, which would refuse them to others. ours
// tells whose they are, where that matters; nil is everybody's.
func (e *Engine) release(ctx context.Context, names []string, ours func(*unstructured.Unstructured) bool) error {
	var failed []error
	for _, name := range names {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(crdVersionKind)
		err := e.Reader.Get(ctx, client.ObjectKey{Name: name}, crd) // which has only what has our label
		if err == nil {
			err = e.Live.Get(ctx, client.ObjectKey{Name: name}, crd)
		}
		if err == nil && crd.GetLabels()[ManagedByLabel] == v1alpha1.Prefix && (ours == nil || ours(crd)) {
			err = e.releaseOne(ctx, crd)
		}
		failed = append(failed, client.IgnoreNotFound(err))
	}
	return errors.Join(failed...)
}

func (e *Engine) releaseOne(ctx context.Context, crd *unstructured.Unstructured) error {
	released := crd.DeepCopy()
	labels, annotations := released.GetLabels(), released.GetAnnotations()
	delete(labels, ManagedByLabel)
	for _, mark := range []string{v1alpha1.OwnersAnnotation, v1alpha1.RevisionAnnotation, v1alpha1.AdoptAnnotation} {
		delete(annotations, mark)
	}
	released.SetLabels(labels)
	released.SetAnnotations(annotations)
	released.SetManagedFields(slices.DeleteFunc(slices.Clone(crd.GetManagedFields()), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == v1alpha1.FieldOwner && entry.Subresource == ""
	}))
	patch := client.MergeFromWithOptions(crd, client.MergeFromWithOptimisticLock{})
	if err := e.Writer.Patch(ctx, released, patch, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return fmt.Errorf("releasing %s, which is unmanaged now: %w", describe(crd), err)
	}
	log.FromContext(ctx).Info("Released a CRD that is unmanaged now", "crd", crd.GetName())
	return nil
}

// returning are the CRDs that are unmanaged in one of the versions, and not any
// more, by the number of the newest such version.
func returning(versions []v1alpha1.Version, unmanaged []string) map[string]int64 {
	found := map[string]int64{}
	for _, version := range versions {
		for _, name := range version.UnmanagedCRDs {
			if !slices.Contains(unmanaged, name) {
				found[name] = max(found[name], version.Revision)
			}
		}
	}
	return found
}

// takeBack adds to offered the CRDs in the way that were unmanaged before and may
// be taken back, and notes why others may not.
func (e *Engine) takeBack(ctx context.Context, rev *revisionObjects, result machinery.RevisionResult, offered sets.Set[string]) error {
	rev.withheld = nil
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			obj := object.Object()
			number, returns := rev.returning[obj.GetName()]
			if object.Action() != machinery.ActionCollision || !returns || obj.GetObjectKind().GroupVersionKind().Kind != crdKind || offered.Has(describe(obj)) {
				continue
			}
			why, err := e.incompatible(ctx, revision.RequirementName(obj.GetName(), number))
			switch {
			case err != nil:
				return err
			case why == "":
				offered.Insert(describe(obj))
			default:
				rev.withheld = append(rev.withheld, describe(obj)+" is not taken back: "+why)
			}
		}
	}
	return nil
}

// incompatible says why a CompatibilityRequirement does not find its CRD compatible; empty if it does.
func (e *Engine) incompatible(ctx context.Context, name string) (string, error) {
	requirement := &unstructured.Unstructured{}
	requirement.SetGroupVersionKind(requirementVersionKind)
	err := e.Live.Get(ctx, client.ObjectKey{Name: name}, requirement)
	if apierrors.IsNotFound(err) {
		return "there is no CompatibilityRequirement " + name, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading CompatibilityRequirement %s: %w", name, err)
	}
	switch state, detail := probe.Condition(requirement, "Compatible"); state {
	case "True":
		return "", nil
	case "":
		return "CompatibilityRequirement " + name + " has not been checked yet", nil
	default:
		return "CompatibilityRequirement " + name + ": Compatible is " + state + ": " + detail, nil
	}
}

// removeRequirements deletes the requirements of a revision that is gone, also
// those of CRDs that were unmanaged only for a while.
func (e *Engine) removeRequirements(ctx context.Context, rev *revisionObjects) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(requirementVersionKind.GroupVersion().WithKind(requirementVersionKind.Kind + "List"))
	err := e.Live.List(ctx, list, client.MatchingLabels{ManagedByLabel: v1alpha1.Prefix})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	failed := []error{err}
	for i := range list.Items {
		if requirement := &list.Items[i]; e.Owners.IsController(identity(rev.owner), requirement) {
			failed = append(failed, client.IgnoreNotFound(e.Writer.Delete(ctx, requirement)))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("removing the CompatibilityRequirements of version %s: %w", rev.name, err)
	}
	return nil
}

var (
	crdVersionKind         = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: crdKind}
	requirementVersionKind = probe.CompatibilityRequirement.WithVersion("v1alpha1")
)
