// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// errGatesUnknown reports that the feature gates of the cluster are not known yet.
var errGatesUnknown = errors.New("waiting for the feature gates of the cluster in FeatureGate " + configName)

// checkGates returns an *operand.UnsupportedError if a feature gate disables Cluster API on the cluster's platform. Platforms
// of the command line and clusters without feature gates are not restricted.
func (p pass) checkGates(ctx context.Context, platforms operand.Platforms) error {
	if len(p.Platforms) > 0 {
		return nil
	}
	object := &configv1.FeatureGate{}
	err := configuration{p.Client}.read(ctx, object)
	if err != nil || object.Name == "" {
		return err
	}
	all := object.Status.FeatureGates
	if len(all) == 0 {
		return errGatesUnknown
	}
	return operand.CheckGates(platforms.String(), gatesOf(all, p.release))
}

// gatesOf returns the feature gates of a release, or else of the first one: shortly after the begin of an upgrade, the
// gates of the new release are missing.
func gatesOf(all []configv1.FeatureGateDetails, release string) operand.FeatureGates {
	details := all[0]
	for _, candidate := range all {
		if candidate.Version == release {
			details = candidate
		}
	}
	gates := operand.FeatureGates{}
	for _, gate := range details.Enabled {
		gates[string(gate.Name)] = true
	}
	for _, gate := range details.Disabled {
		gates[string(gate.Name)] = false
	}
	return gates
}

// checkProvider returns an *operand.UnsupportedError if the release has no provider for the cluster's platform, and OpenShift
// does not support the platform. An installed version needs its provider, so that it is not dropped.
func (p pass) checkProvider(platforms operand.Platforms, results []extractor.Result, cluster *v1alpha1.ClusterAPI) error {
	if len(p.Platforms) > 0 || cluster.Status.DesiredVersion != "" {
		return nil
	}
	return operand.CheckProvider(platforms.String(), results)
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
