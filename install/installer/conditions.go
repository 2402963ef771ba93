// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// outcomeOf returns the outcome of one reconcile of a revision: the gravest of its
// problems; among equally grave ones, the first in the order of problems. A revision
// without problems is installed or in progress.
func outcomeOf(rev *loadedRevision, result machinery.RevisionResult, err error) status.Outcome {
	found := problems(rev, result, err)
	if found == nil {
		found = []status.Outcome{progressOutcome(rev, result)}
	}
	outcome := status.Gravest(found...)
	outcome.Related = rev.related
	return outcome
}

// problems returns an outcome for each problem of a reconcile.
func problems(rev *loadedRevision, result machinery.RevisionResult, err error) (found []status.Outcome) {
	add := func(why reason.Reason, message string, err error) {
		if message != "" || err != nil {
			found = append(found, status.Outcome{Reason: why, Message: message, Err: err})
		}
	}
	if result != nil {
		if invalid := result.GetValidationError(); invalid != nil {
			add(reason.ObjectsRefused, "", invalid)
		}
		found = append(found, rejectionOutcomes(rev, result)...)
		add(reason.Incompatible, incompatibleMessage(result), nil)
	}
	add(reason.Incompatible, strings.Join(rev.notAdopted, "; "), nil)
	if result != nil {
		add(reason.Collision, collisionMessage(rev, result, err), nil)
	}
	switch {
	case errors.As(err, new(*permissionsError)):
		add(reason.ObjectsForbidden, "", err)
	case err != nil:
		add(reason.ApplyFailed, "", fmt.Errorf("installing version %s: %w", rev.name, err))
	}
	return found
}

// rejectionOutcomes returns the outcome of a rejected phase; none if no phase was rejected.
func rejectionOutcomes(rev *loadedRevision, result machinery.RevisionResult) []status.Outcome {
	switch err := rejected(result); {
	case err == nil:
		return nil
	case checkerAbsent(result):
		return []status.Outcome{{Reason: reason.CheckerAbsent, Message: "waiting for API " + probe.CompatibilityRequirement.String() +
			", which is required to check the compatibility of unmanaged CRDs: " + strings.Join(rev.unmanaged, ", ")}}
	case isTransient(err):
		return []status.Outcome{{Reason: reason.ApplyFailed, Err: err}}
	case isForbidden(err):
		return []status.Outcome{{Reason: reason.ObjectsForbidden, Err: err}}
	default:
		return []status.Outcome{{Reason: reason.ObjectsRefused, Err: err}}
	}
}

// progressOutcome returns the outcome of a reconcile without problems.
func progressOutcome(rev *loadedRevision, result machinery.RevisionResult) status.Outcome {
	switch {
	case deadlineExceeded(result):
		return status.Outcome{Reason: reason.ProgressDeadlineExceeded, Message: "progress deadline exceeded: " + rolloutMessage(rev, result)}
	case !result.IsComplete():
		return status.Outcome{Reason: reason.RollingOut, Message: rolloutMessage(rev, result) + adoptionMessage(rev.fromPredecessor)}
	default:
		return status.Outcome{Reason: reason.AsExpected, Message: compatibleMessage(result)}
	}
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
	return "unmanaged CRDs are incompatible with the version to be installed: " + strings.Join(found, "; ")
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
	return reason.Of(reason.AsExpected).Message + "; unmanaged CRDs are compatible: " + text.First(10, found)
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
	return "objects already exist and are not managed by the installer: " + strings.Join(found, ", ")
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
	if failed := strings.Join(object.ProbeResults().Type(boxcutter.ProgressProbeType).Messages, ", "); failed != "" {
		return failed
	}
	return string(object.Action())
}
