// SPDX-License-Identifier: Apache-2.0

package version

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// platforms returns the platform of an OpenShift cluster for a release. The outcome is AsExpected, or the reason why nothing is installed.
// A gate that the release does not know is not enabled. Without a FeatureGate object, which OpenShift always has, all gates are enabled.
func (c clusterInputs) platforms(release string, cluster *v1alpha1.ClusterAPI) (operand.Platforms, status.Outcome) {
	found := c.infrastructure.Status.PlatformStatus
	if found == nil || found.Type == "" {
		return nil, status.Outcome{Reason: reason.PlatformUnknown, Message: "waiting for the platform of the cluster in Infrastructure " + configName}
	}
	platform := string(found.Type)
	at := slices.IndexFunc(c.gates.Status.FeatureGates, func(details configv1.FeatureGateDetails) bool { return details.Version == release })
	if c.gates.Name != "" && at < 0 {
		return nil, status.Outcome{Reason: reason.PlatformUnknown, Message: "waiting: FeatureGate " + configName + " does not list the feature gates of release " + release}
	}
	err := operand.CheckSupport(platform, func(gate string) bool {
		return at < 0 || slices.ContainsFunc(c.gates.Status.FeatureGates[at].Enabled, func(known configv1.FeatureGateAttributes) bool { return string(known.Name) == gate })
	})
	if err != nil {
		return nil, unsupported(err, cluster)
	}
	return operand.Platforms{platform}, status.Outcome{Reason: reason.AsExpected}
}

// unsupported returns the outcome on a platform without Cluster API. The release is complete there, and an installed
// version stays.
func unsupported(err error, cluster *v1alpha1.ClusterAPI) status.Outcome {
	message := err.Error()
	if cluster.Status.CurrentVersion != "" {
		message += "; version " + cluster.Status.CurrentVersion + " stays installed"
	}
	return status.Outcome{Reason: reason.UnsupportedPlatform, Message: message, ReleaseInstalled: true}
}
