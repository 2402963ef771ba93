// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// The minimum time between two writes that only report progress: progressInterval, or progressShare times as long as
// the last write took, because the API server needs longer for the status of a large release; at most progressLimit.
const (
	progressInterval = time.Second
	progressShare    = 20
	progressLimit    = 10 * time.Second
)

// postponement returns the time until a change of the status may be written; 0 if it may be
// written now.
func (r *Reporter) postponement(before, after *v1alpha1.ClusterAPI) time.Duration {
	if !equality.Semantic.DeepEqual(withoutProgress(before), withoutProgress(after)) {
		return 0
	}
	interval := min(max(progressInterval, progressShare*r.took), progressLimit)
	return max(0, min(interval, interval-r.now().Sub(r.written)))
}

// withoutProgress returns the status without the fields that change during a rollout that
// makes progress: messages, and the phases. It keeps the phases that are
// blocked, and one of each version that has any.
func withoutProgress(cluster *v1alpha1.ClusterAPI) *v1alpha1.ClusterAPIStatus {
	status := cluster.Status.DeepCopy()
	for i := range status.Versions {
		phases := status.Versions[i].Phases
		some := make([]v1alpha1.Phase, min(1, len(phases)))
		blocked := slices.DeleteFunc(phases, func(p v1alpha1.Phase) bool { return p.State != v1alpha1.PhaseBlocked })
		status.Versions[i].Phases = slices.Concat(some, blocked)
	}
	status.Message = ""
	for i := range status.Conditions {
		status.Conditions[i].Message = ""
	}
	return status
}
