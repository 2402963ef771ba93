// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"

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
