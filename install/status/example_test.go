// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// A retryable error leaves Degraded Unknown until it has lasted for Inertia.
func ExampleConditions() {
	outcome := status.Outcome{Reason: reason.ImageUnreadable, Err: errors.New("reading image quay.io/x: connection refused")}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first := status.Conditions(status.Version, outcome, nil, 1, start)
	later := status.Conditions(status.Version, outcome, first, 1, start.Add(status.Inertia))
	for _, condition := range append(first, later...) {
		fmt.Println(condition.Type, condition.Status, condition.Reason)
	}
	// Output:
	// VersionProgressing True ImageUnreadable
	// VersionDegraded Unknown ImageUnreadable
	// VersionProgressing True ImageUnreadable
	// VersionDegraded True ImageUnreadable
}

// The reason decides whether an error is retried: a retry cannot repair an invalid
// bundle.
func ExampleOutcome_Retry() {
	err := errors.New("reading image quay.io/x")
	fmt.Println(status.Outcome{Reason: reason.ImageUnreadable, Err: err}.Retry())
	fmt.Println(status.Outcome{Reason: reason.BundleInvalid, Err: err}.Retry())
	// Output:
	// reading image quay.io/x
	// <nil>
}
