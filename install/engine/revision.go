// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/crdpack"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Revision is a set of objects with one owner, in the phases in which they are applied. It
// is not changed after it was made.
type Revision struct {
	// Name is the version that the revision is a part of, for messages.
	Name string
	// Owner is the version that the objects name as their owner, and Number its revision
	// number. Owner differs from Name if the version adopted the objects of an older version
	// unchanged.
	Owner  string
	Number int64
	// Phases are the phases with their objects. CRDs may be packed.
	Phases []revision.Phase
	// Key identifies the objects of the phases; empty if no result may be kept.
	Key string
}

func (r Revision) kinds() sets.Set[schema.GroupVersionKind] {
	kinds := sets.New[schema.GroupVersionKind]()
	for _, phase := range r.Phases {
		for _, obj := range phase.Objects {
			kinds.Insert(obj.GroupVersionKind())
		}
	}
	return kinds
}

// unpacked returns a phase of a revision as a boxcutter revision whose objects can be
// applied. The objects are copies.
func (e *Engine) unpacked(rev Revision, phase revision.Phase) (boxcutter.Revision, error) {
	objects := make([]client.Object, len(phase.Objects))
	for i, obj := range phase.Objects {
		whole, err := crdpack.Unpack(obj)
		if err != nil {
			return nil, err
		}
		objects[i] = asApplied(whole)
	}
	return e.boxcutterRevision(rev, []boxcutter.Phase{boxcutter.NewPhase(phase.Name, objects)}), nil
}

// packed returns phases of a revision as a boxcutter revision that can be checked and torn
// down, but not applied, because its CRDs may be packed. The objects are copies.
func (e *Engine) packed(rev Revision, of []revision.Phase) boxcutter.Revision {
	phases := make([]boxcutter.Phase, len(of))
	for i, phase := range of {
		objects := make([]client.Object, len(phase.Objects))
		for j, obj := range phase.Objects {
			objects[j] = obj.DeepCopy()
		}
		phases[i] = boxcutter.NewPhase(phase.Name, objects)
	}
	return e.boxcutterRevision(rev, phases)
}

func (e *Engine) boxcutterRevision(rev Revision, phases []boxcutter.Phase) boxcutter.Revision {
	// Options are passed in one call: the original's builder replaces earlier ones.
	owner := boxcutter.WithOwner(ownerOf(rev.Owner), e.Owners)
	return boxcutter.NewRevision(rev.Owner, rev.Number, phases).
		WithReconcileOptions(owner, boxcutter.WithSiblingOwnerClassifier(isVersion)).
		WithTeardownOptions(owner)
}

// reversed returns the phases with their objects in reverse order. boxcutter tears a
// phase down in the order of its objects, and an object must be deleted before the
// objects that it depends on.
func reversed(phases []revision.Phase) []revision.Phase {
	out := slices.Clone(phases)
	for i := range out {
		out[i].Objects = slices.Clone(out[i].Objects)
		slices.Reverse(out[i].Objects)
	}
	return out
}

// asApplied returns a copy of an object without the adopt-existing annotation, which only
// the installer reads, and without the rules of an aggregated ClusterRole, which the
// aggregation controller writes.
func asApplied(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	if _, adopt := obj.GetAnnotations()[v1alpha1.AdoptAnnotation]; adopt {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations", v1alpha1.AdoptAnnotation)
	}
	if _, aggregated := obj.Object["aggregationRule"]; aggregated {
		delete(out.Object, "rules")
	}
	return out
}

// referenceTo returns the reference to an object.
func referenceTo(obj client.Object) Reference {
	return Reference{Identity: object.IdentityOf(obj), APIVersion: obj.GetObjectKind().GroupVersionKind().Version}
}
