// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/install/reason"
)

// After an uninstall, the ClusterOperator has no version, and a second report changes nothing.
func TestUninstalled_ClusterOperator(t *testing.T) {
	operator := &configv1.ClusterOperator{}
	operator.Status.Versions = []configv1.OperandVersion{{Name: "operator", Version: "4.22.0"}}
	operator.Status.Conditions = []configv1.ClusterOperatorStatusCondition{
		{Type: "VersionProgressing", Status: configv1.ConditionTrue, Reason: "RollingOut", LastTransitionTime: metav1.NewTime(start.Add(-time.Hour))},
	}
	related := []configv1.ObjectReference{{Resource: "namespaces", Name: "a"}}
	setUninstalled(operator, Outcome{Reason: reason.Uninstalling, Message: "removing version 4.22.0-1", Installed: new(false), Related: related}, start)
	if len(operator.Status.Versions) != 1 {
		t.Errorf("versions during the uninstall: %v", operator.Status.Versions)
	}
	done := Outcome{Reason: reason.Uninstalled, Message: "nothing is installed", Installed: new(false)}
	setUninstalled(operator, done, start)
	got := map[string]string{}
	for _, condition := range operator.Status.Conditions {
		got[string(condition.Type)] = string(condition.Status) + " " + condition.Reason
	}
	want := map[string]string{
		"VersionProgressing": "False Uninstalled", "VersionDegraded": "False AsExpected", "InstallerProgressing": "False Uninstalled", "InstallerDegraded": "False AsExpected",
		"Available": "False Uninstalled", "Progressing": "False AsExpected", "Degraded": "False AsExpected", "Upgradeable": "True AsExpected",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if len(operator.Status.Versions) != 0 || !cmp.Equal(related, operator.Status.RelatedObjects) {
		t.Errorf("after the uninstall, versions are %v and related objects %v", operator.Status.Versions, operator.Status.RelatedObjects)
	}
	before := operator.DeepCopy()
	setUninstalled(operator, done, start.Add(time.Hour))
	if diff := cmp.Diff(before, operator); diff != "" {
		t.Errorf("the second report changes the ClusterOperator (-first +second):\n%s", diff)
	}
}
