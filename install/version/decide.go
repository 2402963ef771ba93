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

// decision is what should be installed.
type decision struct {
	// bundles are those of the cluster's providers, in install order.
	bundles []extractor.Bundle
	// variables are the values that manifests can ask for.
	variables map[string]string
	// elsewhere is what the release's other images hold, for the day when they cannot be read.
	elsewhere operand.Elsewhere
}

// decide chooses what should be installed: everything that the images and the
// transport ConfigMaps of the release have for the platform. The outcome is
// AsExpected, or tells why nothing can be chosen.
func (r *Reconciler) decide(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (decision, status.Outcome) {
	images, err := r.images(cluster.Spec.ImageOverrides)
	if err != nil {
		return decision{}, status.Outcome{Reason: imagesReason(err), Err: err}
	}
	platform, err := r.platform(ctx)
	if err != nil {
		return decision{}, status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	if platform == "" {
		return decision{}, status.Outcome{Reason: status.PlatformUnknown, Message: "waiting for the platform of the cluster in Infrastructure " + configName}
	}
	variables, err := r.variables(ctx)
	if err != nil {
		return decision{}, status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	transported, others, err := r.transported(ctx)
	if err != nil {
		return decision{}, status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	results, err := extractor.Images{Images: images, Fetcher: r.Fetcher}.Results(ctx)
	if err != nil {
		return decision{}, status.Outcome{Reason: status.ImageUnreadable, Err: err}
	}
	results = append(elsewhere(existing).Recall(results), transported...)
	bundles, err := r.choose(platform, results, others, cluster)
	if err != nil {
		return decision{}, status.Outcome{Reason: selectReason(err), Err: err}
	}
	return decision{bundles, variables, operand.NotedElsewhere(platform, results)}, status.Outcome{Reason: status.AsExpected}
}

// choose selects the bundles for a platform, unless that would uninstall a
// provider of the desired version because an input is not there.
func (r *Reconciler) choose(platform string, results []extractor.Result, others []*configmap.OtherError, cluster *v1alpha1.ClusterAPI) ([]extractor.Bundle, error) {
	bundles, err := operand.Select(platform, results)
	if errors.As(err, new(*operand.MissingError)) && len(others) > 0 {
		return nil, errors.Join(err, joined(others))
	}
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if err != nil || desired == nil {
		return bundles, err
	}
	err = joined(awaited(desired.Components, bundles, others))
	if err == nil && desired.Name == fmt.Sprintf("%s-%d", r.Release, desired.Revision) {
		err = vanished(desired.Components, bundles, results)
	}
	return bundles, errors.Join(operand.Lost(desired.Components, bundles, results), err)
}

// selectReason names the gravest of what was found: what can be read by and by
// comes after everything that somebody must mend.
func selectReason(err error) status.Reason {
	switch {
	case errors.As(err, new(*GuardError)):
		return status.TransportUnguarded
	case errors.Is(err, extractor.ErrInvalid):
		return status.BundleInvalid
	case errors.As(err, new(*configmap.OtherError)):
		return status.TransportIncomplete
	case errors.As(err, new(*operand.MissingError)), errors.As(err, new(*operand.DuplicateError)), errors.As(err, new(*operand.LostError)):
		return status.ComponentMissing
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
