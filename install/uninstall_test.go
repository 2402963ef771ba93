// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	h := newInstallation(t, core(), aws(configMap("last", ""), crd("machines", "Machine")))
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
	if related := fmt.Sprint(operator.Status.RelatedObjects); !strings.Contains(related, machines) || strings.Contains(related, "{capi-operator.openshift.io clusterapis") {
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

// reconcileAgain creates a ConfigMap to trigger a reconcile, and waits for its end.
func (h *harness) reconcileAgain() {
	h.Helper()
	before := h.reconciles()
	trigger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, GenerateName: "trigger-"}}
	h.must(h.Create(h.Context(), trigger))
	h.must(h.Delete(h.Context(), trigger))
	h.eventually("the installer has reconciled", func() error {
		if h.reconciles() < before+1 {
			return fmt.Errorf("no reconcile")
		}
		return nil
	})
}

// The deleted ClusterAPI object exists until everything is removed. It names an object that blocks the uninstall, as
// an event and the ClusterOperator do.
func TestUninstall_NamesTheBlocker(t *testing.T) {
	h := newHarness(t)
	h.progressTimeout = 2 * time.Second
	h.installRelease(core(), aws(configMap("last", "")))
	remove := h.addFinalizer("v1/ConfigMap", namespace, "last")
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.reports("InstallerDegraded", "UninstallBlocked", "ConfigMap openshift-cluster-api/last", "test.example.com/hold")
	h.logged("InstallerDegraded is True (UninstallBlocked)", "ConfigMap openshift-cluster-api/last")
	h.operatorReports(configv1.ConditionFalse, configv1.ConditionFalse, configv1.ConditionTrue, "UninstallBlocked", "test.example.com/hold")
	remove()
	h.clusterAPIGone()
}

// clusterAPIGone waits until the ClusterAPI object is gone, and expects that it was the last object.
func (h *harness) clusterAPIGone() {
	h.Helper()
	h.disappears(clusterAPIKind, "", v1alpha1.ClusterAPIName)
	h.must(h.remaining())
}

// A missing permission is reported at once, on the object that was deleted.
func TestUninstall_NamesAMissingPermission(t *testing.T) {
	h := newInstallation(t, core(), aws(configMap("last", "")))
	forbid := func(request *http.Request) *http.Response {
		if request.Method != http.MethodDelete || !strings.HasSuffix(request.URL.Path, "/configmaps/last") {
			return nil
		}
		return failure(request, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "last", errors.New("no rule")))
	}
	h.onRequest.Store(&forbid)
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.reports("InstallerDegraded", "UninstallBlocked", "ConfigMap openshift-cluster-api/last", "grant the permission to service account cluster-api-installer")
	h.onRequest.Store(nil)
	h.clusterAPIGone()
}

// A paused installer removes nothing, and states how to continue.
func TestUninstall_WaitsWhilePaused(t *testing.T) {
	h := newInstallation(t, core(), aws())
	before := h.installed()
	h.mode(v1alpha1.Paused)
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.reports("InstallerDegraded", "UninstallBlocked", "set spec.installerMode to Managed")
	h.unchangedSince(before)
	h.mode(v1alpha1.Managed)
	h.clusterAPIGone()
}

// An administrator who deletes the ClusterAPI object with --cascade=orphan keeps the installed objects.
func TestUninstall_CascadeOrphan(t *testing.T) {
	h := newInstallation(t, core(), aws())
	before := h.installed()
	h.must(h.Delete(t.Context(), h.clusterAPI(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	h.disappears(clusterAPIKind, "", v1alpha1.ClusterAPIName)
	h.unchangedSince(before)
	h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1"))) // the administrator deletes the version
	h.eventually("all objects are removed", h.remaining)
}

// No object of any provider is removed while one of their managers runs.
func TestUninstall_StopsAllManagersFirst(t *testing.T) {
	h := newInstallation(t, core(shared...), aws(configMap("last", "")))
	others := slices.DeleteFunc(h.names(), func(name string) bool { return strings.HasPrefix(name, "Deployment ") })
	remove := h.holdPod("capi")
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.reports("InstallerProgressing", "Uninstalling", "waiting for the pods of Deployment openshift-cluster-api/capi")
	if diff := cmp.Diff(others, h.names()); diff != "" {
		t.Errorf("objects while the pod of core runs (-want +got):\n%s", diff)
	}
	remove()
	h.eventually("all objects are removed", h.remaining)
}

// An upgrade removes objects in the same order.
func TestTeardown_StopsTheManagerFirst(t *testing.T) {
	h := newInstallation(t, core(deployment("dropped", placeholder), configMap("dropped", "")), aws())
	remove := h.holdPod("dropped")
	h.release(core(), aws())
	h.reports("InstallerProgressing", "TearingDown", "waiting for the pods of Deployment openshift-cluster-api/dropped")
	if diff := cmp.Diff([]string{"ConfigMap dropped", "Deployment capa", "Deployment capi"}, h.names()); diff != "" {
		t.Errorf("objects while the pod runs (-want +got):\n%s", diff)
	}
	remove()
	h.settled("4.22.0-2")
	if diff := cmp.Diff([]string{"Deployment capa", "Deployment capi"}, h.names()); diff != "" {
		t.Errorf("objects at the end (-want +got):\n%s", diff)
	}
}

// holdPod adds a finalizer to the pod of a Deployment; the returned function removes it.
func (h *harness) holdPod(of string) (remove func()) {
	h.Helper()
	var name string
	h.eventually("the Deployment has a pod", func() error {
		pods := &corev1.PodList{}
		h.must(h.List(context.Background(), pods, client.InNamespace(namespace), client.MatchingLabels{"app": of}))
		if len(pods.Items) != 1 {
			return fmt.Errorf("%d pods", len(pods.Items))
		}
		name = pods.Items[0].Name
		return nil
	})
	return h.addFinalizer("v1/Pod", namespace, name)
}
