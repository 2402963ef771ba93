// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/install/reason"
)

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
