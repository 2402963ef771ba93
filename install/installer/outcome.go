// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/status"
)

// outcomeOf says what one pass over a revision came to. What somebody must mend
// comes before what may pass by itself, and that before what is only awaited.
func outcomeOf(rev *revisionObjects, result machinery.RevisionResult, err error) status.Outcome {
	outcome := status.Outcome{Reason: status.AsExpected, Related: related(rev)}
	switch {
	case result != nil && result.GetValidationError() != nil:
		outcome.Reason, outcome.Err = status.ObjectsRefused, result.GetValidationError()
	case result != nil && checkerAbsent(result):
		outcome.Reason, outcome.Message = status.CheckerAbsent, "waiting for the API "+probe.CompatibilityRequirement.String()+
			", with which the cluster checks that unmanaged CRDs are compatible: "+strings.Join(rev.unmanaged, ", ")
	case result != nil && apierrors.IsConflict(refused(result)): // somebody was quicker
		outcome.Reason, outcome.Err = status.ApplyFailed, refused(result)
	case result != nil && refused(result) != nil:
		outcome.Reason, outcome.Err = status.ObjectsRefused, refused(result)
	case result != nil && incompatible(result) != "":
		outcome.Reason, outcome.Message = status.Incompatible, incompatible(result)
	case rev.withheld != nil:
		outcome.Reason, outcome.Message = status.Incompatible, strings.Join(rev.withheld, "; ")+
			"; it is as soon as it is compatible, or at once when it is annotated with "+v1alpha1.AdoptAnnotation+"="+v1alpha1.AdoptAlways
	case result != nil && collision(result) != "":
		outcome.Reason, outcome.Message = status.Collision, collision(result)
	case err != nil:
		outcome.Reason, outcome.Err = status.ApplyFailed, fmt.Errorf("installing version %s: %w", rev.name, err)
	case !result.IsComplete():
		outcome.Reason, outcome.Message = status.RollingOut, awaited(rev, result)
	}
	return outcome
}

// incompatible names the unmanaged CRDs that are known not to be compatible, each
// with the reason and the message of the cluster's checker.
func incompatible(result machinery.RevisionResult) string {
	var found []string
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			obj := object.Object()
			if obj.GetObjectKind().GroupVersionKind().GroupKind() != probe.CompatibilityRequirement {
				continue
			}
			if state, detail := probe.Condition(obj, "Compatible"); state == "False" {
				found = append(found, fmt.Sprintf("CustomResourceDefinition %s (CompatibilityRequirement %s): %s", requiredCRD(obj), obj.GetName(), detail))
			}
		}
	}
	if found == nil {
		return ""
	}
	return "unmanaged and not compatible with what is to be installed: " + strings.Join(found, "; ") +
		"; update it, and the rest follows by itself, or remove it from spec.unmanagedCRDs"
}

// requiredCRD is the name of the CRD that a CompatibilityRequirement is about.
func requiredCRD(requirement client.Object) string {
	if content, ok := requirement.(*unstructured.Unstructured); ok {
		if name, _, _ := unstructured.NestedString(content.Object, "status", "crdName"); name != "" {
			return name
		}
	}
	name := requirement.GetName()
	return name[:max(0, strings.LastIndexByte(name, '-'))]
}

// collision names the objects that belong to somebody else.
func collision(result machinery.RevisionResult) string {
	var found []string
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			if object.Action() == machinery.ActionCollision {
				found = append(found, describe(object.Object())+owner(object))
			}
		}
	}
	if found == nil {
		return ""
	}
	return "not taken over, because it exists and is not ours: " + strings.Join(found, ", ") +
		"; annotate it with " + v1alpha1.AdoptAnnotation + "=" + v1alpha1.AdoptAlways +
		" to have it taken over, or, if it is a CRD, name it in spec.unmanagedCRDs"
}

func owner(object machinery.ObjectResult) string {
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

// awaited says how far the first phase that is not complete has come, and what it waits for.
func awaited(rev *revisionObjects, result machinery.RevisionResult) string {
	for _, phase := range result.GetPhases() {
		if phase.IsComplete() {
			continue
		}
		ready, _ := progress(phase)
		return fmt.Sprintf("installing %s: phase %s %d/%d%s", rev.name, phase.GetName(), ready, len(phase.GetObjects()), waitsFor(phase))
	}
	return "installing " + rev.name
}

// waitsFor names the first object that a phase waits for, and how many more there
// are. What each of them lacks is told by the phases in the status.
func waitsFor(phase machinery.PhaseResult) string {
	var missing []string
	for _, object := range phase.GetObjects() {
		if !object.IsComplete() {
			missing = append(missing, describe(object.Object()))
		}
	}
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return ", waiting for " + missing[0]
	default:
		return fmt.Sprintf(", waiting for %s and %d more", missing[0], len(missing)-1)
	}
}

// works says whether every object that was looked at works, whatever is being changed about it.
func works(result machinery.RevisionResult) bool {
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			if object.ProbeResults().Type(availableProbe).Status != types.ProbeStatusTrue {
				return false
			}
		}
	}
	return true
}

// progress counts the objects of a phase that are ready and describes the others.
func progress(phase machinery.PhaseResult) (ready int, missing []string) {
	for _, object := range phase.GetObjects() {
		if object.IsComplete() {
			ready++
			continue
		}
		missing = append(missing, describe(object.Object())+" ("+lacks(object)+")")
	}
	return ready, missing
}

// lacks says what an object that is not complete lacks.
func lacks(object machinery.ObjectResult) string {
	if object.Action() == machinery.ActionCollision {
		return "exists and is not ours" + owner(object)
	}
	if why := strings.Join(object.ProbeResults().Type(boxcutter.ProgressProbeType).Messages, ", "); why != "" {
		return why
	}
	return string(object.Action())
}

// shorten keeps a message readable: the first two, and how many more.
func shorten(items []string) string {
	const most = 2
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
}

// describe names an object: "Deployment openshift-cluster-api/capi-controller-manager".
func describe(obj client.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return kind + " " + obj.GetNamespace() + "/" + obj.GetName()
}
