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
func (p pass) readInputs(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (inputs, status.Outcome) {
	images, errImages := releaseSource{p.ImagesJSON, p.release}.parse(p.files, cluster.Spec.ImageOverrides)
	if p.release == "" {
		return inputs{}, status.Outcome{Reason: imagesReason(errImages), Err: errImages}
	}
	platforms, outcome := p.readPlatforms(ctx, cluster)
	if outcome.Reason != reason.AsExpected {
		return inputs{}, outcome
	}
	if errImages != nil {
		return inputs{}, status.Outcome{Reason: imagesReason(errImages), Err: errImages}
	}
	variables, err := configuration{p.Client}.variables(ctx, p.Variables)
	if err != nil {
		return inputs{}, status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	transported, others, err := transport{p.Client, p.Live, p.release, p.Namespaces.Operand}.bundles(ctx)
	if err != nil {
		return inputs{}, status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	results, err := extractor.Images{Images: images, Fetcher: p.Fetcher}.Results(ctx)
	if err != nil {
		return inputs{}, status.Outcome{Reason: reason.ImageUnreadable, Err: err}
	}
	results = append(knownPlatforms(existing).Complete(results), transported...)
	bundles, err := p.choose(platforms, results, others, cluster)
	if err != nil {
		return inputs{}, selectOutcome(err)
	}
	settings, former, err := references{p.Client, p.storage()}.settings(ctx, cluster)
	if err != nil {
		return inputs{}, settingsOutcome(err)
	}
	settings.Namespaces = p.Namespaces.Providers()
	return inputs{
		operand.Inputs{Bundles: bundles, Variables: variables, Settings: settings},
		operand.OtherPlatforms(platforms, results), former,
	}, status.Outcome{Reason: reason.AsExpected}
}

// readPlatforms returns the platforms of the cluster. The outcome is AsExpected, or the reason why nothing is installed on them.
func (p pass) readPlatforms(ctx context.Context, cluster *v1alpha1.ClusterAPI) (operand.Platforms, status.Outcome) {
	if len(p.Platforms) > 0 {
		return p.Platforms, status.Outcome{Reason: reason.AsExpected}
	}
	platform, err := configuration{p.Client}.platform(ctx)
	if err == nil && platform == "" {
		return nil, status.Outcome{Reason: reason.PlatformUnknown, Message: "waiting for the platform of the cluster in Infrastructure " + configName}
	}
	if err == nil {
		err = configuration{p.Client}.checkSupport(ctx, platform, p.release)
	}
	switch {
	case errors.As(err, new(*operand.UnsupportedError)):
		return nil, unsupported(err, cluster)
	case errors.Is(err, errGatesUnknown):
		return nil, status.Outcome{Reason: reason.PlatformUnknown, Message: "waiting: " + err.Error()}
	case err != nil:
		return nil, status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	return operand.Platforms{platform}, status.Outcome{Reason: reason.AsExpected}
}

// choose selects the bundles for the platforms. It returns an error if that would
// uninstall a provider of the desired version because an input is missing.
func (p pass) choose(platforms operand.Platforms, results []extractor.Result, others []*configmap.OtherError, cluster *v1alpha1.ClusterAPI) ([]extractor.Bundle, error) {
	bundles, err := operand.Select(platforms, results)
	if errors.As(err, new(*operand.MissingError)) && len(others) > 0 {
		return nil, errors.Join(err, join(others))
	}
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if err != nil || desired == nil {
		return bundles, err
	}
	err = join(pendingBundles(desired.Components, bundles, others))
	if err == nil && desired.Name == fmt.Sprintf("%s-%d", p.release, desired.Revision) {
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
