// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/collision"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/text"
)

// outcome returns the outcome of the attempt: the gravest of its problems; among equally
// grave ones, the first in the order of problems. A version without problems is installed or
// in progress.
func (a attempt) outcome() status.Outcome {
	found := a.problems()
	if found == nil && a.judged.blocking() != nil {
		found = []status.Outcome{a.judged.outcome()}
	}
	if found == nil {
		found = []status.Outcome{a.progress()}
	}
	outcome := status.Gravest(found...)
	outcome.Related = a.plan.related()
	return outcome
}

// migrationPause is the time between two passes over the instances of a CRD, left to the API server for other
// requests.
const migrationPause = time.Second

// waitingError ends an attempt until pods have started or ended. Its text tells which.
type waitingError string

func (e waitingError) Error() string { return string(e) }

// waitingRecheck is the time until these pods are read again.
const waitingRecheck = 2 * time.Second

// problems returns an outcome for each problem of the attempt.
func (a attempt) problems() (found []status.Outcome) {
	add := func(why reason.Reason, message string, err error) {
		if message != "" || err != nil {
			found = append(found, status.Outcome{Reason: why, Message: message, Err: err})
		}
	}
	add(reason.ObjectsRefused, "", a.result.Invalid)
	for _, rejection := range a.result.Rejections() {
		found = append(found, a.rejected(rejection))
	}
	add(reason.Incompatible, compatibility.Refused(a.verdicts), nil)
	add(reason.Incompatible, strings.Join(a.refused, "; "), nil)
	add(reason.Collision, a.collisions(), nil)
	add(reason.Contested, a.contested, nil)
	var migrating *guard.MigratingError
	var waiting waitingError
	switch {
	case errors.As(a.err, &waiting):
		found = append(found, status.Outcome{Reason: reason.RollingOut, Message: "installing " + a.plan.name + ": " + waiting.Error(), Recheck: waitingRecheck})
	case errors.As(a.err, &migrating):
		found = append(found, status.Outcome{Reason: reason.RollingOut, Message: "installing " + a.plan.name + ": " + migrating.Error(), Recheck: migrationPause})
	case errors.As(a.err, new(*guard.UnreadableError)):
		add(reason.InstancesUnreadable, "", fmt.Errorf("version %s is not complete: %w", a.plan.name, a.err))
	case errors.As(a.err, new(*permissionsError)):
		add(reason.ObjectsForbidden, "", a.judged.with(a.err))
	case errors.As(a.err, new(*revision.SecretError)):
		add(reason.RevisionUnreadable, "", a.err)
	case a.err != nil:
		add(reason.ApplyFailed, "", fmt.Errorf("installing version %s: %w", a.plan.name, a.err))
	}
	return found
}

// rejected returns the outcome of a rejected phase.
func (a attempt) rejected(rejection *engine.Rejection) status.Outcome {
	switch {
	case checkerAbsent(rejection):
		return status.Outcome{Reason: reason.CheckerAbsent, Message: "waiting for API " + probe.CompatibilityRequirement.String() +
			", which is required to check the compatibility of unmanaged CRDs: " + strings.Join(a.plan.unmanaged, ", ")}
	case isTransient(rejection.Unwrap()):
		return status.Outcome{Reason: reason.ApplyFailed, Err: rejection}
	case isForbidden(rejection.Unwrap()):
		return status.Outcome{Reason: reason.ObjectsForbidden, Err: rejection}
	default:
		return status.Outcome{Reason: reason.ObjectsRefused, Err: withDeletions(rejection, a.immutable)}
	}
}

// progress returns the outcome of an attempt without problems.
func (a attempt) progress() status.Outcome {
	switch {
	case a.result.Complete() && a.plan.unknown != nil:
		return status.Outcome{Reason: reason.UnknownEntries, Message: reason.Of(reason.UnknownEntries).WithStep(text.First(10, a.plan.unknown))}
	case a.result.Complete():
		return status.Outcome{Reason: reason.AsExpected, Message: settledMessage(compatibility.Accepted(a.verdicts), a.plan.ignoredFields())}
	case a.late:
		return status.Outcome{Reason: reason.ProgressDeadlineExceeded, Message: "progress deadline exceeded: " + a.rollout()}
	}
	outcome := status.Outcome{Reason: reason.RollingOut, Message: a.rollout()}
	if why := a.podsReason(); why != "" {
		outcome = status.Outcome{Reason: why, Message: reason.Of(why).WithStep(outcome.Message)}
	}
	return outcome
}

// podsReason returns the reason of a version that waits for pods with a problem; empty if it does not.
func (a attempt) podsReason() (why reason.Reason) {
	for o := range a.result.Objects() {
		switch {
		case o.Crashes:
			return reason.PodsCrash
		case o.Cause != "":
			why = reason.PodsNotReady
		}
	}
	return why
}

// collisions lists the objects that belong to another owner; empty if there are none. After
// an error it leaves out objects that may be adopted: the error may be transient and have
// prevented their adoption.
func (a attempt) collisions() string {
	var found []collision.Object
	for _, o := range a.result.Collisions() {
		if a.err == nil || !adoption.Possible(o, a.former) {
			found = append(found, o.Collides())
		}
	}
	if found == nil {
		return ""
	}
	return collision.Message(found)
}

// rollout describes the progress of the last incomplete phase, and has the notes about the rollout. CRDs in an earlier phase can wait for its pods.
func (a attempt) rollout() string {
	return strings.Join(append([]string{a.progressOfPhase()}, guard.Notes(a.judged.findings)...), "; ")
}

func (a attempt) progressOfPhase() string {
	for _, phase := range slices.Backward(a.result.Phases) {
		if phase.Complete {
			continue
		}
		waiting := waitingFor(phase)
		verb := "installing"
		if a.scope == maintenance {
			verb = "restoring"
		}
		message := fmt.Sprintf("%s %s: phase %s %d/%d", verb, a.plan.name, phase.Name, len(phase.Objects)-len(waiting), len(phase.Objects))
		if waiting == nil {
			return message
		}
		return message + ", waiting for " + waiting[0] // the phases in the status list all of them
	}
	return "installing " + a.plan.name
}

// waitingFor names the objects of a phase that are not ready: first those whose pods have a problem, with the cause.
func waitingFor(phase engine.Phase) (names []string) {
	var caused []string
	for _, o := range phase.Objects {
		switch {
		case o.Ready:
		case o.Cause != "":
			caused = append(caused, o.String()+": "+o.Cause)
		default:
			names = append(names, o.String())
		}
	}
	return append(caused, names...)
}

// complete reports whether every object of the version exists and is ready.
func (a attempt) complete() bool {
	return a.err == nil && a.judged.blocking() == nil && a.result.Complete() && a.scope != controlledOnly
}

// available reports whether a version that is installed is available; nil if unknown.
func (a attempt) available(current string) *bool {
	if a.err != nil {
		return nil
	}
	return new(a.plan.name == current && a.works)
}

// checkerAbsent reports whether a phase was rejected because the cluster does not serve the
// API that checks the compatibility of unmanaged CRDs.
func checkerAbsent(rejection *engine.Rejection) bool {
	return slices.ContainsFunc(rejection.Objects, func(o engine.RejectedObject) bool {
		return o.GroupKind == probe.CompatibilityRequirement && slices.ContainsFunc(o.Errors, meta.IsNoMatchError)
	})
}

// adoptionEvents logs the objects that a version has adopted from cluster-capi-operator, and
// returns the event about them.
func (a attempt) adoptionEvents(ctx context.Context) []status.Event {
	if len(a.taken) == 0 {
		return nil
	}
	names := union(a.taken, nil)
	log.FromContext(ctx).Info("Adopted objects", "version", a.plan.name, "from", predecessor.Name, "objects", names)
	message := fmt.Sprintf("version %s adopted %d object(s) of %s: %s", a.plan.name, len(names), predecessor.Name, strings.Join(names, ", "))
	return []status.Event{{Reason: status.ObjectsAdopted, Message: message}}
}

// isTransient reports whether one of the causes of a rejection is transient, such as a conflict or
// an unavailable API server.
func isTransient(causes []error) bool { return slices.ContainsFunc(causes, guard.IsTransient) }

// isForbidden reports whether all causes of a rejection are Forbidden. Such a rejection
// can be temporary: roles are replaced during an upgrade, and quota can become
// available.
func isForbidden(causes []error) bool {
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(err error) bool { return !apierrors.IsForbidden(err) })
}

// removalReason returns the reason of a failed removal: the API server can reject a deletion as it can reject another write. An object or
// a kind that is not found was removed at the same time.
func removalReason(err error) reason.Reason {
	causes := engine.Causes(err)
	isOther := func(cause error) bool {
		return !errors.As(cause, new(apierrors.APIStatus)) || apierrors.IsNotFound(cause)
	}
	switch {
	case slices.ContainsFunc(causes, isOther), isTransient(causes):
		return reason.ApplyFailed
	case isForbidden(causes):
		return reason.ObjectsForbidden
	default:
		return reason.ObjectsRefused
	}
}
