// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"time"
)

// Retry returns the error if it is retryable, else nil.
func (o Outcome) Retry() error {
	if o.severity() == retryable {
		return o.Err
	}
	return nil
}

// recheckInterval is the time between reconciles while no event is expected.
const recheckInterval = 20 * time.Second

// RequeueAfter returns the time until the next reconcile; 0 if an event will cause
// it. No event is expected when an object of another owner, the cause of a rejected
// write, or a missing API changes, or when an image is signed.
func (o Outcome) RequeueAfter() time.Duration {
	switch o.Reason {
	case Collision, ObjectsRefused, CheckerAbsent:
		return recheckInterval
	case ImageUntrusted:
		if !o.Undecided {
			return recheckInterval
		}
		return 0 // the error is retried
	default:
		return o.Recheck
	}
}

// RequeueAfter returns the time until the next reconcile after a report of the outcome; 0 if
// an event will cause it.
func (r Reported) RequeueAfter(outcome Outcome) time.Duration {
	after := outcome.RequeueAfter()
	if r.Postponed == 0 {
		return after
	}
	return min(r.Postponed, cmp.Or(after, r.Postponed))
}
