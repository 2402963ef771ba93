// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
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
	// Reader reads the objects that are installed.
	Reader client.Reader
	// Live reads past the cache; it tells whether a CRD has instances.
	Live client.Reader
	// Writer marks the CRDs that stay when their version goes.
	Writer client.Writer
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	plans map[string]plan
}

// plan is a version divided into phases. That takes a while and changes rarely,
// but the objects are large, so they are kept only until memory is tidied up: long
// enough for the runs of a rollout, which follow each other closely.
type plan struct {
	of     string
	phases weak.Pointer[[]revision.Phase]
}

// ManagedByLabel marks every object that is installed; boxcutter writes it, and
// only objects that have it are watched.
const ManagedByLabel = "app.kubernetes.io/managed-by"

// availableProbe is the type of the probe that tells whether an object works.
const availableProbe = "Available"

// apply brings the cluster one step nearer to the revision. Objects that a newer
// revision has taken over are left to it, and hold nothing up here. Objects in
// the way that ask to be taken over are taken over.
func (e *Engine) apply(ctx context.Context, rev *revisionObjects) (machinery.RevisionResult, error) {
	if err := e.prepare(ctx, rev); err != nil {
		return nil, err
	}
	if rev.scope == held {
		if err := e.hold(ctx, rev); err != nil {
			return nil, err
		}
	}
	result, err := e.reconcile(ctx, rev, nil)
	if result == nil || err != nil {
		return result, err
	}
	offered := offered(result)
	if err := e.takeBack(ctx, rev, result, offered); err != nil {
		return result, err
	}
	if len(offered) > 0 {
		return e.reconcile(ctx, rev, offered)
	}
	return result, nil
}

// reconcile is one pass over the revision. offered are the objects in the way
// that may be taken over.
func (e *Engine) reconcile(ctx context.Context, rev *revisionObjects, offered sets.Set[string], further ...boxcutter.RevisionReconcileOption) (machinery.RevisionResult, error) {
	options := []boxcutter.RevisionReconcileOption{
		boxcutter.WithProbe(boxcutter.ProgressProbeType, probe.UnlessTakenOver(rev.number, probe.Progress())),
		boxcutter.WithProbe(availableProbe, probe.Available()),
		boxcutter.WithAggregatePhaseReconcileErrors(),
		thrifty,
	}
	return e.pass(ctx, rev, slices.Concat(options, adoptions(rev.phases, offered), further)...)
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
		if phases := known.phases.Value(); phases != nil {
			rev.phases = *phases
			return nil
		}
	}
	if err := rev.plan(); err != nil {
		return err
	}
	if e.plans == nil {
		e.plans = map[string]plan{}
	}
	whole := new(rev.phases) // a pass may leave some of rev's phases out
	e.plans[rev.name] = plan{of: of, phases: weak.Make(whole)}
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

// revision is what boxcutter is given: some or all phases of a revision.
func (e *Engine) revision(rev *revisionObjects, of []revision.Phase) boxcutter.Revision {
	phases := make([]boxcutter.Phase, len(of))
	for i, phase := range of {
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

// objects are a phase's objects as they are applied.
func objects(phase revision.Phase) []client.Object {
	out := make([]client.Object, len(phase.Objects))
	for i, obj := range phase.Objects {
		out[i] = asApplied(obj)
	}
	return out
}

// asApplied is an object without the annotation that speaks to the installer alone,
// and without what a controller of the cluster writes: the rules of an aggregated
// ClusterRole, even if a manifest says that there are none.
func asApplied(obj *unstructured.Unstructured) *unstructured.Unstructured {
	_, adopt := obj.GetAnnotations()[v1alpha1.AdoptAnnotation]
	_, aggregated := obj.Object["aggregationRule"]
	if !adopt && !aggregated {
		return obj
	}
	out := obj.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", v1alpha1.AdoptAnnotation)
	if aggregated {
		delete(out.Object, "rules")
	}
	return out
}

func allowsAdoption(obj client.Object) bool {
	return obj.GetAnnotations()[v1alpha1.AdoptAnnotation] == v1alpha1.AdoptAlways
}

// offered are the objects in the way of which the cluster's own copy says that it
// may be taken over: an administrator has written that, or this installer, when it
// left a CRD behind. So may be what nobody has made.
func offered(result machinery.RevisionResult) sets.Set[string] {
	found := sets.New[string]()
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			if object.Action() == machinery.ActionCollision && (allowsAdoption(object.Object()) || nobodys(object.Object())) {
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
