// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// The limit counts from the last progress. The API records it, so another process does not extend the
// limit.
func TestLimitUninstall(t *testing.T) {
	deleted := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.NewTime(deleted))}}
	progressed := cluster.DeepCopy()
	progressed.Status.Versions = []v1alpha1.Version{{Phases: []v1alpha1.Phase{{Since: metav1.NewTime(deleted.Add(-time.Hour))}, {Since: metav1.NewTime(deleted.Add(4 * time.Minute))}}}}
	for name, test := range map[string]struct {
		cluster *v1alpha1.ClusterAPI
		timeout time.Duration
		after   time.Duration // since the deletion
		recheck time.Duration
		want    reason.Reason
	}{
		"before the limit":        {cluster, 0, 4 * time.Minute, time.Minute, reason.Uninstalling},
		"at the limit":            {cluster, 0, 5 * time.Minute, 0, reason.UninstallBlocked},
		"after a later progress":  {progressed, 0, 5 * time.Minute, 4 * time.Minute, reason.Uninstalling},
		"without progress":        {progressed, 0, 9 * time.Minute, 0, reason.UninstallBlocked},
		"with a shorter timeout":  {cluster, time.Minute, time.Minute, 0, reason.UninstallBlocked},
		"with a longer timeout":   {cluster, time.Hour, 5 * time.Minute, 0, reason.UninstallBlocked},
		"the object is gone":      {&v1alpha1.ClusterAPI{}, 0, time.Hour, 0, reason.Uninstalling},
		"the clock has gone back": {cluster, 0, -time.Minute, 6 * time.Minute, reason.Uninstalling},
	} {
		outcome := status.Outcome{Reason: reason.Uninstalling, Message: "waiting for ConfigMap x"}
		outcome = limitUninstall(outcome, test.cluster, deleted.Add(test.after), test.timeout)
		if outcome.Reason != test.want || outcome.Recheck != test.recheck || !strings.Contains(outcome.Message, "waiting for ConfigMap x") {
			t.Errorf("%s: got %s, %q, next in %s; want %s in %s", name, outcome.Reason, outcome.Message, outcome.Recheck, test.want, test.recheck)
		}
	}
}
