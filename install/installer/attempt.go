// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// attempt is the result of reconciling one version once.
type attempt struct {
	plan  plan
	scope scope
	// late is set when the rollout has made no progress until its deadline.
	late bool
	// applied is set if result is known.
	applied bool
	result  engine.Result
	// judged is the result of the preflight.
	judged judgement
	// immutable are the rejected objects that the administrator deletes, so that the version continues, and moved those that the installer
	// deletes, because the version has them in another namespace.
	immutable, moved sets.Set[object.Identity]
	// verdicts are those on unmanaged CRDs.
	verdicts []compatibility.Verdict
	// former are the CRDs that are no longer unmanaged, and refused those that are not
	// adopted, each with the reason.
	former  adoption.Candidates
	refused []string
	// works is set if every object is available.
	works bool
	// contested is the message about objects of the version that another actor keeps changing.
	contested string
	// next is the time until replaced values are written again; 0 without such values.
	next time.Duration
	// replaced is the event about values that admission plugins replace.
	replaced []status.Event
	// taken describes the objects of cluster-capi-operator that were adopted.
	taken []string
	// err is the first error that ended the attempt, or the errors of all objects.
	err error
}

// deletions returns the objects that the attempt has found to be deleted for its version.
func (a attempt) deletions() sets.Set[object.Identity] {
	out := a.immutable.Union(a.moved)
	for _, finding := range a.judged.findings {
		if finding.Deletes != (object.Identity{}) {
			out.Insert(finding.Deletes)
		}
	}
	return out
}

// scope is the part of a version that a reconcile covers.
type scope int

const (
	// rollout applies the phases in order, each when the previous one is ready.
	rollout scope = iota
	// maintenance applies all phases. They were complete before, and an object that
	// becomes unready must not block later phases.
	maintenance
	// controlledOnly applies the objects that the version still controls, and no others.
	controlledOnly
)

// scopeOf returns the scope for a version. The current version is maintained. A
// version that was superseded before it was complete is not rolled out further,
// but the objects that it controls are reconciled until a newer version adopts them.
func scopeOf(name string, status v1alpha1.ClusterAPIStatus) scope {
	switch name {
	case status.CurrentVersion:
		return maintenance
	case status.DesiredVersion:
		return rollout
	default:
		return controlledOnly
	}
}

// reverts reports whether an action reverts a change of another actor. Only the current version was complete before; others also
// create and update objects, but need not take a field back.
func (s scope) reverts(action engine.Action) bool {
	if s == maintenance {
		return externalChange(action) != ""
	}
	return action == engine.Recovered
}

// externalChange describes the change that an action reverts; empty if there is none.
func externalChange(action engine.Action) string {
	switch action {
	case engine.Created:
		return "deleted"
	case engine.Updated, engine.Recovered:
		return "modified"
	default:
		return ""
	}
}

// defaultProgressTimeout is how long a rollout may make no progress. The alert
// CAPIInstallerRolloutStuck uses the same time.
const defaultProgressTimeout = 30 * time.Minute

// deadlineOf returns the deadline for progress of a version's rollout: one period after
// the last state change of a phase, or after the installer started to progress,
// whichever is later. Both times are in the status. So a restart does not extend the
// deadline, and the time while the installer was paused does not count.
func deadlineOf(version v1alpha1.Version, conditions []metav1.Condition, now time.Time, period time.Duration) time.Time {
	last := startOfProgress(conditions, now)
	if len(version.Phases) == 0 {
		last = now
	}
	for _, phase := range version.Phases {
		if phase.Since.After(last) {
			last = phase.Since.Time
		}
	}
	return last.Add(period)
}

// isLate reports whether a deadline has passed; a zero deadline never does.
func isLate(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

// startOfProgress returns the time when the installer started to progress: now if it
// has not started, the zero time if it stopped because of the deadline.
func startOfProgress(conditions []metav1.Condition, now time.Time) time.Time {
	progressing := meta.FindStatusCondition(conditions, string(status.Installer)+status.Progressing)
	switch {
	case progressing == nil:
		return now
	case progressing.Status == metav1.ConditionTrue:
		return progressing.LastTransitionTime.Time
	case progressing.Reason == string(reason.ProgressDeadlineExceeded):
		return time.Time{}
	default:
		return now
	}
}
