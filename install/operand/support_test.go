// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/api/features"
)

// gateOf has the feature gate of each platform that OpenShift supports, by the constants of its API.
var gateOf = map[configv1.PlatformType]configv1.FeatureGateName{
	configv1.AWSPlatformType: features.FeatureGateClusterAPIMachineManagementAWS, configv1.AzurePlatformType: features.FeatureGateClusterAPIMachineManagementAzure,
	configv1.BareMetalPlatformType: features.FeatureGateClusterAPIMachineManagementBareMetal, configv1.GCPPlatformType: features.FeatureGateClusterAPIMachineManagementGCP,
	configv1.OpenStackPlatformType: features.FeatureGateClusterAPIMachineManagementOpenStack, configv1.PowerVSPlatformType: features.FeatureGateClusterAPIMachineManagementPowerVS,
	configv1.VSpherePlatformType: features.FeatureGateClusterAPIMachineManagementVSphere,
}

// TestCheckSupport_EveryPlatform: every value of PlatformType and one of a later release, with each gate of OpenShift.
func TestCheckSupport_EveryPlatform(t *testing.T) {
	for _, platform := range []configv1.PlatformType{
		configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.BareMetalPlatformType, configv1.GCPPlatformType,
		configv1.LibvirtPlatformType, configv1.OpenStackPlatformType, configv1.NonePlatformType, configv1.VSpherePlatformType,
		configv1.OvirtPlatformType, configv1.IBMCloudPlatformType, configv1.KubevirtPlatformType, configv1.EquinixMetalPlatformType,
		configv1.PowerVSPlatformType, configv1.AlibabaCloudPlatformType, configv1.NutanixPlatformType, configv1.ExternalPlatformType, "Future",
	} {
		for _, enabled := range append([]configv1.FeatureGateName{"", features.FeatureGateClusterAPIMachineManagement, features.FeatureGateClusterAPIMachineManagement + "External"}, gateOf[platform]) {
			err := CheckSupport(string(platform), func(gate string) bool { return gate == string(enabled) })
			if supported := enabled != "" && enabled == gateOf[platform]; supported != (err == nil) || err != nil && !errors.As(err, new(*UnsupportedError)) {
				t.Errorf("%s with gate %q: %v", platform, enabled, err)
			}
		}
	}
}
