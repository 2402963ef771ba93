// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"fmt"

	"github.com/capi-installer/capi-installer/extractor"
)

// FeatureGates says of each known feature gate of a cluster whether it is enabled. Other gates do not restrict anything.
type FeatureGates map[string]bool

// machineManagement is the feature gate of Cluster API on OpenShift, and the beginning of the gates of platforms.
const machineManagement = "ClusterAPIMachineManagement"

// gatedPlatforms are the platforms that OpenShift supports, if the feature gate with the name of the platform is enabled.
var gatedPlatforms = map[string]bool{
	"AWS": true, "Azure": true, "BareMetal": true, "GCP": true, "OpenStack": true, "PowerVS": true, "VSphere": true,
}

// UnsupportedError reports that Cluster API is not supported on the platform of a cluster.
type UnsupportedError struct {
	Platform string
	// Gate is the disabled feature gate; empty if the release has no provider for the platform.
	Gate string
}

func (e *UnsupportedError) Error() string {
	if e.Gate != "" {
		return fmt.Sprintf("Cluster API is not supported on platform %s: feature gate %s is disabled", e.Platform, e.Gate)
	}
	return fmt.Sprintf("Cluster API is not supported on platform %s: the release has no infrastructure provider for it", e.Platform)
}

// CheckGates returns an *UnsupportedError if a feature gate disables Cluster API on an OpenShift platform.
func CheckGates(platform string, gates FeatureGates) error {
	needed := []string{machineManagement}
	if gatedPlatforms[platform] {
		needed = append(needed, machineManagement+platform)
	}
	for _, gate := range needed {
		if enabled, known := gates[gate]; known && !enabled {
			return &UnsupportedError{Platform: platform, Gate: gate}
		}
	}
	return nil
}

// CheckProvider returns an *UnsupportedError if OpenShift does not support a platform and the release has no infrastructure
// provider for it. On other platforms a missing provider is an error, as Select returns it. While an image is unread, the
// providers of the release are not known.
func CheckProvider(platform string, results []extractor.Result) error {
	if gatedPlatforms[platform] {
		return nil
	}
	for _, result := range results {
		if result.Err != nil && len(result.Bundles) == 0 {
			return nil
		}
		for _, bundle := range result.Bundles {
			if bundle.Metadata.ProviderType == extractor.Infrastructure && (Platforms{platform}).Include(bundle.Metadata.OCPPlatform) {
				return nil
			}
		}
	}
	return &UnsupportedError{Platform: platform}
}
