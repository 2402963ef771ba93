// SPDX-License-Identifier: Apache-2.0

// Package adoption decides which existing objects a version adopts:
//
//   - objects with the annotation adopt-existing in the cluster: an administrator sets
//     it, or the installer when it retains a CRD;
//   - ClusterRoles that only the aggregation controller has recreated;
//   - CRDs that are no longer unmanaged, if they are compatible;
//   - objects of cluster-capi-operator, after they are handed over.
package adoption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Adopter decides on adoptions, and makes the writes before and after them.
type Adopter struct {
	// Writer writes to the API server.
	Writer client.Writer
}

// Decision is the result for colliding objects.
type Decision struct {
	// Adopt are the objects that may be adopted.
	Adopt sets.Set[object.Identity]
	// Refused lists the CRDs that are no longer unmanaged and are not adopted, each with the
	// reason.
	Refused []string
	// Taken describes the objects in Adopt that belonged to cluster-capi-operator, with their revisions there.
	Taken []string
}

// Candidates are the CRDs that an older version left unmanaged.
type Candidates struct {
	// Namespace is the namespace of the installer.
	Namespace string
	// Numbers maps them to the revision number of that version.
	Numbers map[string]int64
	// Incompatibility returns the reason why a CRD is not known to be compatible with the
	// version with a revision number; empty if it is.
	Incompatibility func(ctx context.Context, crd string, number int64) (string, error)
}

// Has reports whether a CRD is a candidate.
func (c Candidates) has(o object.Identity) bool {
	_, found := c.Numbers[o.Name]
	return found && o.GroupKind == object.CustomResourceDefinition
}

// Adoptable reports whether an object without the annotation may be adopted: a candidate, or a ClusterRole that the aggregation
// controller has recreated.
func (c Candidates) Adoptable(actual *unstructured.Unstructured) bool {
	return c.has(object.IdentityOf(actual)) || RecreatedByAggregation(actual)
}

// Decide decides on colliding objects. With an error, objects are missing in
// the decision.
func (a *Adopter) Decide(ctx context.Context, collisions []engine.Object, former Candidates) (Decision, error) {
	out := Decision{Adopt: sets.New[object.Identity]()}
	for _, o := range collisions {
		if o.Adoptable || RecreatedByAggregation(o.Actual) {
			out.Adopt.Insert(o.Identity)
		}
	}
	if err := former.decide(ctx, collisions, &out); err != nil {
		return out, err
	}
	return out, a.takeOver(ctx, former.Namespace, collisions, &out)
}

// decide adds the candidates that are compatible, and the reasons why others are not.
func (c Candidates) decide(ctx context.Context, collisions []engine.Object, into *Decision) error {
	for _, o := range collisions {
		if !c.has(o.Identity) || into.Adopt.Has(o.Identity) {
			continue
		}
		why, err := c.Incompatibility(ctx, o.Name, c.Numbers[o.Name])
		switch {
		case err != nil:
			return err
		case why == "":
			into.Adopt.Insert(o.Identity)
		default:
			into.Refused = append(into.Refused, o.String()+" is not adopted: "+why)
		}
	}
	return nil
}

// Possible reports whether a colliding object may be adopted, now or after a retryable
// error.
func Possible(o engine.Object, former Candidates) bool {
	return o.Adoptable || former.has(o.Identity) || RecreatedByAggregation(o.Actual) || predecessor.Adoptable(former.Namespace, o.Actual)
}

// Finish removes the adopt-existing annotation from objects that a revision has adopted, so
// that their state does not depend on their history. With it, it removes instructions to other controllers about fields that the
// installer now owns, unless the manifest has them, and the owner references: the garbage collector would delete the object together
// with its former owner. No manifest has any.
func (a *Adopter) Finish(ctx context.Context, rev engine.Revision, result engine.Result) error {
	var manifests map[object.Identity]*unstructured.Unstructured
	var failed []error
	owners := rev.Owners()
	for o := range result.Objects() {
		if o.Action == engine.Collision || !o.Adoptable || o.Owner != engine.VersionOwner(o.Owner.Name) || !owners.Has(o.Owner.Name) {
			continue
		}
		if manifests == nil {
			manifests = revision.ByIdentity(rev.Phases)
		}
		patch, err := json.Marshal(map[string]any{"metadata": released(o, manifests[o.Identity])})
		if err != nil {
			return fmt.Errorf("encoding a patch: %w", err)
		}
		if err := a.Writer.Patch(ctx, o.Object(), client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("removing annotation %s of adopted %s: %w", v1alpha1.AdoptAnnotation, o, err))
		}
	}
	return errors.Join(failed...)
}

// released returns a merge patch of the metadata that removes the traces of the former owner from an adopted object.
func released(o engine.Object, manifest *unstructured.Unstructured) map[string]any {
	annotations, labels := map[string]any{v1alpha1.AdoptAnnotation: nil}, map[string]any{}
	for _, instruction := range o.Instructions {
		switch {
		case manifest != nil && instruction.On(manifest): // the manifest has it
		case instruction.Label:
			labels[instruction.Name] = nil
		default:
			annotations[instruction.Name] = nil
		}
	}
	metadata := map[string]any{"annotations": annotations, "uid": o.UID} // not of another object with the name
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if o.Referenced {
		metadata["ownerReferences"] = nil
	}
	return metadata
}

// Formerly maps each CRD that is no longer unmanaged to the number of the newest version
// that left it unmanaged.
func Formerly(versions []v1alpha1.Version, unmanaged []string) map[string]int64 {
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

// The controller that aggregates ClusterRoles applies the rules of a role without
// checking that the role still exists. If a role is deleted together with the roles
// that it aggregates, the controller can therefore recreate it: with nothing but rules,
// or empty if the other roles are already gone.

// RecreatedByAggregation reports whether an object is a ClusterRole that the
// aggregation controller has recreated. A role without rules has no managed fields.
func RecreatedByAggregation(obj *unstructured.Unstructured) bool {
	if obj == nil || object.GroupKind(obj) != object.ClusterRole {
		return false
	}
	if managers := obj.GetManagedFields(); len(managers) > 0 {
		return !slices.ContainsFunc(managers, func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager != "clusterrole-aggregation-controller"
		})
	}
	return isEmptyRole(obj)
}

// isEmptyRole reports whether a ClusterRole has only a name.
func isEmptyRole(obj *unstructured.Unstructured) bool {
	role := &rbacv1.ClusterRole{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role) != nil {
		return false
	}
	return len(role.Rules) == 0 && role.AggregationRule == nil &&
		len(role.Labels)+len(role.Annotations)+len(role.OwnerReferences)+len(role.Finalizers) == 0
}
