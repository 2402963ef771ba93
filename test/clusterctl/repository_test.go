// SPDX-License-Identifier: Apache-2.0

// Package clusterctl_test has clusterctl read the releases that capi-manifests writes for it.
package clusterctl_test

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestClusterctl_ReadsReleasesOfRealProviders also takes the providers of
// the folder PROVIDERS, if it is given.
func TestClusterctl_ReadsReleasesOfRealProviders(t *testing.T) {
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	must(t, err)
	for _, provider := range providers {
		t.Run(provider.Name, func(t *testing.T) { check(t, provider, nil) })
	}
	rendered, err := fixture.RenderedProviders()
	must(t, err)
	for _, r := range rendered {
		if r.Metadata != nil {
			continue // made for OpenShift, and not by kustomize alone
		}
		t.Run("rendered/"+r.Folder, func(t *testing.T) {
			provider := r.Provider
			provider.Kustomization = t.TempDir()
			must(t, fixture.WriteKustomization(provider.Kustomization, r.Components))
			check(t, provider, ownMetadata[r.Folder])
		})
	}
}

var types = map[extractor.ProviderType]v1alpha3.ProviderType{
	extractor.Core: v1alpha3.CoreProviderType, extractor.Bootstrap: v1alpha3.BootstrapProviderType,
	extractor.ControlPlane: v1alpha3.ControlPlaneProviderType, extractor.Infrastructure: v1alpha3.InfrastructureProviderType,
	extractor.IPAM: v1alpha3.IPAMProviderType, extractor.RuntimeExtension: v1alpha3.RuntimeExtensionProviderType, extractor.Addon: v1alpha3.AddonProviderType,
}

// ownMetadata is for providers whose CRDs keep several contracts.
var ownMetadata = map[string][]byte{
	"infrastructure-ibmcloud": []byte("apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries: [{major: 0, minor: 15, contract: v1beta2}]\n"),
}

func check(t *testing.T, provider fixture.Provider, metadata []byte) {
	t.Helper()
	release, err := clusterctl.New(generate.Options{
		Dir: provider.Kustomization, ProviderName: provider.Name, ProviderType: provider.Type, ProviderVersion: provider.Version,
	}, metadata)
	must(t, err)
	root := t.TempDir()
	must(t, bundle.WriteDirs(t.Context(), map[string]map[string][]byte{filepath.Join(root, release.Dir): release.Files}))
	label := path.Dir(release.Dir)
	client, own := open(t, root, label, provider.Type, release)
	if own.ManifestLabel() != label {
		t.Errorf("the directory is %s, clusterctl's label is %s", label, own.ManifestLabel())
	}
	if versions, err := client.GetVersions(t.Context()); err != nil || !slices.Equal(versions, []string{provider.Version}) {
		t.Errorf("the versions are %v, %v", versions, err)
	}
	known, err := client.Metadata(provider.Version).Get(t.Context())
	must(t, err)
	if series := known.GetReleaseSeriesForVersion(version.MustParseSemantic(provider.Version)); series == nil || !strings.HasPrefix(series.Contract, "v1beta") {
		t.Errorf("%s is of the series %+v", provider.Version, series)
	}
	components, err := client.Components().Get(t.Context(), repository.ComponentsOptions{Version: provider.Version})
	must(t, err)
	if components.TargetNamespace() == "" || len(components.Objs()) == 0 || len(components.Images()) == 0 {
		t.Errorf("namespace %q, %d objects, images %v", components.TargetNamespace(), len(components.Objs()), components.Images())
	}
	for _, name := range components.Variables() {
		if !strings.Contains(string(release.Files["README.md"]), "| `"+name+"` |") {
			t.Errorf("the variable %s is not documented", name)
		}
	}
}

// open opens the repository as clusterctl does for a provider that its config file names.
func open(t *testing.T, root, label string, providerType extractor.ProviderType, release clusterctl.Release) (repository.Client, config.Provider) {
	t.Helper()
	var components string
	for file := range release.Files {
		if strings.HasSuffix(file, "-components.yaml") {
			components = file
		}
	}
	prefix, _ := strings.CutSuffix(components, "-components.yaml")
	name := strings.TrimPrefix(label, prefix+"-")
	reader := config.NewMemoryReader()
	must(t, reader.Init(t.Context(), ""))
	if _, err := reader.AddProvider(name, types[providerType], "file://"+filepath.Join(root, release.Dir, components)); err != nil {
		t.Fatal(err)
	}
	for _, required := range regexp.MustCompile("(?m)^\\| `(.*)` \\| required.* \\|$").FindAllSubmatch(release.Files["README.md"], -1) {
		reader.Set(string(required[1]), "1")
	}
	configured, err := config.New(t.Context(), "", config.InjectReader(reader))
	must(t, err)
	provider, err := configured.Providers().Get(name, types[providerType])
	must(t, err)
	client, err := repository.New(t.Context(), provider, configured)
	must(t, err)
	return client, provider
}
