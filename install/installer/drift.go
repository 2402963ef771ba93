// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"strings"

	"pkg.package-operator.run/boxcutter/machinery"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// driftEvents tells of the objects of a version that was completely installed
// before and that were put right all the same: somebody has edited or deleted
// them. That it was is read from the status, so a restart makes no difference.
func driftEvents(cluster *v1alpha1.ClusterAPI, version string, result machinery.RevisionResult) []status.Event {
	if result == nil || version != cluster.Status.CurrentVersion {
		return nil
	}
	var corrected []string
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			if did := correction(object); did != "" {
				countDrift(object.Object())
				corrected = append(corrected, fmt.Sprintf("%s (%s)", describe(object.Object()), did))
			}
		}
	}
	if corrected == nil {
		return nil
	}
	return []status.Event{{Reason: status.DriftCorrected, Warning: true, Message: "put right, because somebody had changed them: " + strings.Join(corrected, ", ")}}
}

// correction says what was done to an object that was in order before; empty if nothing.
func correction(object machinery.ObjectResult) string {
	if object.IsPaused() {
		return ""
	}
	switch object.Action() {
	case machinery.ActionCreated:
		return "was deleted"
	case machinery.ActionUpdated, machinery.ActionRecovered:
		return "was edited"
	default:
		return ""
	}
}
