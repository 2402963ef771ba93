// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Revision is a set of objects in phases, in apply order. It is immutable.
type Revision struct {
	// Name is the version that the revision is a part of.
	Name string
	// Phases are the phases with their objects, each with its owner: for boxcutter, each phase is a revision of its own. CRDs may
	// be packed.
	Phases []revision.Phase
	// Ignored are the fields that are left to other actors.
	Ignored []v1alpha1.IgnoredFields
	// Key identifies the objects of the phases and the ignored fields; empty if no result may be kept.
	Key string
}

// Apply has the options of applying a revision.
type Apply struct {
	// Ordered applies a phase only when the previous one is complete, and has the storage versions of CRDs and the webhook configurations wait for
	// the pods of their component. Otherwise all phases
	// are applied: they were complete before, and an object that becomes unready must not
	// block later phases.
	Ordered bool
	// Replaced marks a version that a newer one is about to replace: CRDs keep the storage versions that the rollout of the newer version sets.
	Replaced bool
	// Adopt are colliding objects that are adopted unless they have a controller.
	Adopt sets.Set[object.Identity]
	// Paused reports whether an object is only compared; nil pauses none.
	Paused func(object.Identity) bool
	// Reserved are objects that are not created again after a deletion.
	Reserved sets.Set[object.Identity]
	// Checked are objects that the API server has accepted in a dry run. While they do not exist, they get no further one.
	Checked sets.Set[object.Identity]
	// Prepare is called before a phase is applied, unless the phase has not changed; nil does nothing. After an error, the phase is not applied.
	// released is set if the phase is applied again, with the objects that waited for the pods of its component.
	Prepare func(ctx context.Context, phase revision.Phase, released bool) error
	// Readable reads an instance of a CRD in each served version, and reports whether the CRD has one; nil reads none. It is called before the
	// storage version of a CRD switches.
	Readable func(ctx context.Context, crd string) (found bool, err error)
	// Older returns the objects of an older owner by its revision number; nil if they are unknown.
	// Objects that the revision shares with it get one write.
	Older func(number int64) map[object.Identity]*unstructured.Unstructured
}

// Remove has the options of removing a revision.
type Remove struct {
	// Orphan are the objects that stay, without owner.
	Orphan sets.Set[object.Identity]
	// Writers delete single objects; other objects are deleted by the engine's own writer.
	Writers map[object.Identity]client.Writer
}

// Owners returns the versions that the objects of the revision name as their owners.
func (r Revision) Owners() sets.Set[string] {
	owners := sets.New[string]()
	for _, phase := range r.Phases {
		owners.Insert(phase.Owner)
	}
	return owners
}

func (r Revision) kinds() sets.Set[schema.GroupVersionKind] {
	kinds := sets.New[schema.GroupVersionKind]()
	for _, obj := range revision.Objects(r.Phases) {
		kinds.Insert(obj.GroupVersionKind())
	}
	return kinds
}

// copied returns phases of an owner as a boxcutter revision with copies of the objects.
func (o Owners) copied(owner string, number int64, of ...revision.Phase) boxcutter.Revision {
	phases := make([]boxcutter.Phase, len(of))
	for i, phase := range of {
		objects := make([]client.Object, len(phase.Objects))
		for j, obj := range phase.Objects {
			objects[j] = obj.DeepCopy()
		}
		phases[i] = boxcutter.NewPhase(phase.Name, objects)
	}
	return o.boxcutterRevision(owner, number, phases...)
}

func (o Owners) boxcutterRevision(name string, number int64, phases ...boxcutter.Phase) boxcutter.Revision {
	// Options are passed in one call: the original's builder replaces earlier ones.
	owner := boxcutter.WithOwner(o.ownerOf(name), o)
	return boxcutter.NewRevision(name, number, phases).
		WithReconcileOptions(owner, boxcutter.WithSiblingOwnerClassifier(isVersion)).
		WithTeardownOptions(owner)
}

// reversed returns a phase with its objects in reverse order. boxcutter tears a
// phase down in the order of its objects, and an object must be deleted before the
// objects that it depends on.
func reversed(phase revision.Phase) revision.Phase {
	phase.Objects = slices.Clone(phase.Objects)
	slices.Reverse(phase.Objects)
	return phase
}

// ReferenceTo returns the reference to an object.
func ReferenceTo(obj client.Object) Reference {
	return Reference{Identity: object.IdentityOf(obj), APIVersion: obj.GetObjectKind().GroupVersionKind().Version}
}
