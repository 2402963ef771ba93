// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// setGate enables or disables a feature gate in a release. The object is deleted at the end of the test.
func (h *harness) setGate(release string, name configv1.FeatureGateName, enabled bool) {
	h.Helper()
	gates := &configv1.FeatureGate{}
	gates.Name = "cluster"
	if h.Get(context.Background(), key(gates), gates) != nil {
		h.must(h.Create(context.Background(), gates))
		h.Cleanup(func() { h.must(client.IgnoreNotFound(h.Delete(context.Background(), gates))) })
	}
	details := configv1.FeatureGateDetails{Version: release, Enabled: []configv1.FeatureGateAttributes{{Name: name}}}
	if !enabled {
		details.Enabled, details.Disabled = nil, details.Enabled
	}
	gates.Status.FeatureGates = []configv1.FeatureGateDetails{details}
	h.must(h.Status().Update(context.Background(), gates))
}

// availableFor waits until the ClusterOperator is available for a reason, is neither degraded nor progressing, and has the version of the release.
func (h *harness) availableFor(reason, release string) {
	h.Helper()
	h.eventually("the ClusterOperator is available for reason "+reason, func() error {
		operator := &configv1.ClusterOperator{}
		if err := h.Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator); err != nil {
			return err
		}
		got := map[configv1.ClusterStatusConditionType]string{}
		for _, condition := range operator.Status.Conditions {
			got[condition.Type] = string(condition.Status) + " " + condition.Reason
		}
		if got["Available"] != "True "+reason || got["Degraded"] != "False AsExpected" || got["Progressing"] != "False AsExpected" || got["Upgradeable"] != "True AsExpected" {
			return fmt.Errorf("conditions: %v", operator.Status.Conditions)
		}
		if len(operator.Status.Versions) == 0 || operator.Status.Versions[0] != (configv1.OperandVersion{Name: "operator", Version: release}) {
			return fmt.Errorf("versions: %v", operator.Status.Versions)
		}
		return nil
	})
}

func TestPlatform_Unsupported(t *testing.T) {
	h := newHarness(t)
	h.release(core(), aws())
	h.must(h.SetPlatform(t.Context(), configv1.ExternalPlatformType))
	h.start("4.22.0")
	h.availableFor("UnsupportedPlatform", "4.22.0")
	h.reports("InstallerProgressing", "UnsupportedPlatform")
	h.expectQuiet(func() { h.reconcileTimes(3) })

	const gate = "ClusterAPIMachineManagementAWS"
	h.setGate("4.22.0", gate, false)
	h.must(h.SetPlatform(t.Context(), configv1.AWSPlatformType))
	h.reports("VersionProgressing", "UnsupportedPlatform", "platform AWS: feature gate "+gate+" is not enabled")
	if names := h.names(); len(names) > 0 {
		t.Errorf("installed on an unsupported platform: %v", names)
	}
	h.setGate("4.22.0", gate, true)
	h.settled("4.22.0-1")
	h.availableFor("AsExpected", "4.22.0")

	installed := h.installed()
	h.setGate("4.22.0", gate, false)
	h.reports("VersionProgressing", "UnsupportedPlatform", "version 4.22.0-1 stays installed")
	h.availableFor("AsExpected", "4.22.0")
	if left := h.installed(); len(left) != len(installed) {
		t.Errorf("%d objects are installed, want %d", len(left), len(installed))
	}
	h.must(h.SetPlatform(t.Context(), configv1.GCPPlatformType))
	h.reports("VersionProgressing", "UnsupportedPlatform", "feature gate ClusterAPIMachineManagementGCP is not enabled")
	h.setGate("4.22.0", "ClusterAPIMachineManagementGCP", true)
	h.reports("VersionDegraded", "ComponentMissing", `type infrastructure found for platform "GCP"`)
	h.setGate("4.23.0", gate, true)
	h.reports("VersionProgressing", "PlatformUnknown", "FeatureGate cluster does not list the feature gates of release 4.22.0")
}
