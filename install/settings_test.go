// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// setComponents replaces the settings of the components.
func (h *harness) setComponents(settings ...v1alpha1.ComponentSettings) {
	h.Helper()
	h.eventually("the settings can be written", func() error {
		cluster := h.clusterAPI()
		cluster.Spec.Components = settings
		return h.Update(h.Context(), cluster)
	})
}

// A setting makes a new version that only changes its component, and a wrong one changes nothing.
func TestSettings_RolledOutAndReverted(t *testing.T) {
	h := newHarness(t)
	gated := strings.Replace(deployment("gated", placeholder), "image: ", "args: [\"--feature-gates=MachinePool=false\"]\n        image: ", 1)
	h.release(core(gated), aws(configMap("settings", "${REGION:=eu}")))
	h.start("4.22.0")
	h.settled("4.22.0-1")
	before := h.installed()

	h.setComponents(v1alpha1.ComponentSettings{Name: "cluster-api-provider-azure"},
		v1alpha1.ComponentSettings{Name: "cluster-api", FeatureGates: []v1alpha1.FeatureGate{{Name: "MachinePol", Enabled: true}}})
	h.reports("VersionDegraded", "SettingsInvalid", `spec.components[0].name: Unsupported value: "cluster-api-provider-azure"`, `spec.components[1].featureGates[0].name`, `supported values: "MachinePool"`)
	h.unchangedSince(before)

	h.setComponents(
		v1alpha1.ComponentSettings{Name: "cluster-api", FeatureGates: []v1alpha1.FeatureGate{{Name: "MachinePool", Enabled: true}}},
		v1alpha1.ComponentSettings{Name: "cluster-api-provider-aws", Variables: []v1alpha1.Variable{{Name: "REGION", Value: "us"}}, Deployment: &v1alpha1.DeploymentSettings{Replicas: new(int32(2))}},
	)
	h.settled("4.22.0-2")
	h.eventually("the settings are installed", func() error {
		containers := object.Containers(h.object("apps/v1/Deployment", namespace, "gated"))
		replicas, _, _ := unstructured.NestedInt64(h.object("apps/v1/Deployment", namespace, "capa").Object, "spec", "replicas")
		region, _, _ := unstructured.NestedString(h.object("v1/ConfigMap", namespace, "settings").Object, "data", "value")
		if got := fmt.Sprintf("%v, %d, %s", containers[0]["args"], replicas, region); got != "[--feature-gates=MachinePool=true], 2, us" {
			return fmt.Errorf("installed: %s", got)
		}
		return nil
	})
	components := h.clusterAPI().Status.Version("4.22.0-2").Components
	if !slices.Equal(components[0].Settings, []string{"featureGates[MachinePool]"}) || !slices.Equal(components[1].Settings, []string{"variables[REGION]", "deployment.replicas"}) {
		t.Errorf("settings in the status: %q, %q", components[0].Settings, components[1].Settings)
	}

	h.setComponents()
	h.settled("4.22.0-3")
	after := h.installed()
	if len(after) != len(before) {
		t.Errorf("installed: %v", h.names())
	}
}
