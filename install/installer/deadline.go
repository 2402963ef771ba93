// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// defaultProgressTimeout is how long a rollout may make no progress. The alert
// CAPIInstallerRolloutStuck uses the same time.
const defaultProgressTimeout = 30 * time.Minute

// deadlineOf returns the deadline for progress of a version's rollout: one period after
// the last state change of a phase, or after the installer started to progress,
// whichever is later. Both times are in the status. So a restart does not extend the
// deadline, and the time while the installer was paused does not count.
func deadlineOf(version v1alpha1.Version, conditions []metav1.Condition, now time.Time, period time.Duration) time.Time {
	last := startOfProgress(conditions, now)
	if len(version.Phases) == 0 {
		last = now
	}
	for _, phase := range version.Phases {
		if phase.Since.After(last) {
			last = phase.Since.Time
		}
	}
	return last.Add(period)
}

// isLate reports whether a deadline has passed; a zero deadline never does.
func isLate(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

// startOfProgress returns the time when the installer started to progress: now if it
// has not started, the zero time if it stopped because of the deadline.
func startOfProgress(conditions []metav1.Condition, now time.Time) time.Time {
	progressing := meta.FindStatusCondition(conditions, string(status.Installer)+status.Progressing)
	switch {
	case progressing == nil:
		return now
	case progressing.Status == metav1.ConditionTrue:
		return progressing.LastTransitionTime.Time
	case progressing.Reason == string(reason.ProgressDeadlineExceeded):
		return time.Time{}
	default:
		return now
	}
}
