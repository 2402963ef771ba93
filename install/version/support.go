// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// errGatesUnknown reports that the feature gates of the release are not known yet: OpenShift adds them shortly after the begin of an upgrade.
var errGatesUnknown = errors.New("FeatureGate " + configName + " does not list the feature gates of release")

// checkSupport returns an *operand.UnsupportedError if OpenShift does not support Cluster API on a platform. A gate that the release
// does not know is not enabled. Without a FeatureGate object, which OpenShift always has, all gates are enabled.
func (c configuration) checkSupport(ctx context.Context, platform, release string) error {
	object := &configv1.FeatureGate{}
	if err := c.read(ctx, object); err != nil {
		return err
	}
	at := slices.IndexFunc(object.Status.FeatureGates, func(details configv1.FeatureGateDetails) bool { return details.Version == release })
	if object.Name != "" && at < 0 {
		return fmt.Errorf("%w %s", errGatesUnknown, release)
	}
	return operand.CheckSupport(platform, func(gate string) bool {
		return object.Name == "" || slices.ContainsFunc(object.Status.FeatureGates[at].Enabled, func(known configv1.FeatureGateAttributes) bool { return string(known.Name) == gate })
	})
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
