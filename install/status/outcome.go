// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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
	// Change modifies the status in the write of the report; nil for no change. It may be called more than once, each time with the latest
	// status, and must not depend on an earlier call.
	Change func(*v1alpha1.ClusterAPIStatus)
	// predecessor is the revision that cluster-capi-operator has completely installed, if nothing was reported yet.
	predecessor string
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

// Complete reports whether a version is installed: nothing is left to do for the controller.
func (o Outcome) Complete() bool {
	return o.Reason == reason.AsExpected || o.Reason == reason.UnknownEntries
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

// Retry returns the error if it is retryable, else nil.
func (o Outcome) Retry() error {
	if o.severity() == reason.Retryable {
		return o.Err
	}
	return nil
}

// RequeueAfter returns the time until the next reconcile; 0 if an event, or the retry of
// the error, will cause it.
func (o Outcome) RequeueAfter() time.Duration {
	if recheck := reason.Of(o.Reason).Recheck; recheck > 0 && !o.Undecided {
		o.RecheckWithin(recheck)
	}
	return o.Recheck
}

// Result returns the result of a reconcile whose outcome was reported: a retryable error,
// or else the time until the next reconcile; 0 if an event will cause it.
func (r Reported) Result(outcome Outcome) (reconcile.Result, error) {
	if err := outcome.Retry(); err != nil {
		return reconcile.Result{}, err
	}
	after := outcome.RequeueAfter()
	if r.Postponed > 0 {
		after = min(r.Postponed, cmp.Or(after, r.Postponed))
	}
	return reconcile.Result{RequeueAfter: after}, nil
}
