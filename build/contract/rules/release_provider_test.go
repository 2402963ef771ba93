// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestCheckRelease_RealProviders checks that the releases of working providers have no errors: the releases that
// clusterctl.New makes of the providers in Go modules, and the folder PROVIDERS with its release series.
func TestCheckRelease_RealProviders(t *testing.T) {
	for name, release := range releases(t) {
		t.Run(name, func(t *testing.T) {
			counts := map[string]int{}
			_, findings := contract.CheckRelease(release, rules.All())
			for _, finding := range findings {
				counts[finding.Rule]++
				if finding.Severity == contract.Error && violations[name][finding.Rule] == "" {
					t.Errorf("%s:%d: %s %s violates %s: %s", finding.File, finding.Line, finding.Object, finding.Field, finding.Rule, finding.Message)
				}
			}
			for rule := range violations[name] {
				if counts[rule] == 0 {
					t.Errorf("%s no longer violates %s; update the violations", name, rule)
				}
			}
			t.Logf("%s: findings by rule: %v", name, counts)
		})
	}
}

// releases returns the releases of real providers.
func releases(t testing.TB) map[string]contract.Release {
	t.Helper()
	all := map[string]contract.Release{}
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range providers {
		release, err := clusterctl.New(generate.Options{
			Dir: provider.Kustomization, ProviderName: provider.Name, ProviderType: provider.Type,
			ProviderVersion: provider.Version, OCPPlatform: provider.Platform, Options: transform.Options{ImageName: provider.ImageName},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		all[provider.Name] = contract.Release{Dir: release.Dir, Files: release.Files}
	}
	rendered, err := fixture.RenderedProviders()
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range rendered {
		all[provider.Folder] = releaseOf(provider)
	}
	return all
}

// releaseOf returns a release with unmodified components.
func releaseOf(provider fixture.Rendered) contract.Release {
	label := contract.ProviderLabel(extractor.Metadata{ProviderName: provider.Name, ProviderType: provider.Type})
	series, _ := capicontract.SeriesOf(provider.Version) // a version without a series has a finding
	return contract.Release{Dir: label + "/" + provider.Version, Files: map[string][]byte{
		contract.ComponentsNames[provider.Type]: provider.Components,
		"metadata.yaml": fmt.Appendf(nil, "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n- {major: %d, minor: %d, contract: %s}\n",
			series.Major, series.Minor, cmp.Or(provider.Contract, "v1beta1")), // OpenShift's providers have no series
	}}
}
