// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"errors"
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/api/features"

	"github.com/capi-installer/capi-installer/extractor"
)

// gateOf has the feature gate of each platform that OpenShift supports, by the constants of its API.
var gateOf = map[configv1.PlatformType]configv1.FeatureGateName{
	configv1.AWSPlatformType: features.FeatureGateClusterAPIMachineManagementAWS, configv1.AzurePlatformType: features.FeatureGateClusterAPIMachineManagementAzure,
	configv1.BareMetalPlatformType: features.FeatureGateClusterAPIMachineManagementBareMetal, configv1.GCPPlatformType: features.FeatureGateClusterAPIMachineManagementGCP,
	configv1.OpenStackPlatformType: features.FeatureGateClusterAPIMachineManagementOpenStack, configv1.PowerVSPlatformType: features.FeatureGateClusterAPIMachineManagementPowerVS,
	configv1.VSpherePlatformType: features.FeatureGateClusterAPIMachineManagementVSphere,
}

// allPlatforms are the values of PlatformType, and one of a later release.
var allPlatforms = []configv1.PlatformType{
	configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.BareMetalPlatformType, configv1.GCPPlatformType,
	configv1.LibvirtPlatformType, configv1.OpenStackPlatformType, configv1.NonePlatformType, configv1.VSpherePlatformType,
	configv1.OvirtPlatformType, configv1.IBMCloudPlatformType, configv1.KubevirtPlatformType, configv1.EquinixMetalPlatformType,
	configv1.PowerVSPlatformType, configv1.AlibabaCloudPlatformType, configv1.NutanixPlatformType, configv1.ExternalPlatformType, "Future",
}

// TestSupport_EveryPlatform: each platform, with and without its provider in the release, and with its gate enabled, disabled and unknown.
func TestSupport_EveryPlatform(t *testing.T) {
	core := image("capi", bundle(extractor.Core, "cluster-api", ""))
	for _, platform := range allPlatforms {
		for _, listed := range []bool{true, false} {
			for _, gate := range []string{"enabled", "disabled", "unknown"} {
				t.Run(fmt.Sprintf("%s, in the list %t, gate %s", platform, listed, gate), func(t *testing.T) {
					results := []extractor.Result{core, image("other", bundle(extractor.Infrastructure, "other", "Other"), bundle("", "operator", string(platform)))}
					if listed {
						results = append(results, image("own", bundle(extractor.Infrastructure, "own", string(platform))))
					}
					gates := FeatureGates{}
					name, gated := gateOf[platform]
					if gated && gate != "unknown" {
						gates[string(name)] = gate == "enabled"
					}
					want := "installed"
					switch {
					case gated && gate == "disabled", !gated && !listed:
						want = "unsupported"
					case gated && !listed:
						want = "missing"
					}
					if got := support(string(platform), gates, results); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				})
			}
		}
	}
}

// support describes the decision about a platform.
func support(platform string, gates FeatureGates, results []extractor.Result) string {
	if err := errors.Join(CheckGates(platform, gates), CheckProvider(platform, results)); err != nil {
		if errors.As(err, new(*UnsupportedError)) {
			return "unsupported"
		}
		return err.Error()
	}
	_, err := Select(Platforms{platform}, results)
	switch {
	case errors.As(err, new(*MissingError)):
		return "missing"
	case err != nil:
		return err.Error()
	}
	return "installed"
}

func TestSupport_EveryGateOfOpenShift(t *testing.T) {
	for platform := range gatedPlatforms {
		if gateOf[configv1.PlatformType(platform)] != configv1.FeatureGateName(machineManagement+platform) {
			t.Errorf("%s has gate %s", platform, gateOf[configv1.PlatformType(platform)])
		}
	}
	if len(gatedPlatforms) != len(gateOf) || machineManagement != features.FeatureGateClusterAPIMachineManagement {
		t.Errorf("%d gates, want %d; %s, want %s", len(gatedPlatforms), len(gateOf), machineManagement, features.FeatureGateClusterAPIMachineManagement)
	}
	if err := CheckGates("External", FeatureGates{machineManagement: false}); err == nil {
		t.Error("Cluster API itself is disabled, and a platform is supported")
	}
}

// A provider in an image that cannot be read could be for the platform.
func TestSupport_UnreadImage(t *testing.T) {
	if err := CheckProvider("External", []extractor.Result{broken(image("capi"))}); err != nil {
		t.Error(err)
	}
	if err := CheckProvider("External", []extractor.Result{broken(image("azure", bundle(extractor.Infrastructure, "azure", "Azure")))}); err == nil {
		t.Error("the image is known to be for another platform, and the platform is supported")
	}
}
