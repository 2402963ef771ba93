// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/install/reason"
)

// progressMessage returns the message of Progressing. It refers to Degraded for errors.
func progressMessage(controller Controller, outcome Outcome) string {
	entry := reason.Of(outcome.Reason)
	switch severity := outcome.severity(); {
	case severity == reason.Retryable, severity == reason.Terminal && entry.Recheck > 0:
		return "retrying; see " + string(controller) + Degraded
	case severity == reason.Terminal:
		return "stopped; see " + string(controller) + Degraded
	default:
		return cmp.Or(outcome.text(), entry.Message)
	}
}

// degradedMessage returns the cause and the next step.
func degradedMessage(outcome Outcome) string {
	if outcome.severity() < reason.Retryable {
		return ""
	}
	return reason.Of(outcome.Reason).WithStep(outcome.text())
}

// gravestMessage returns the message of the condition that needs most attention; empty if none does.
func gravestMessage(conditions []metav1.Condition) string {
	for _, grave := range []struct {
		kind   string
		status metav1.ConditionStatus
	}{
		{Degraded, metav1.ConditionTrue},
		{string(Version) + Degraded, metav1.ConditionUnknown}, {string(Installer) + Degraded, metav1.ConditionUnknown}, // an error that is retried
		{Available, metav1.ConditionFalse}, {Progressing, metav1.ConditionTrue}, {Upgradeable, metav1.ConditionFalse},
	} {
		if found := meta.FindStatusCondition(conditions, grave.kind); found != nil && found.Status == grave.status && found.Message != "" {
			return found.Message
		}
	}
	return ""
}
