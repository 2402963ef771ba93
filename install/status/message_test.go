// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGravestMessage_OrderOfConditions(t *testing.T) {
	conditions := []metav1.Condition{
		{Type: Upgradeable, Status: metav1.ConditionFalse, Message: "overridden"}, {Type: Progressing, Status: metav1.ConditionTrue, Message: "phase 1"},
		{Type: Available, Status: metav1.ConditionFalse, Message: "not installed"}, {Type: string(Installer) + Degraded, Status: metav1.ConditionUnknown, Message: "timed out"},
		{Type: Degraded, Status: metav1.ConditionTrue, Message: "collision"},
	}
	for count, want := range []string{"", "overridden", "phase 1", "not installed", "timed out", "collision"} {
		if got := gravestMessage(conditions[:count]); got != want {
			t.Errorf("of %d conditions: got %q, want %q", count, got, want)
		}
	}
	atRest := []metav1.Condition{{Type: Degraded, Status: metav1.ConditionFalse, Message: "a"}, {Type: Available, Status: metav1.ConditionTrue, Message: "Cluster API is installed"}}
	if got := gravestMessage(atRest); got != "" {
		t.Errorf("at rest: %q", got)
	}
}
