// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// allowsAdoption reports whether an object has the annotation adopt-existing=always.
func allowsAdoption(obj client.Object) bool {
	return v1alpha1.AllowsAdoption(obj.GetAnnotations())
}

// offered returns the colliding objects that may be adopted: objects with the
// adopt-existing annotation in the cluster, which an administrator sets, or this
// installer when it retains a CRD; and ClusterRoles that only the aggregation
// controller has recreated.
func offered(result machinery.RevisionResult) sets.Set[string] {
	found := sets.New[string]()
	for obj := range collisions(result) {
		if allowsAdoption(obj) || recreatedByAggregation(obj) {
			found.Insert(describe(obj))
		}
	}
	return found
}

// mayBeAdopted reports whether a colliding object may be adopted, now or after a
// retryable error.
func mayBeAdopted(rev *loadedRevision, obj client.Object) bool {
	_, formerlyUnmanaged := rev.formerlyUnmanaged[obj.GetName()]
	return allowsAdoption(obj) || recreatedByAggregation(obj) || formerlyUnmanaged && object.IsCRD(obj) || ofPredecessor(obj)
}

// clearAdoptAnnotations removes the adopt-existing annotation from objects that the
// revision has adopted, so that their state does not depend on their history.
func (e *Engine) clearAdoptAnnotations(ctx context.Context, rev *loadedRevision, result machinery.RevisionResult) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AdoptAnnotation))
	var failed []error
	for object := range objectResults(result) {
		obj := object.Object()
		if object.Action() == machinery.ActionCollision || object.IsPaused() || !allowsAdoption(obj) || !e.Owners.IsController(ownerOf(rev.owner), obj) {
			continue
		}
		if err := e.Writer.Patch(ctx, obj.DeepCopyObject().(client.Object), patch); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("removing annotation %s of adopted %s: %w", v1alpha1.AdoptAnnotation, describe(obj), err))
		}
	}
	return errors.Join(failed...)
}

// adoptions returns the options that allow adoption. Objects whose manifest has the
// annotation are adopted from any controller; adoptable objects only if they have no
// controller.
func adoptions(phases []revision.Phase, adoptable sets.Set[string]) []boxcutter.RevisionReconcileOption {
	var out []boxcutter.RevisionReconcileOption
	for _, phase := range phases {
		var options []boxcutter.PhaseReconcileOption
		for _, obj := range phase.Objects {
			switch {
			case allowsAdoption(obj):
				options = append(options, boxcutter.WithObjectReconcileOptions(obj, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone)))
			case adoptable.Len() > 0 && adoptable.Has(describe(obj)):
				options = append(options, boxcutter.WithObjectReconcileOptions(obj, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController)))
			}
		}
		if options != nil {
			out = append(out, boxcutter.WithPhaseReconcileOptions(phase.Name, options...))
		}
	}
	return out
}

// addFormerlyUnmanaged adds the colliding CRDs that are no longer unmanaged to
// adoptable if they are compatible. Otherwise it records the reason.
func (e *Engine) addFormerlyUnmanaged(ctx context.Context, rev *loadedRevision, result machinery.RevisionResult, adoptable sets.Set[string]) error {
	rev.notAdopted = nil
	for obj := range collisions(result) {
		number, found := rev.formerlyUnmanaged[obj.GetName()]
		if !found || !object.IsCRD(obj) || adoptable.Has(describe(obj)) {
			continue
		}
		reason, err := e.incompatibility(ctx, rev, obj.GetName(), number)
		switch {
		case err != nil:
			return err
		case reason == "":
			adoptable.Insert(describe(obj))
		default:
			rev.notAdopted = append(rev.notAdopted, describe(obj)+" is not adopted: "+reason)
		}
	}
	return nil
}

// formerlyUnmanaged maps each CRD that is no longer unmanaged to the number of the
// newest version in which it was.
func formerlyUnmanaged(versions []v1alpha1.Version, unmanaged []string) map[string]int64 {
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

// incompatibility returns the reason why a CRD is not known to be compatible with the
// version with a revision number; empty if it is.
func (e *Engine) incompatibility(ctx context.Context, rev *loadedRevision, crd string, number int64) (string, error) {
	served, err := e.servesRequirements(ctx)
	if err != nil {
		return "", err
	}
	if served {
		return e.unmetRequirement(ctx, revision.RequirementName(crd, number))
	}
	former, err := rev.sibling(number)
	if err != nil {
		return "", err
	}
	return e.failedCheck(ctx, former, crd)
}

// failedCheck returns the reason why the installer does not find a CRD compatible with a
// revision; empty if it does.
func (e *Engine) failedCheck(ctx context.Context, rev *loadedRevision, crd string) (string, error) {
	if err := e.plan(ctx, rev); err != nil {
		return "", err
	}
	result, err := e.check(ctx, rev)
	if err != nil {
		return "", err
	}
	for _, object := range result.objects {
		if object.Object().GetName() == crd {
			return strings.Join(object.ProbeResults().Type(boxcutter.ProgressProbeType).Messages, ", "), nil
		}
	}
	return "version " + rev.name + " does not contain it", nil
}

// unmetRequirement returns the reason why a CompatibilityRequirement does not
// report its CRD as compatible; empty if it does.
func (e *Engine) unmetRequirement(ctx context.Context, name string) (string, error) {
	requirement := &unstructured.Unstructured{}
	requirement.SetGroupVersionKind(requirementVersionKind)
	err := e.Live.Get(ctx, client.ObjectKey{Name: name}, requirement)
	if apierrors.IsNotFound(err) {
		return "CompatibilityRequirement " + name + " not found", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading CompatibilityRequirement %s: %w", name, err)
	}
	switch state, detail := probe.Condition(requirement, probe.Compatible); state {
	case "True":
		return "", nil
	case "":
		return "CompatibilityRequirement " + name + " has not been checked yet", nil
	default:
		return "CompatibilityRequirement " + name + ": Compatible is " + state + ": " + detail, nil
	}
}
