// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// The result names the reason why a phase is not complete yet.
func ExampleProgress() {
	objects, err := yamldoc.Objects([]byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, generation: 2}
spec: {replicas: 2}
status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}
`))
	if err != nil {
		panic(err)
	}
	result := probe.Progress().Probe(objects[0])
	fmt.Println(result.Status, result.Messages)
	// Output: False [2 of 2 replicas updated, 1 available, 0 old]
}
