// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/probing"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// This is the only file that uses options which the original boxcutter lacks. Each
// option is detected by its method and used only if it is present, so that the file
// compiles against both modules and the installer is correct without the options.

// availableProbe is the type of the probe that checks availability.
const availableProbe = "Available"

// reconcileOptions returns the options of one phase. shared may be nil.
func reconcileOptions(phase revision.Phase, how Apply, shared unchangedSince) []boxcutter.RevisionReconcileOption {
	options := []boxcutter.RevisionReconcileOption{
		boxcutter.WithProbe(boxcutter.ProgressProbeType, progressProbe(phase)),
		boxcutter.WithProbe(availableProbe, probe.Available()),
		boxcutter.WithAggregatePhaseReconcileErrors(), engineOptions,
	}
	if shared != nil {
		options = append(options, shared)
	}
	if adopt := adoptions(phase, how); adopt != nil {
		options = append(options, boxcutter.WithPhaseReconcileOptions(phase.Name, adopt...))
	}
	return options
}

// options returns the options of removing one phase.
func (r Remove) options(phase revision.Phase) []boxcutter.RevisionTeardownOption {
	out := []boxcutter.RevisionTeardownOption{boxcutter.WithAggregatePhaseTeardownErrors(), engineOptions}
	var options []boxcutter.PhaseTeardownOption
	for _, obj := range phase.Objects {
		id := object.IdentityOf(obj)
		if r.Orphan.Has(id) {
			options = append(options, boxcutter.WithObjectTeardownOptions(obj, types.WithOrphan()))
		} else if writer := r.Writers[id]; writer != nil {
			options = append(options, boxcutter.WithObjectTeardownOptions(obj, types.WithTeardownWriter(writer)))
		}
	}
	if options != nil {
		out = append(out, boxcutter.WithPhaseTeardownOptions(phase.Name, options...))
	}
	return out
}

// progressProbe returns the probe that a phase waits for. Objects that a newer owner has
// adopted are ready.
func progressProbe(phase revision.Phase) types.Prober {
	return probe.UnlessAdopted(phase.Number, probing.And{types.ProbeFunc(notDeleted), probe.Progress()})
}

// notDeleted fails for an object that is being deleted: a finalizer blocks the
// deletion, and the installer recreates the object afterwards.
func notDeleted(obj client.Object) types.ProbeResult {
	if obj.GetDeletionTimestamp() == nil {
		return probing.TrueResult()
	}
	return probing.FalseResult(Deletion(obj))
}

// adoptions returns the options that allow adoption. Objects whose manifest has the
// annotation are adopted from any controller; adoptable objects only if they have no
// controller. Paused objects are only compared.
func adoptions(phase revision.Phase, how Apply) []boxcutter.PhaseReconcileOption {
	var options []boxcutter.PhaseReconcileOption
	for _, obj := range phase.Objects {
		switch {
		case how.Paused != nil && how.Paused(object.IdentityOf(obj)):
			options = append(options, boxcutter.WithObjectReconcileOptions(obj, boxcutter.WithPaused{}))
		case v1alpha1.AllowsAdoption(obj.GetAnnotations()):
			options = append(options, boxcutter.WithObjectReconcileOptions(obj, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone)))
		case how.Adopt.Len() > 0 && how.Adopt.Has(object.IdentityOf(obj)):
			options = append(options, boxcutter.WithObjectReconcileOptions(obj, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController)))
		}
	}
	return options
}

// asFieldOwner makes the validator use the field owner of the writes for its dry runs,
// if it supports that. Otherwise a dry run reports fields that the write removes.
func asFieldOwner(validator *validation.PhaseValidator) *validation.PhaseValidator {
	if extended, ok := any(validator).(interface {
		WithFieldOwner(name string) *validation.PhaseValidator
	}); ok {
		return extended.WithFieldOwner(v1alpha1.FieldOwner)
	}
	return validator
}

// concurrency is the number of objects of a phase that are written or deleted at
// the same time. As an option for the engine it also disables dry runs whose
// result is not needed. The original boxcutter supports neither and ignores the option.
type concurrency int

// engineOptions is the option that the installer uses.
const engineOptions = concurrency(8)

// ApplyToPhaseReconcileOptions sets it for one phase.
func (c concurrency) ApplyToPhaseReconcileOptions(options *types.PhaseReconcileOptions) {
	c.set(options)
	if extended, ok := any(options).(interface{ SetNoDryRunOfUnchanged(disable bool) }); ok {
		extended.SetNoDryRunOfUnchanged(true)
	}
}

// ApplyToRevisionReconcileOptions sets it for all phases.
func (c concurrency) ApplyToRevisionReconcileOptions(options *types.RevisionReconcileOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, c)
}

// ApplyToPhaseTeardownOptions sets it for one phase.
func (c concurrency) ApplyToPhaseTeardownOptions(options *types.PhaseTeardownOptions) {
	c.set(options)
}

// ApplyToRevisionTeardownOptions sets it for all phases.
func (c concurrency) ApplyToRevisionTeardownOptions(options *types.RevisionTeardownOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, c)
}

func (c concurrency) set(options any) {
	if extended, ok := options.(interface{ SetConcurrency(limit int) }); ok {
		extended.SetConcurrency(int(c))
	}
}

// unchangedSince reports whether the owner with a number has the same object. Such an
// object gets one write in an upgrade: boxcutter need not find out whether the new revision
// drops fields of it.
type unchangedSince func(obj client.Object, number int64) bool

// Remembered returns a function that calls another function once for each number. It is safe for concurrent use.
func Remembered(older func(number int64) map[object.Identity]*unstructured.Unstructured) func(number int64) map[object.Identity]*unstructured.Unstructured {
	if older == nil {
		return nil
	}
	var mutex sync.Mutex
	known := map[int64]map[object.Identity]*unstructured.Unstructured{}
	return func(number int64) map[object.Identity]*unstructured.Unstructured {
		mutex.Lock()
		defer mutex.Unlock()
		if _, found := known[number]; !found {
			known[number] = older(number)
		}
		return known[number]
	}
}

// sharedWith compares the objects of a revision with the objects of older ones; nil if they are unknown. It uses only the
// identity of its argument. The function is safe for concurrent use if its argument is.
func sharedWith(rev Revision, older func(number int64) map[object.Identity]*unstructured.Unstructured) unchangedSince {
	if older == nil {
		return nil
	}
	ours := sync.OnceValue(func() map[object.Identity]*unstructured.Unstructured { return revision.ByIdentity(rev.Phases) })
	return func(obj client.Object, number int64) bool {
		id := object.IdentityOf(obj)
		mine, theirs := ours()[id], older(number)[id]
		return mine != nil && theirs != nil && equality.Semantic.DeepEqual(mine.Object, theirs.Object)
	}
}

// ApplyToObjectReconcileOptions sets it for one object. The original boxcutter ignores the
// option.
func (u unchangedSince) ApplyToObjectReconcileOptions(options *types.ObjectReconcileOptions) {
	if extended, ok := any(options).(interface {
		SetUnchangedSince(unchanged func(obj client.Object, revision int64) bool)
	}); ok {
		extended.SetUnchangedSince(u)
	}
}

// ApplyToPhaseReconcileOptions sets it for all objects of a phase.
func (u unchangedSince) ApplyToPhaseReconcileOptions(options *types.PhaseReconcileOptions) {
	options.DefaultObjectOptions = append(options.DefaultObjectOptions, u)
}

// ApplyToRevisionReconcileOptions sets it for all phases.
func (u unchangedSince) ApplyToRevisionReconcileOptions(options *types.RevisionReconcileOptions) {
	options.DefaultPhaseOptions = append(options.DefaultPhaseOptions, u)
}
