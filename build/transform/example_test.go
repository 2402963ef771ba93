// SPDX-License-Identifier: Apache-2.0

package transform_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/build/transform"
)

// These are the transforms that generate applies, in order.
func ExampleAll() {
	for _, edit := range transform.All() {
		fmt.Println(edit.Name)
	}
	// Output:
	// drop-namespace-and-secret
	// cert-manager-to-service-ca
	// cert-manager-to-installer-ca
	// namespace
	// webhook-namespace-selector
	// webhook-pre-stop
	// infra-cluster-protection
	// variable-keys
	// workload-annotations
	// required-scc
	// openshift-annotations
	// clusterctl-label
	// priority-class
	// termination-message-policy
	// resource-requests
	// pull-policy
	// image-placeholder
}
