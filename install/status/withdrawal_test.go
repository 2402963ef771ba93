// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

// A user who goes back from a release that is stopped waits for the former one: the failure is about the other.
func TestWithdrawFailure(t *testing.T) {
	for name, test := range map[string]struct {
		degraded metav1.ConditionStatus
		desired  string
		want     reason.Reason // of InstallerProgressing
		phase    v1alpha1.PhaseState
	}{
		"a failed version":         {metav1.ConditionTrue, "1.0.0-1", reason.RollingOut, v1alpha1.PhaseProgressing},
		"a version in progress":    {metav1.ConditionFalse, "1.0.0-1", reason.Collision, v1alpha1.PhaseBlocked},
		"no other desired version": {metav1.ConditionTrue, "", reason.Collision, v1alpha1.PhaseBlocked},
	} {
		cluster := &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{
			DesiredVersion: test.desired,
			Versions:       []v1alpha1.Version{{Name: "1.1.0-2", Phases: []v1alpha1.Phase{{State: v1alpha1.PhaseBlocked}, {State: v1alpha1.PhasePending}}}},
			Conditions: []metav1.Condition{
				{Type: "InstallerProgressing", Status: metav1.ConditionFalse, Reason: string(reason.Collision)},
				{Type: "InstallerDegraded", Status: test.degraded, Reason: string(reason.Collision)},
			},
		}}
		withdrawFailure(cluster, start)
		progressing := meta.FindStatusCondition(cluster.Status.Conditions, "InstallerProgressing")
		if progressing.Reason != string(test.want) || meta.IsStatusConditionTrue(cluster.Status.Conditions, "InstallerDegraded") != (test.degraded == metav1.ConditionTrue && test.want == reason.Collision) {
			t.Errorf("%s: conditions %+v, want reason %s", name, cluster.Status.Conditions, test.want)
		}
		if phases := cluster.Status.Versions[0].Phases; phases[0].State != test.phase || phases[1].State != v1alpha1.PhasePending {
			t.Errorf("%s: phases %+v, want %s", name, phases, test.phase)
		}
	}
}
