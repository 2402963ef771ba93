// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func (h *harness) clusterOperator() *configv1.ClusterOperator {
	h.Helper()
	operator := &configv1.ClusterOperator{}
	h.must(h.Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator))
	return operator
}

// operatorReports waits until the conditions of the ClusterOperator have the given
// statuses, and Available has a reason and a message that contains every part.
func (h *harness) operatorReports(available, progressing, degraded configv1.ConditionStatus, reason string, parts ...string) {
	h.Helper()
	h.eventually(fmt.Sprintf("the ClusterOperator reports %s with %q", reason, parts), func() error {
		found := map[configv1.ClusterStatusConditionType]configv1.ClusterOperatorStatusCondition{}
		for _, condition := range h.clusterOperator().Status.Conditions {
			found[condition.Type] = condition
		}
		a := found[configv1.OperatorAvailable]
		if a.Status != available || found[configv1.OperatorProgressing].Status != progressing || found[configv1.OperatorDegraded].Status != degraded || a.Reason != reason {
			return fmt.Errorf("it reports %v", found)
		}
		for _, part := range parts {
			if !strings.Contains(a.Message, part) {
				return fmt.Errorf("message of Available does not contain %q: %s", part, a.Message)
			}
		}
		return nil
	})
}

func TestUninstall_ReportedOnTheClusterOperator(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) { uninstalled(t, policy) })
	}
}

func uninstalled(t *testing.T, policy metav1.DeletionPropagation) {
	h := newHarness(t)
	h.release(core(), aws(configMap("last", ""), crd("machines", "Machine")))
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.operatorReports(configv1.ConditionTrue, configv1.ConditionFalse, configv1.ConditionFalse, "AsExpected")
	h.machine()
	remove := h.addFinalizer("v1/ConfigMap", namespace, "last")
	h.must(h.Delete(t.Context(), h.clusterAPI(), client.PropagationPolicy(policy)))
	h.operatorReports(configv1.ConditionFalse, configv1.ConditionTrue, configv1.ConditionFalse, "Uninstalling",
		"ConfigMap openshift-cluster-api/last", "test.example.com/hold")
	remove()
	h.operatorReports(configv1.ConditionFalse, configv1.ConditionFalse, configv1.ConditionFalse, "Uninstalled", "nothing is installed", machines)
	operator := h.clusterOperator()
	if len(operator.Status.Versions) != 0 {
		t.Errorf("the ClusterOperator has versions: %v", operator.Status.Versions)
	}
	if related := fmt.Sprint(operator.Status.RelatedObjects); !strings.Contains(related, machines) || strings.Contains(related, "clusterapis") {
		t.Errorf("relatedObjects are %s", related)
	}
	before := operator.ResourceVersion
	for range 2 { // two more processes, each with an event
		h.stop()
		h.start("4.22.0")
		h.reconcileAgain()
	}
	if now := h.clusterOperator(); now.ResourceVersion != before {
		t.Errorf("the ClusterOperator was written again: %+v", now.Status)
	}
	h.reapply()
	h.settled("4.22.0-1")
	h.operatorReports(configv1.ConditionTrue, configv1.ConditionFalse, configv1.ConditionFalse, "AsExpected")
	h.eventually("the ClusterOperator has versions again", func() error {
		if len(h.clusterOperator().Status.Versions) == 0 {
			return fmt.Errorf("no versions")
		}
		return nil
	})
}

// reconcileAgain creates a ConfigMap, which triggers a reconcile, and waits for its end.
func (h *harness) reconcileAgain() {
	h.Helper()
	before := h.reconciles()
	trigger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, GenerateName: "trigger-"}}
	h.must(h.Create(h.Context(), trigger))
	h.must(h.Delete(h.Context(), trigger))
	h.eventually("the installer has reconciled", func() error {
		if h.reconciles() < before+1 {
			return fmt.Errorf("no reconcile")
		}
		return nil
	})
}
