// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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

// TestCheck_RealProviders checks that working providers have no errors. generate.Bundle makes the bundles with the
// minimum of options; the bundles of OpenShift, in the optional folder PROVIDERS, are used unchanged.
func TestCheck_RealProviders(t *testing.T) {
	makers := released(t)
	maps.Copy(makers, rendered(t))
	for name, bundle := range makers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkViolations(t, name, contract.FormBundle, contract.Check(bundle(t), rules.All()))
		})
	}
}

// TestCheckRelease_RealProviders checks that the releases of working providers have no errors: the releases that
// clusterctl.New makes of the providers in Go modules, and the folder PROVIDERS with its release series.
func TestCheckRelease_RealProviders(t *testing.T) {
	for name, release := range releases(t) {
		t.Run(name, func(t *testing.T) {
			_, findings := contract.CheckRelease(release, rules.All())
			checkViolations(t, name, contract.FormRelease, findings)
		})
	}
}

// checkViolations fails for errors that are not in violations, and for violations without a finding.
func checkViolations(t *testing.T, name string, form contract.Form, findings contract.Findings) {
	t.Helper()
	for _, finding := range findings {
		if finding.Severity == contract.Error && violations[name][finding.Rule] == "" {
			t.Errorf("%s:%d: %s %s violates %s: %s", finding.File, finding.Line, finding.Object, finding.Field, finding.Rule, finding.Message)
		}
	}
	counts := countByRule(findings)
	for rule := range violations[name] {
		if counts[rule] == 0 && isAbout(rule, form) {
			t.Errorf("%s no longer violates %s; update violations", name, rule)
		}
	}
	t.Logf("%s: findings by rule: %v", name, counts)
}

// violations are violations of MUSTs in real providers, with their consequences.
var violations = map[string]map[string]string{
	"infrastructure-kubevirt": {
		"contract/field-types": "status.failureDomains is a list under the contract v1beta1: Cluster API fails if the list is not empty",
	},
	"openshift-metal3": {
		"webhook/service-port": "the webhooks of ipam.metal3.io have a Service, but no pod with the port: the bundle has no Deployment of the IP address manager",
		"webhook/cert-mounted": "for the same reason no pod mounts the certificate of that Service",
	},
}

// isAbout reports whether a rule is about a form of a provider.
func isAbout(id string, form contract.Form) bool {
	return slices.ContainsFunc(contract.RulesOf(form, rules.All()), func(r contract.Rule) bool { return r.ID == id })
}

// maker makes a bundle on demand.
type maker func(testing.TB) extractor.Bundle

// released returns the bundles of the providers in Go modules.
func released(t testing.TB) map[string]maker {
	t.Helper()
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	makers := map[string]maker{}
	for _, provider := range providers {
		makers[provider.Name] = func(t testing.TB) extractor.Bundle {
			return bundleFrom(t, moduleOptions(provider))
		}
	}
	return makers
}

func moduleOptions(provider fixture.Provider) generate.Options {
	return generate.Options{
		Dir: provider.Kustomization, ProviderName: provider.Name, ProviderType: provider.Type,
		ProviderVersion: provider.Version, OCPPlatform: provider.Platform, Options: transform.Options{ImageName: provider.ImageName},
	}
}

func bundleFrom(t testing.TB, options generate.Options) extractor.Bundle {
	t.Helper()
	bundle, _, err := generate.Bundle(options)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// rendered returns the bundles of the folder PROVIDERS; none without the folder.
func rendered(t testing.TB) map[string]maker {
	t.Helper()
	providers, err := fixture.RenderedProviders()
	if err != nil {
		t.Fatal(err)
	}
	makers := map[string]maker{}
	for _, provider := range providers {
		makers[provider.Folder] = func(t testing.TB) extractor.Bundle {
			if provider.Metadata != nil {
				return shipped(t, provider)
			}
			options := optionsOf(provider)
			options.Dir = t.TempDir()
			if err := fixture.WriteKustomization(options.Dir, provider.Components); err != nil {
				t.Fatal(err)
			}
			return bundleFrom(t, options)
		}
	}
	return makers
}

// shipped returns a bundle of OpenShift.
func shipped(t testing.TB, provider fixture.Rendered) extractor.Bundle {
	t.Helper()
	files := extractor.Files{
		"capi-operator-manifests/default/metadata.yaml":  provider.Metadata,
		"capi-operator-manifests/default/manifests.yaml": provider.Components,
	}
	bundles, err := files.Bundles(extractor.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	return bundles[0]
}

func optionsOf(provider fixture.Rendered) generate.Options {
	placeholder := "registry.example.com/openshift:" + provider.Name
	return generate.Options{
		ProviderName: provider.Name, ProviderType: provider.Type, ProviderVersion: provider.Version,
		OCPPlatform: provider.Platform, Options: transform.Options{ImageName: placeholder, Images: provider.Pins(placeholder)},
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
		release, err := clusterctl.New(moduleOptions(provider), nil)
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

// BenchmarkCheck checks each provider in Go modules (in less than a second), and all providers of the folder PROVIDERS
// together (in less than ten seconds).
func BenchmarkCheck(b *testing.B) {
	for name, bundle := range released(b) {
		b.Run(name, func(b *testing.B) { benchmark(b, bundle(b)) })
	}
	var all []extractor.Bundle
	for _, bundle := range rendered(b) {
		all = append(all, bundle(b))
	}
	if len(all) > 0 {
		b.Run("all", func(b *testing.B) { benchmark(b, all...) })
	}
}

func benchmark(b *testing.B, bundles ...extractor.Bundle) {
	size := 0
	for _, bundle := range bundles {
		size += len(bundle.Manifests)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		for _, bundle := range bundles {
			contract.Check(bundle, rules.All())
		}
	}
}
