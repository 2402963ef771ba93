// SPDX-License-Identifier: Apache-2.0

package operand

import "fmt"

// machineManagement is the beginning of the feature gates of Cluster API on platforms.
const machineManagement = "ClusterAPIMachineManagement"

// gatedPlatforms are the platforms on which OpenShift supports Cluster API, if the feature gate with the name of the platform is enabled.
var gatedPlatforms = map[string]bool{
	"AWS": true, "Azure": true, "BareMetal": true, "GCP": true, "OpenStack": true, "PowerVS": true, "VSphere": true,
}

// UnsupportedError reports that OpenShift does not support Cluster API on the platform of a cluster.
type UnsupportedError struct {
	Platform string
	// Gate is the feature gate that is not enabled; empty if OpenShift never supports Cluster API on the platform.
	Gate string
}

func (e *UnsupportedError) Error() string {
	if e.Gate != "" {
		return fmt.Sprintf("Cluster API is not supported on platform %s: feature gate %s is not enabled", e.Platform, e.Gate)
	}
	return "Cluster API is not supported on platform " + e.Platform
}

// CheckSupport returns an *UnsupportedError unless OpenShift supports Cluster API on a platform. It decides as cluster-capi-operator:
// by the feature gate of the platform, regardless of the images of the release.
func CheckSupport(platform string, isEnabled func(gate string) bool) error {
	if !gatedPlatforms[platform] {
		return &UnsupportedError{Platform: platform}
	}
	if gate := machineManagement + platform; !isEnabled(gate) {
		return &UnsupportedError{Platform: platform, Gate: gate}
	}
	return nil
}
