// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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

// The report that follows would take back a status that was written after the read.
func TestHold_OfTheObjectAsRead(t *testing.T) {
	read := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	read.Status.Versions = []v1alpha1.Version{{Name: "4.22.0-1"}}
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(read).WithStatusSubresource(read).Build()
	r := &Reconciler{Client: live, Live: live}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(read), read); err != nil {
		t.Fatal(err)
	}
	changed := read.DeepCopy()
	changed.Status.DesiredVersion = "4.22.0-2"
	if err := live.Status().Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := r.hold(t.Context(), read); !apierrors.IsConflict(err) || len(read.Finalizers) > 0 {
		t.Errorf("finalizers %v: %v, want a conflict", read.Finalizers, err)
	}
	if err := r.hold(t.Context(), changed); err != nil || len(changed.Finalizers) != 1 {
		t.Errorf("finalizers %v: %v", changed.Finalizers, err)
	}
	if err := live.Status().Update(t.Context(), changed); err != nil {
		t.Errorf("the status cannot be written after the finalizer: %v", err)
	}
}
