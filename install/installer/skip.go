// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/revision"
)

// A reconcile compares only what has changed. Most events of a rollout concern one phase,
// and comparing all earlier phases at each event takes time that grows with the square
// of the number of phases.
//
// The result of a phase follows from its objects and from those in the cluster. So a
// complete phase without a write has the same result as before while both are the same:
// the objects of the phase, by the key of the revision, and each object in the cache, by
// its UID and its resource version. An object that was changed or deleted has another one, or
// none, and its phase is reconciled. Only objects with an event since the last comparison
// are read, and those that the cache does not hold.
//
// Nothing is known after a start: the first reconcile compares all phases.

// comparisons are the phases of a revision that were complete without a write.
type comparisons struct {
	// key identifies the objects of the revision.
	key    string
	phases map[string]comparedPhase
}

// comparedOf returns the comparisons of a revision; those of other objects are dropped.
func (e *Engine) comparedOf(rev *loadedRevision) comparisons {
	if known := e.compared[rev.name]; known.key == rev.key {
		return known
	}
	delete(e.compared, rev.name)
	return comparisons{}
}

// record keeps the results of the phases that need no reconcile until an object changes.
// asOf is the number of events before their reconcile. It keeps nothing of a revision that
// the engine has rejected.
func (e *Engine) record(rev *loadedRevision, result machinery.RevisionResult, asOf uint64) {
	if result.GetValidationError() != nil || len(result.GetPhases()) == 0 {
		return
	}
	known := e.comparedOf(rev)
	if known.phases == nil {
		known = comparisons{key: rev.key, phases: map[string]comparedPhase{}}
	}
	for _, phase := range result.GetPhases() {
		delete(known.phases, phase.GetName())
		if isSettled(phase) {
			compared := newComparedPhase(phase)
			compared.asOf = asOf
			known.phases[phase.GetName()] = compared
		}
	}
	if e.compared == nil {
		e.compared = map[string]comparisons{}
	}
	e.compared[rev.name] = known
}

// isSettled reports whether a phase is complete and nothing was written, nor is left to
// write. The objects of the preflight phase are needed for messages.
func isSettled(phase machinery.PhaseResult) bool {
	return phase.IsComplete() && phase.GetName() != revision.Preflight &&
		!slices.ContainsFunc(phase.GetObjects(), func(o machinery.ObjectResult) bool {
			return o.Action() != machinery.ActionIdle && o.Action() != machinery.ActionProgressed || allowsAdoption(o.Object())
		})
}

// compact returns the result of one phase without the contents of its objects, which take much memory, if nothing was
// written nor is left to write; any other result as it is.
func compact(result machinery.RevisionResult) machinery.RevisionResult {
	if result == nil || result.GetValidationError() != nil || len(result.GetPhases()) != 1 || !isSettled(result.GetPhases()[0]) {
		return result
	}
	return comparedRevision{newComparedPhase(result.GetPhases()[0])}
}

// unchanged returns the last result of a phase if no object has changed since; nil
// otherwise.
func (e *Engine) unchanged(ctx context.Context, rev *loadedRevision, phase revision.Phase) machinery.RevisionResult {
	known := e.comparedOf(rev).phases
	compared, found := known[phase.Name]
	if !found || rev.scope == controlledOnly {
		return nil
	}
	now := e.changes.now()
	for _, object := range compared.objects {
		if e.changes.since(compared.asOf, object.object) && !e.isCurrent(ctx, object.object) {
			return nil
		}
	}
	compared.asOf = now
	known[phase.Name] = compared
	return comparedRevision{compared}
}

// isCurrent reports whether the cache holds an object with this resource version.
func (e *Engine) isCurrent(ctx context.Context, object *metav1.PartialObjectMetadata) bool {
	actual := &unstructured.Unstructured{} // shares its fields with the cache
	actual.SetGroupVersionKind(object.GroupVersionKind())
	err := e.Versions.Get(ctx, client.ObjectKeyFromObject(object), actual, client.UnsafeDisableDeepCopy)
	return err == nil && actual.GetUID() == object.UID && actual.GetResourceVersion() == object.ResourceVersion
}

// comparedPhase is the result of a complete phase in which nothing was written.
type comparedPhase struct {
	name     string
	asOf     uint64 // number of events before the last comparison, if the phase is kept
	objects  []comparedObject
	progress bool // whether all objects belong to newer revisions
	mixed    bool // whether some do
}

func newComparedPhase(phase machinery.PhaseResult) comparedPhase {
	out := comparedPhase{name: phase.GetName(), progress: phase.HasProgressed(), mixed: phase.InTransition()}
	for _, object := range phase.GetObjects() {
		out.objects = append(out.objects, newComparedObject(object))
	}
	return out
}

// GetName returns the name of the phase.
func (p comparedPhase) GetName() string { return p.name }

// GetValidationError returns nil: the objects were accepted.
func (p comparedPhase) GetValidationError() *validation.PhaseValidationError { return nil }

// GetObjects returns the results of the objects.
func (p comparedPhase) GetObjects() []machinery.ObjectResult {
	out := make([]machinery.ObjectResult, len(p.objects))
	for i, object := range p.objects {
		out[i] = object
	}
	return out
}

// InTransition reports whether some objects, but not all, belong to newer revisions.
func (p comparedPhase) InTransition() bool { return p.mixed }

// IsComplete reports that the phase is complete.
func (p comparedPhase) IsComplete() bool { return true }

// HasProgressed reports whether all objects belong to newer revisions.
func (p comparedPhase) HasProgressed() bool { return p.progress }

func (p comparedPhase) String() string { return p.name + ": unchanged" }

// comparedRevision is a comparedPhase as the result of a revision with only this phase.
type comparedRevision struct{ comparedPhase }

// GetValidationError returns nil: the objects were accepted.
func (r comparedRevision) GetValidationError() *validation.RevisionValidationError { return nil }

// GetPhases returns the phase.
func (r comparedRevision) GetPhases() []machinery.PhaseResult {
	return []machinery.PhaseResult{r.comparedPhase}
}

// comparedObject is the result for an object that was not written. It has only the
// identity and the resource version of the object, because it is kept.
type comparedObject struct {
	action   machinery.Action
	object   *metav1.PartialObjectMetadata
	probes   types.ProbeResultContainer
	complete bool
}

func newComparedObject(result machinery.ObjectResult) comparedObject {
	actual, identity := result.Object(), &metav1.PartialObjectMetadata{}
	identity.SetGroupVersionKind(actual.GetObjectKind().GroupVersionKind())
	identity.Namespace, identity.Name = actual.GetNamespace(), actual.GetName()
	identity.UID, identity.ResourceVersion = actual.GetUID(), actual.GetResourceVersion()
	return comparedObject{action: result.Action(), object: identity, probes: result.ProbeResults(), complete: result.IsComplete()}
}

// Action reports that the object is as desired, or belongs to a newer revision.
func (o comparedObject) Action() machinery.Action { return o.action }

// Object returns the identity and the resource version of the object.
func (o comparedObject) Object() machinery.Object { return o.object }

// ProbeResults returns the results of the probes.
func (o comparedObject) ProbeResults() types.ProbeResultContainer { return o.probes }

// IsComplete reports whether the object is ready.
func (o comparedObject) IsComplete() bool { return o.complete }

// IsPaused reports that no write is pending.
func (o comparedObject) IsPaused() bool { return false }

func (o comparedObject) String() string { return describe(o.object) }
