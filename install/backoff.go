// SPDX-License-Identifier: Apache-2.0

package install

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newRetries returns the rate limiter of a controller with a single request. The delay of a
// retry starts at a second and doubles with each further error, up to half a minute: the
// installer recovers soon after the cause is gone. The first success ends the delays, and
// so does progress beside an error: the API server may reject one object after the other.
func newRetries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 30*time.Second)
}
