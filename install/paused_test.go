// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/history"
)

// mode sets spec.installerMode.
func (h *harness) mode(mode v1alpha1.InstallerMode) {
	h.Helper()
	h.setSpec(func(spec *v1alpha1.ClusterAPISpec) { spec.InstallerMode = mode })
}

// otherWrites returns the installer's writes except those to its status and events.
func (h *harness) otherWrites() []string {
	return slices.DeleteFunc(h.written(), func(name string) bool {
		return strings.HasSuffix(name, "/status") || strings.HasSuffix(name, "/events") || strings.HasSuffix(name, "/configmaps/"+history.ConfigMapName)
	})
}

func TestPaused_WritesNothingAndListsPendingChanges(t *testing.T) {
	h := newInstallation(t, core(configMap("settings", "1"), configMap("dropped", "1")), aws(configMap("last", "1"), crd("machines", "Machine")))
	h.mode(v1alpha1.Paused)
	h.reports("InstallerProgressing", "Paused", "no drift from version 4.22.0-1")
	h.wrote.Clear()

	h.edit("settings")
	h.must(h.Delete(t.Context(), h.object("apps/v1/Deployment", namespace, "capa")))
	h.must(h.Delete(t.Context(), h.object("v1/ConfigMap", namespace, "last")))
	h.reports("InstallerProgressing", "Paused", "drift from version 4.22.0-1, 3 difference(s)",
		"ConfigMap openshift-cluster-api/settings (modified)", "Deployment openshift-cluster-api/capa (deleted)", "ConfigMap openshift-cluster-api/last (deleted)")
	h.eventually("the missing Deployment is reported", func() error {
		if meta.IsStatusConditionTrue(h.clusterAPI().Status.Conditions, "Available") {
			return fmt.Errorf("Available is True")
		}
		return nil
	})

	h.release(core(configMap("settings", "3"), configMap("added", "1")), aws(configMap("last", "1"), crd("machines", "Machine")))
	h.reports("InstallerProgressing", "Paused", "version 4.22.0-2 is pending and would",
		"change 2: ConfigMap openshift-cluster-api/settings, Deployment openshift-cluster-api/capi", "create 1: ConfigMap openshift-cluster-api/added", "remove 1: ConfigMap openshift-cluster-api/dropped")
	drifted := h.installed()
	if _, there := drifted["Deployment capa"]; there || len(drifted) != 4 {
		t.Errorf("objects installed while paused: %v", h.names())
	}
	want := []string{"POST /api/v1/namespaces/openshift-cluster-api-operator/configmaps"} // of the pending version
	if diff := cmp.Diff(want, h.otherWrites()); diff != "" {
		t.Errorf("requests while paused (-want +got):\n%s", diff)
	}

	h.mode(v1alpha1.Managed)
	h.settled("4.22.0-2")
	if names := strings.Join(h.names(), ", "); names != "ConfigMap added, ConfigMap last, ConfigMap settings, CustomResourceDefinition "+machines+", Deployment capa, Deployment capi" {
		t.Errorf("after Managed, installed objects are %s", names)
	}
}

// Guarantee: a process that ended during a teardown does not keep users from creating instances, even if the installer is
// paused since.
func TestPaused_LiftsTheDeletionGuard(t *testing.T) {
	h := newHarness(t)
	h.mode(v1alpha1.Paused)
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	policy.Name = "openshift-capi-installer-crd-deletion"
	policy.Spec.FailurePolicy = new(admissionv1.Fail)
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
		},
	}}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "false"}}
	h.must(h.Create(t.Context(), policy))
	h.release(core(), aws())
	h.start("4.22.0")
	h.eventually("the policy is gone", func() error {
		if err := h.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the policy: %w", err)
		}
		return nil
	})
}

func TestPaused_ListsTheFirstRelease(t *testing.T) {
	h := newHarness(t)
	h.mode(v1alpha1.Paused)
	h.release(core(), aws())
	h.start("4.22.0")
	h.reports("InstallerProgressing", "Paused", "version 4.22.0-1 is pending and would create 2: Deployment openshift-cluster-api/capi, Deployment openshift-cluster-api/capa")
	if names := h.names(); len(names) > 0 {
		t.Errorf("objects while paused: %v", names)
	}
	h.mode(v1alpha1.Managed)
	h.settled("4.22.0-1")
}

// setSpec changes the spec of the ClusterAPI object.
func (h *harness) setSpec(change func(*v1alpha1.ClusterAPISpec)) {
	h.Helper()
	h.eventually("the spec is written", func() error {
		cluster := h.clusterAPI()
		change(&cluster.Spec)
		return h.Update(h.Context(), cluster)
	})
}
