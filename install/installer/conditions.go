// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// outcomeOf returns the outcome of one reconcile of a revision. Terminal errors take
// precedence over retryable errors, and retryable errors over a rollout in progress.
func outcomeOf(rev *loadedRevision, result machinery.RevisionResult, err error) status.Outcome {
	outcome := status.Outcome{Reason: status.AsExpected, Related: rev.related}
	switch {
	case result != nil && result.GetValidationError() != nil:
		outcome.Reason, outcome.Err = status.ObjectsRefused, result.GetValidationError()
	case result != nil && checkerAbsent(result):
		outcome.Reason, outcome.Message = status.CheckerAbsent, "waiting for API "+probe.CompatibilityRequirement.String()+
			", which is required to check the compatibility of unmanaged CRDs: "+strings.Join(rev.unmanaged, ", ")
	case result != nil && isTransient(rejected(result)):
		outcome.Reason, outcome.Err = status.ApplyFailed, rejected(result)
	case result != nil && isForbidden(rejected(result)):
		outcome.Reason, outcome.Err = status.ObjectsForbidden, rejected(result)
	case result != nil && rejected(result) != nil:
		outcome.Reason, outcome.Err = status.ObjectsRefused, rejected(result)
	case result != nil && incompatibleMessage(result) != "":
		outcome.Reason, outcome.Message = status.Incompatible, incompatibleMessage(result)
	case rev.notAdopted != nil:
		outcome.Reason, outcome.Message = status.Incompatible, strings.Join(rev.notAdopted, "; ")+
			"; the installer adopts the CRD once it is compatible; to adopt it immediately, annotate it with "+v1alpha1.AdoptAnnotation+"="+v1alpha1.AdoptAlways
	case result != nil && collisionMessage(rev, result, err) != "":
		outcome.Reason, outcome.Message = status.Collision, collisionMessage(rev, result, err)
	case err != nil:
		outcome.Reason, outcome.Err = status.ApplyFailed, fmt.Errorf("installing version %s: %w", rev.name, err)
	case deadlineExceeded(result):
		outcome.Reason = status.ProgressDeadlineExceeded
		outcome.Message = "progress deadline exceeded: " + rolloutMessage(rev, result) + "; check the objects listed in the phases of status.versions"
	case !result.IsComplete():
		outcome.Reason, outcome.Message = status.RollingOut, rolloutMessage(rev, result)+adoptionMessage(rev.fromPredecessor)
	default:
		outcome.Message = compatibleMessage(result)
	}
	return outcome
}

// incompatibleMessage lists the unmanaged CRDs that are incompatible, each with its
// checker and the message of the checker; empty if there are none.
func incompatibleMessage(result machinery.RevisionResult) string {
	var found []string
	for object := range objectResults(result) {
		if obj := object.Object(); isIncompatible(obj) {
			_, detail := probe.Condition(obj, probe.Compatible)
			found = append(found, fmt.Sprintf("CustomResourceDefinition %s (%s): %s", requiredCRD(obj), checker(obj), detail))
		}
	}
	if found == nil {
		return ""
	}
	return "unmanaged CRDs are incompatible with the version to be installed: " + strings.Join(found, "; ") +
		"; update the CRD, or remove it from spec.unmanagedCRDs"
}

// isIncompatible reports whether an object stands for an unmanaged CRD that is known to
// be incompatible.
func isIncompatible(obj client.Object) bool {
	state, _ := probe.Condition(obj, probe.Compatible)
	return state == "False" && checker(obj) != ""
}

// checkedByInstaller names the installer as the checker of an unmanaged CRD.
const checkedByInstaller = "checked by the installer"

// checker names the checker of an unmanaged CRD that an object stands for; empty if it
// stands for none.
func checker(obj client.Object) string {
	switch state, _ := probe.Condition(obj, probe.Compatible); {
	case object.GroupKind(obj) == probe.CompatibilityRequirement:
		return "checked by OpenShift, CompatibilityRequirement " + obj.GetName()
	case object.IsCRD(obj) && state != "":
		return checkedByInstaller
	default:
		return ""
	}
}

// compatibleMessage names the compatible unmanaged CRDs of an installed version, with
// their checkers; empty if there are none.
func compatibleMessage(result machinery.RevisionResult) string {
	var found []string
	for object := range objectResults(result) {
		if by := checker(object.Object()); by != "" {
			found = append(found, requiredCRD(object.Object())+" ("+by+")")
		}
	}
	if found == nil {
		return ""
	}
	return "nothing is left to do; unmanaged CRDs are compatible: " + text.First(10, found)
}

// requiredCRD returns the name of the CRD that an object stands for: a
// CompatibilityRequirement or the CRD itself.
func requiredCRD(requirement client.Object) string {
	if object.IsCRD(requirement) {
		return requirement.GetName()
	}
	if content, ok := requirement.(*unstructured.Unstructured); ok {
		if name := object.TextAt(content.Object, "status", "crdName"); name != "" {
			return name
		}
	}
	name := requirement.GetName()
	return name[:max(0, strings.LastIndexByte(name, '-'))]
}

// collisionMessage lists the objects that belong to another owner; empty if there are
// none. After an error it leaves out objects that may be adopted: the error may be
// transient and have prevented their adoption.
func collisionMessage(rev *loadedRevision, result machinery.RevisionResult, err error) string {
	var found []string
	for object := range objectResults(result) {
		if object.Action() == machinery.ActionCollision && (err == nil || !mayBeAdopted(rev, object.Object())) {
			found = append(found, describe(object.Object())+conflictingOwner(object))
		}
	}
	if found == nil {
		return ""
	}
	return "objects already exist and are not managed by the installer: " + strings.Join(found, ", ") +
		"; to have the installer adopt an object, annotate it with " + v1alpha1.AdoptAnnotation + "=" + v1alpha1.AdoptAlways +
		"; to leave a CRD to its owner, add it to spec.unmanagedCRDs"
}

func conflictingOwner(object machinery.ObjectResult) string {
	conflict, ok := object.(interface {
		ConflictingOwner() (*metav1.OwnerReference, bool)
	})
	if !ok {
		return ""
	}
	ref, found := conflict.ConflictingOwner()
	if !found {
		return " (no owner)"
	}
	return fmt.Sprintf(" (owned by %s %s)", ref.Kind, ref.Name)
}

// rolloutMessage returns the progress of the first incomplete phase.
func rolloutMessage(rev *loadedRevision, result machinery.RevisionResult) string {
	for _, phase := range result.GetPhases() {
		if phase.IsComplete() {
			continue
		}
		ready, _ := progress(phase)
		return fmt.Sprintf("installing %s: phase %s %d/%d%s", rev.name, phase.GetName(), ready, len(phase.GetObjects()), waitingFor(phase))
	}
	return "installing " + rev.name
}

// waitingFor names the first object that a phase waits for and counts the others. The
// phases in the status list all of them.
func waitingFor(phase machinery.PhaseResult) string {
	var missing []string
	for _, object := range phase.GetObjects() {
		if !object.IsComplete() {
			missing = append(missing, describe(object.Object()))
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return ", waiting for " + text.First(1, missing)
}

// available reports whether every reconciled object is available, even if it is
// being updated.
func available(result machinery.RevisionResult) bool {
	for object := range objectResults(result) {
		if object.ProbeResults().Type(availableProbe).Status != types.ProbeStatusTrue {
			return false
		}
	}
	return true
}

// progress counts the ready objects of a phase and describes the others.
func progress(phase machinery.PhaseResult) (ready int, missing []string) {
	for _, object := range phase.GetObjects() {
		if object.IsComplete() {
			ready++
			continue
		}
		missing = append(missing, describe(object.Object())+" ("+incompleteReason(object)+")")
	}
	return ready, missing
}

// incompleteReason returns the reason why an object is not complete.
func incompleteReason(object machinery.ObjectResult) string {
	if object.Action() == machinery.ActionCollision {
		return "exists and is not managed by the installer" + conflictingOwner(object)
	}
	if reason := strings.Join(object.ProbeResults().Type(boxcutter.ProgressProbeType).Messages, ", "); reason != "" {
		return reason
	}
	return string(object.Action())
}
