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
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/status"
)

// inputs determine the version that should be installed.
type inputs struct {
	operand.Inputs
	// platforms are the platforms of the release's other images, for later
	// reconciles that cannot read those images.
	platforms operand.ImagePlatforms
	// former are the values of Secrets in the desired version.
	former setting.Secrets
}

// readInputs returns the bundles for the platforms from the images and the transport
// ConfigMaps of the release. The outcome is AsExpected, or the reason why no version
// can be decided on.
func (r *Reconciler) readInputs(ctx context.Context, files releaseFiles, in clusterInputs, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (inputs, status.Outcome) {
	images, errImages := files.parse(r.ImagesJSON, cluster.Spec.ImageOverrides)
	platforms, outcome := r.Platforms, status.Outcome{Reason: reason.AsExpected}
	if len(platforms) == 0 && files.release != "" {
		platforms, outcome = in.platforms(files.release, cluster)
	}
	if outcome.Reason == reason.AsExpected && errImages != nil {
		outcome = status.Outcome{Reason: imagesReason(errImages), Err: errImages}
	}
	if outcome.Reason != reason.AsExpected {
		return inputs{}, outcome
	}
	transported, others, err := transport{r.Client, r.Live, files.release, r.Namespaces.Operand}.bundles(ctx)
	if err != nil {
		return inputs{}, status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	results, err := extractor.Images{Images: images, Fetcher: r.Fetcher}.Results(ctx)
	if err != nil {
		return inputs{}, status.Outcome{Reason: reason.ImageUnreadable, Err: err}
	}
	results = append(knownPlatforms(existing).Complete(results), transported...)
	bundles, err := choose(files.release, platforms, results, others, cluster)
	if err != nil {
		return inputs{}, selectOutcome(err)
	}
	former := setting.Secrets{}
	if len(in.secrets) > 0 {
		if former, err = r.storage().formerSecrets(ctx, cluster.Status.DesiredVersion); err != nil {
			return inputs{}, status.Outcome{Reason: reason.WriteFailed, Err: err}
		}
	}
	settings, err := in.settings(cluster.Spec, former, r.Namespaces.Operator)
	if err != nil {
		return inputs{}, status.Outcome{Reason: reason.ReferenceMissing, Err: err}
	}
	r.Mask.Add(settings.Secrets.Values)
	settings.Namespaces = r.Namespaces.Providers()
	return inputs{
		operand.Inputs{Bundles: bundles, Variables: in.variables(r.Variables), Settings: settings},
		operand.OtherPlatforms(platforms, results), former,
	}, status.Outcome{Reason: reason.AsExpected}
}

// choose selects the bundles for the platforms. It returns an error if that would
// uninstall a provider of the desired version because an input is missing.
func choose(release string, platforms operand.Platforms, results []extractor.Result, others []*configmap.OtherError, cluster *v1alpha1.ClusterAPI) ([]extractor.Bundle, error) {
	bundles, err := operand.Select(platforms, results)
	if errors.As(err, new(*operand.MissingError)) && len(others) > 0 {
		return nil, errors.Join(err, join(others))
	}
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if err != nil || desired == nil {
		return bundles, err
	}
	err = join(pendingBundles(desired.Components, bundles, others))
	if err == nil && desired.Name == fmt.Sprintf("%s-%d", release, desired.Revision) {
		err = droppedBundles(desired.Components, bundles, results)
	}
	return bundles, errors.Join(operand.CheckDropped(desired.Components, bundles, results), err)
}

// selectOutcome returns the outcome of joined errors of the inputs: the gravest of their
// reasons. A provider that is missing because transport ConfigMaps are incomplete or
// ignored is not an error of its own.
func selectOutcome(err error) status.Outcome {
	unguarded, incomplete := errors.As(err, new(*PolicyError)), errors.As(err, new(*configmap.OtherError))
	absent := errors.As(err, new(*operand.MissingError)) || errors.As(err, new(*operand.DroppedError))
	var found []status.Outcome
	for _, candidate := range []struct {
		applies bool
		status.Outcome
	}{
		{errors.Is(err, extractor.ErrUntrusted), status.Outcome{Reason: reason.ImageUntrusted}},
		{errors.Is(err, extractor.ErrInvalid), status.Outcome{Reason: reason.BundleInvalid}},
		{absent && !unguarded && !incomplete || errors.As(err, new(*operand.DuplicateError)), status.Outcome{Reason: reason.ComponentMissing}},
		{unguarded, status.Outcome{Reason: reason.TransportUnguarded}},
		{incomplete, status.Outcome{Reason: reason.TransportIncomplete}},
		{errors.As(err, new(*extractor.UntrustedError)), status.Outcome{Reason: reason.ImageUntrusted, Undecided: true}},
		{errors.As(err, new(*extractor.Error)), status.Outcome{Reason: reason.ImageUnreadable}},
		{errors.As(err, new(*configmap.Error)), status.Outcome{Reason: reason.TransportIncomplete}},
		{errors.As(err, new(*operand.ImageError)), status.Outcome{Reason: reason.ImageUnreadable}},
	} {
		if candidate.applies {
			found = append(found, candidate.Outcome)
		}
	}
	if found == nil {
		found = []status.Outcome{{Reason: reason.BundleInvalid}}
	}
	outcome := status.Gravest(found...)
	outcome.Err = err
	return outcome
}
