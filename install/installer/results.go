// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"iter"

	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectResults returns the results of all objects of all phases.
func objectResults(result machinery.RevisionResult) iter.Seq[machinery.ObjectResult] {
	return func(yield func(machinery.ObjectResult) bool) {
		for _, phase := range result.GetPhases() {
			for _, object := range phase.GetObjects() {
				if !yield(object) {
					return
				}
			}
		}
	}
}

// collisions returns the objects that exist and belong to another owner, as they
// are in the cluster.
func collisions(result machinery.RevisionResult) iter.Seq[client.Object] {
	return func(yield func(client.Object) bool) {
		for object := range objectResults(result) {
			if object.Action() == machinery.ActionCollision && !yield(object.Object()) {
				return
			}
		}
	}
}
