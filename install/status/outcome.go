// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

// Outcome is the result of one reconcile of a controller.
type Outcome struct {
	// Reason is the state of the controller; it determines the conditions.
	Reason reason.Reason
	// Message is the text for users. It takes precedence over the text of Err.
	Message string
	// Err is the error behind the reason, for the log and for backoff.
	Err error
	// Undecided makes the reason ImageUntrusted retryable: the signatures could not be checked.
	Undecided bool
	// Generation is the generation of the ClusterAPI object that the outcome is about; 0 means the present one. The spec can change while a
	// controller works: its conditions must not say that it has seen the change.
	Generation int64
	// Installed reports whether a version is completely installed and available;
	// nil if the controller cannot know.
	Installed *bool
	// ReleaseInstalled is set when the running release is completely installed.
	// Only the version controller can set it: the installed version may belong to
	// the previous release.
	ReleaseInstalled bool
	// Predecessor is the revision that cluster-capi-operator has completely installed, if nothing was reported yet.
	// The Reporter sets it.
	Predecessor string
	// Events are actions of this reconcile that the status does not show, such as
	// reverted drift.
	Events []Event
	// Phases are the phases of versions by name; the reporter adds the times.
	// Versions without an entry keep their phases.
	Phases map[string][]v1alpha1.Phase
	// Recheck is the time until the next reconcile if no event causes one earlier;
	// 0 means no such reconcile.
	Recheck time.Duration
	// Related are the related objects of the ClusterOperator; nil if the
	// controller cannot know them.
	Related []configv1.ObjectReference
}

// observed returns the generation of a ClusterAPI object that the outcome is about.
func (o Outcome) observed(cluster *v1alpha1.ClusterAPI) int64 {
	return min(cluster.Generation, cmp.Or(o.Generation, cluster.Generation))
}

// RecheckWithin causes the next reconcile after at most the given time; 0 sets no limit.
func (o *Outcome) RecheckWithin(limit time.Duration) {
	if limit > 0 && (o.Recheck == 0 || o.Recheck > limit) {
		o.Recheck = limit
	}
}

// text returns the message, or else the text of the error.
func (o Outcome) text() string {
	if o.Message == "" && o.Err != nil {
		return o.Err.Error()
	}
	return o.Message
}

// severity is the effect of the outcome on the conditions.
func (o Outcome) severity() reason.Severity {
	if o.Undecided {
		return reason.Retryable
	}
	return reason.Of(o.Reason).Severity
}

// Gravest returns the outcome with the highest severity; the first of several.
func Gravest(outcomes ...Outcome) Outcome {
	return slices.MaxFunc(outcomes, func(a, b Outcome) int { return cmp.Compare(a.severity(), b.severity()) })
}
