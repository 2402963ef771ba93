// SPDX-License-Identifier: Apache-2.0

package status

import "time"

// Retry returns the error if it is retryable, else nil.
func (o Outcome) Retry() error {
	if o.severity() == retryable {
		return o.Err
	}
	return nil
}

// recheckInterval is the time between reconciles while no event announces a change.
const recheckInterval = 20 * time.Second

// RequeueAfter returns the time until the next reconcile, 0 if an event causes it.
// No event is expected for an object of another owner, for the cause of a rejected
// write, for a missing API, and for a new signature of an image.
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
