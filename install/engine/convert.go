// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/collision"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// phasesOf returns the results of boxcutter for one phase as values. Some versions of
// boxcutter return the findings of a validation as an error, and others as a part of the
// result.
func (o Owners) phasesOf(name string, result machinery.RevisionResult, err error) ([]Phase, error) {
	if finding := findingIn(err, name); finding != nil {
		return []Phase{{Name: name, Rejection: rejectionOf(finding)}}, nil
	}
	if err == nil && (result == nil || len(result.GetPhases()) == 0) { // nothing is known of the phase: it must not count as complete
		return []Phase{{Name: name}}, nil
	}
	if result == nil {
		return nil, err
	}
	if invalid := result.GetValidationError(); invalid != nil && err == nil {
		err = invalid
	}
	phases := make([]Phase, len(result.GetPhases()))
	for i, phase := range result.GetPhases() {
		phases[i] = o.phaseOf(phase)
	}
	return phases, err
}

// findingIn returns the finding about a phase or one of its objects that an error has, or nil.
func findingIn(err error, phase string) *validation.PhaseValidationError {
	if finding, ok := errors.AsType[*validation.PhaseValidationError](err); ok {
		return finding
	}
	var object validation.ObjectValidationError
	if pointer, ok := errors.AsType[*validation.ObjectValidationError](err); ok {
		object = *pointer
	} else if !errors.As(err, &object) {
		return nil
	}
	return &validation.PhaseValidationError{PhaseName: phase, Objects: []validation.ObjectValidationError{object}}
}

func (o Owners) phaseOf(result machinery.PhaseResult) Phase {
	out := Phase{Name: result.GetName(), Complete: result.IsComplete()}
	for _, found := range result.GetObjects() {
		out.Objects = append(out.Objects, o.objectOf(found, out.Name == revision.Preflight))
	}
	if invalid := result.GetValidationError(); invalid != nil {
		out.Complete, out.Rejection = false, rejectionOf(invalid)
	}
	return out
}

func (o Owners) objectOf(result machinery.ObjectResult, whole bool) Object {
	actual := result.Object()
	out := Object{
		Reference: ReferenceTo(actual), UID: actual.GetUID(), Version: actual.GetResourceVersion(),
		Action: Action(result.Action()), Ready: result.IsComplete(), Adoptable: v1alpha1.AllowsAdoption(actual.GetAnnotations()),
		Paused: result.IsPaused(), Change: changeOf(result), Replaced: replacedIn(result), Instructions: instructionsOn(actual), Referenced: len(actual.GetOwnerReferences()) > 0,
		Available: result.ProbeResults().Type(availableProbe).Status == types.ProbeStatusTrue,
	}
	out.Owner, out.Own = o.ownerIn(result), ownValues(result)
	if content, ok := actual.(*unstructured.Unstructured); ok && (whole || out.Action == Collision) {
		out.Actual = content.DeepCopy()
		compatible, _ := probe.Condition(content, probe.Compatible)
		out.Blocked = out.Action == Collision || compatible == "False"
	}
	if !out.Ready {
		out.Reason = incompleteReason(out, result.ProbeResults().Type(boxcutter.ProgressProbeType).Messages)
	}
	return out
}

// comparisonOf returns the difference of an object from the desired one; empty for a result without a comparison.
func comparisonOf(result machinery.ObjectResult) machinery.CompareResult {
	if compared, ok := result.(interface {
		CompareResult() machinery.CompareResult
	}); ok {
		return compared.CompareResult()
	}
	return machinery.CompareResult{}
}

// replacedIn returns the fields of an object that stay different although the last write had the desired values.
func replacedIn(result machinery.ObjectResult) []string {
	if result.Action() != machinery.ActionIdle {
		return nil
	}
	return comparisonOf(result).Modified()
}

// ownValues reports whether an object differs only in values that no other actor has written or removed.
func ownValues(result machinery.ObjectResult) bool {
	comparison := comparisonOf(result).Comparison
	return result.Action() == machinery.ActionUpdated && comparison != nil && comparison.Removed.Empty()
}

// changeOf describes the fields of an object that differ from the desired ones, and the other field managers that own some.
func changeOf(result machinery.ObjectResult) string {
	if result.Action() == machinery.ActionIdle || result.Action() == machinery.ActionProgressed {
		return ""
	}
	compared := comparisonOf(result)
	var parts, managers []string
	if fields := compared.Modified(); len(fields) > 0 {
		parts = append(parts, "fields "+text.First(3, fields))
	}
	for _, conflict := range compared.ConflictingMangers {
		managers = append(managers, strconv.Quote(conflict.Manager))
	}
	slices.Sort(managers)
	if managers = slices.Compact(managers); len(managers) > 0 {
		parts = append(parts, "changed by field manager "+text.First(3, managers))
	}
	return strings.Join(parts, ", ")
}

// ownerIn returns the controller of an object: in a collision the one that boxcutter names.
func (o Owners) ownerIn(result machinery.ObjectResult) Owner {
	if conflict, ok := result.(interface {
		ConflictingOwner() (*metav1.OwnerReference, bool)
	}); ok && result.Action() == machinery.ActionCollision {
		if ref, found := conflict.ConflictingOwner(); found {
			return Owner{ref.Kind, ref.Name}
		}
		return Owner{}
	}
	if ref, found := o.GetController(result.Object()); found {
		return Owner{ref.Kind, ref.Name}
	}
	return Owner{}
}

// incompleteReason returns the reason why an object is not ready.
func incompleteReason(o Object, messages []string) string {
	if o.Action == Collision {
		return "exists and is not managed by the installer (" + o.Collides().Owner + ")"
	}
	if failed := strings.Join(messages, ", "); failed != "" {
		return failed
	}
	return string(o.Action)
}

// Collides describes an object with action Collision.
func (o Object) Collides() collision.Object {
	if o.Owner != (Owner{}) {
		return collision.Object{Identity: o.Identity, Owner: "owned by " + o.Owner.String()}
	}
	return collision.Object{Identity: o.Identity, Owner: collision.OwnerOf(o.Actual)}
}

func rejectionOf(invalid *validation.PhaseValidationError) *Rejection {
	out := &Rejection{Phase: invalid.PhaseName, Err: invalid.PhaseError}
	for _, rejected := range invalid.Objects {
		out.Objects = append(out.Objects, RejectedObject{identityOf(rejected.ObjectRef), rejected.Errors})
	}
	return out
}

func removedPhases(result machinery.RevisionTeardownResult) (phases []RemovedPhase) {
	for _, phase := range result.GetPhases() {
		removed := RemovedPhase{Name: phase.GetName(), Complete: phase.IsComplete()}
		for _, ref := range phase.Waiting() {
			removed.Waiting = append(removed.Waiting, Reference{identityOf(ref), ref.Version})
		}
		phases = append(phases, removed)
	}
	return phases
}

func identityOf(ref types.ObjectRef) object.Identity {
	return object.Identity{GroupKind: ref.GroupKind(), Namespace: ref.Namespace, Name: ref.Name}
}

// Instruction is an annotation or a label that makes another controller write fields of an object, or claims the object: its controller may
// delete what it claims.
type Instruction struct {
	Name string
	// Label is set for a label.
	Label bool
}

// String describes an object with the instruction.
func (i Instruction) String() string {
	if i.Label {
		return "labelled " + i.Name
	}
	return "annotated " + i.Name
}

// instructions address controllers that are often found beside Cluster API.
var instructions = []Instruction{
	{Name: "cert-manager.io/inject-ca-from"}, {Name: "cert-manager.io/inject-ca-from-secret"}, {Name: "cert-manager.io/inject-apiserver-ca"},
	{Name: "service.beta.openshift.io/inject-cabundle"}, {Name: "service.beta.openshift.io/serving-cert-secret-name"},
	{Name: "argocd.argoproj.io/tracking-id"}, {Name: "meta.helm.sh/release-name"}, {Name: "meta.helm.sh/release-namespace"},
	{Name: "applyset.kubernetes.io/part-of", Label: true}, {Name: "argocd.argoproj.io/instance", Label: true},
	{Name: "helm.toolkit.fluxcd.io/name", Label: true}, {Name: "helm.toolkit.fluxcd.io/namespace", Label: true}, {Name: "kapp.k14s.io/app", Label: true},
	{Name: "kustomize.toolkit.fluxcd.io/name", Label: true}, {Name: "kustomize.toolkit.fluxcd.io/namespace", Label: true},
	{Name: "objectset.rio.cattle.io/hash", Label: true},
}

// On reports whether an object has the instruction.
func (i Instruction) On(obj client.Object) bool {
	values := obj.GetAnnotations()
	if i.Label {
		values = obj.GetLabels()
	}
	_, has := values[i.Name]
	return has
}

// instructionsOn returns the instructions of an object.
func instructionsOn(obj client.Object) (found []Instruction) {
	for _, instruction := range instructions {
		if instruction.On(obj) {
			found = append(found, instruction)
		}
	}
	return found
}
