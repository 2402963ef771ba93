// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/status"
)

// inputs determine the version that should be installed.
type inputs struct {
	// bundles are the bundles of the cluster's providers, in install order.
	bundles []extractor.Bundle
	// variables are the values of variables in the manifests.
	variables map[string]string
	// platforms are the platforms of the release's other images, for later
	// reconciles that cannot read those images.
	platforms operand.ImagePlatforms
}

// readInputs returns the bundles for the platforms from the images and the transport
// ConfigMaps of the release. The outcome is AsExpected, or the reason why no version
// can be decided on.
func (r *Reconciler) readInputs(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (inputs, status.Outcome) {
	images, err := r.images(cluster.Spec.ImageOverrides)
	if err != nil {
		return inputs{}, status.Outcome{Reason: imagesReason(err), Err: err}
	}
	platforms, err := r.platforms(ctx)
	if err != nil {
		return inputs{}, status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	if len(platforms) == 0 {
		return inputs{}, status.Outcome{Reason: status.PlatformUnknown, Message: "waiting for the platform of the cluster in Infrastructure " + configName}
	}
	variables, err := r.variables(ctx)
	if err != nil {
		return inputs{}, status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	transported, others, err := r.transportBundles(ctx)
	if err != nil {
		return inputs{}, status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	results, err := extractor.Images{Images: images, Fetcher: r.Fetcher}.Results(ctx)
	if err != nil {
		return inputs{}, status.Outcome{Reason: status.ImageUnreadable, Err: err}
	}
	results = append(knownPlatforms(existing).Complete(results), transported...)
	bundles, err := r.choose(platforms, results, others, cluster)
	if err != nil {
		return inputs{}, status.Outcome{Reason: selectReason(err), Err: err, Undecided: isUndecided(err)}
	}
	return inputs{bundles, variables, operand.OtherPlatforms(platforms, results)}, status.Outcome{Reason: status.AsExpected}
}

// choose selects the bundles for the platforms. It returns an error if that would
// uninstall a provider of the desired version because an input is missing.
func (r *Reconciler) choose(platforms operand.Platforms, results []extractor.Result, others []*configmap.OtherError, cluster *v1alpha1.ClusterAPI) ([]extractor.Bundle, error) {
	bundles, err := operand.Select(platforms, results)
	if errors.As(err, new(*operand.MissingError)) && len(others) > 0 {
		return nil, errors.Join(err, join(others))
	}
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if err != nil || desired == nil {
		return bundles, err
	}
	err = join(pendingBundles(desired.Components, bundles, others))
	if err == nil && desired.Name == fmt.Sprintf("%s-%d", r.Release, desired.Revision) {
		err = droppedBundles(desired.Components, bundles, results)
	}
	return bundles, errors.Join(operand.CheckDropped(desired.Components, bundles, results), err)
}

// isUndecided reports whether selectReason returns ImageUntrusted because signatures could not be checked, and no image
// is rejected.
func isUndecided(err error) bool {
	return selectReason(err) == status.ImageUntrusted && !errors.Is(err, extractor.ErrUntrusted)
}

// selectReason returns the reason of the most severe error; terminal errors take
// precedence over retryable ones.
func selectReason(err error) status.Reason {
	switch {
	case errors.As(err, new(*PolicyError)):
		return status.TransportUnguarded
	case errors.Is(err, extractor.ErrUntrusted):
		return status.ImageUntrusted
	case errors.Is(err, extractor.ErrInvalid):
		return status.BundleInvalid
	case errors.As(err, new(*configmap.OtherError)):
		return status.TransportIncomplete
	case errors.As(err, new(*operand.MissingError)), errors.As(err, new(*operand.DuplicateError)), errors.As(err, new(*operand.DroppedError)):
		return status.ComponentMissing
	case errors.As(err, new(*extractor.UntrustedError)):
		return status.ImageUntrusted
	case errors.As(err, new(*extractor.Error)):
		return status.ImageUnreadable
	case errors.As(err, new(*configmap.Error)):
		return status.TransportIncomplete
	case errors.As(err, new(*operand.ImageError)):
		return status.ImageUnreadable
	default:
		return status.BundleInvalid
	}
}
