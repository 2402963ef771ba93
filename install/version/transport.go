// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
)

// transported returns the bundles in the transport ConfigMaps of the release, and
// which other bundles are there only for other releases. None is good while its
// ConfigMaps are not guarded.
func (r *Reconciler) transported(ctx context.Context) ([]extractor.Result, []*configmap.OtherError, error) {
	configMaps := &corev1.ConfigMapList{}
	if err := r.Client.List(ctx, configMaps, client.InNamespace(v1alpha1.OperandNamespace), client.HasLabels{configmap.BundleLabel}); err != nil {
		return nil, nil, fmt.Errorf("listing transport ConfigMaps: %w", err)
	}
	if len(configMaps.Items) == 0 {
		return nil, nil, nil
	}
	results, err := configmap.Bundles(configMaps.Items, r.Release)
	if err != nil {
		return nil, nil, err
	}
	unguarded := r.guarded(ctx)
	if unguarded != nil && !errors.As(unguarded, new(*GuardError)) {
		return nil, nil, unguarded
	}
	for i := range results {
		results[i].Err = errors.Join(results[i].Err, unguarded)
	}
	return results, configmap.Others(configMaps.Items, r.Release), nil
}

// awaited are those of the bundles of other releases that bring a provider which
// was installed from ConfigMaps before and comes from nowhere now: its ConfigMaps
// of this release are yet to be written, and it must not be uninstalled meanwhile.
func awaited(former []v1alpha1.Component, bundles []extractor.Bundle, others []*configmap.OtherError) []*configmap.OtherError {
	return slices.DeleteFunc(slices.Clone(others), func(other *configmap.OtherError) bool {
		was := slices.ContainsFunc(former, func(c v1alpha1.Component) bool {
			return len(c.ConfigMaps) > 0 && c.Name == other.Provider && c.Type == string(other.Type)
		})
		is := slices.ContainsFunc(bundles, func(b extractor.Bundle) bool {
			return b.Metadata.ProviderName == other.Provider && b.Metadata.ProviderType == other.Type
		})
		return !was || is
	})
}

// vanished returns an error for each component that was installed from ConfigMaps
// of this release, all of which are gone though the provider comes from nowhere else: one that
// a release drops is dropped by the next release.
func vanished(former []v1alpha1.Component, bundles []extractor.Bundle, results []extractor.Result) error {
	var errs []error
	for _, component := range former {
		here := slices.ContainsFunc(results, func(r extractor.Result) bool { return r.Image.Reference == "" && r.Image.Name == component.Source })
		elsewhere := slices.ContainsFunc(bundles, func(b extractor.Bundle) bool {
			return b.Metadata.ProviderName == component.Name && string(b.Metadata.ProviderType) == component.Type
		})
		if len(component.ConfigMaps) == 0 || here || elsewhere {
			continue
		}
		errs = append(errs, &configmap.Error{ConfigMap: strings.Join(component.ConfigMaps, ", "), Err: fmt.Errorf(
			"gone, and with it the manifests of provider %s of type %s, which stays", component.Name, component.Type)})
	}
	return errors.Join(errs...)
}

func joined(others []*configmap.OtherError) error {
	errs := make([]error, len(others))
	for i, other := range others {
		errs[i] = other
	}
	return errors.Join(errs...)
}
