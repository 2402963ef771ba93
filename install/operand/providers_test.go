// SPDX-License-Identifier: Apache-2.0

//go:build providers

package operand

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// providersFolder holds manifests of real providers: one folder each, with
// components.yaml and facts.json.
var providersFolder = os.Getenv("PROVIDERS")

// facts say what is known about a provider's manifests.
type facts struct {
	Name      string                 `json:"name"`
	Type      extractor.ProviderType `json:"type"`
	Version   string                 `json:"version"`
	Platform  string                 `json:"platform"`
	Image     string                 `json:"image"`
	Images    []string               `json:"images"`
	Objects   int                    `json:"objects"`
	Variables map[string]string      `json:"variables"`
}

// realProviders reads the manifests of real providers.
func realProviders(t testing.TB) map[string]facts {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(providersFolder, "*", "facts.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) == 0 {
		t.Fatalf("no manifests of real providers in PROVIDERS=%q", providersFolder)
	}
	providers := map[string]facts{}
	for _, file := range folders {
		data, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		var provider facts
		if err := json.Unmarshal(data, &provider); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		providers[filepath.Base(filepath.Dir(file))] = provider
	}
	return providers
}

// realBundle is a provider's manifests as a bundle. Images besides the
// provider's own are pinned, which is what somebody who builds a release does.
func realBundle(t testing.TB, folder string, provider facts) extractor.Bundle {
	t.Helper()
	manifests, err := os.ReadFile(filepath.Join(providersFolder, folder, "components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range provider.Images {
		if image != provider.Image {
			pinned := regexp.MustCompile(regexp.QuoteMeta(image) + `(\s|"|')`)
			manifests = pinned.ReplaceAll(manifests, []byte(strings.ReplaceAll(testImage, "$", "$$")+"$1"))
		}
	}
	return extractor.Bundle{
		Origin: extractor.Origin{Name: folder, Image: testImage},
		Metadata: extractor.Metadata{
			ProviderName: provider.Name, ProviderType: provider.Type, ProviderVersion: provider.Version, OCPPlatform: provider.Platform,
			ContentID: digest.FromBytes(manifests), ImageName: provider.Image,
		},
		Manifests: manifests,
	}
}

func TestRealProvidersRender(t *testing.T) {
	for folder, provider := range realProviders(t) {
		t.Run(folder, func(t *testing.T) {
			set, err := Render([]extractor.Bundle{realBundle(t, folder, provider)}, valuesFor(provider))
			if err != nil {
				t.Fatal(err)
			}
			if got := len(set.Operands[0].Objects); got != provider.Objects {
				t.Errorf("%d objects, want %d", got, provider.Objects)
			}
		})
	}
}

func TestARealReleaseRendersForEachOfItsPlatforms(t *testing.T) {
	var results []extractor.Result
	platforms := map[string]string{}
	for folder, provider := range realProviders(t) {
		if strings.HasPrefix(folder, "openshift-") {
			results = append(results, extractor.Result{Bundles: []extractor.Bundle{realBundle(t, folder, provider)}})
			platforms[provider.Platform] = provider.Name
		}
	}
	delete(platforms, "") // that of the core provider
	for platform, provider := range platforms {
		bundles, err := Select(platform, results)
		if err != nil {
			t.Fatal(err)
		}
		set, err := Render(bundles, map[string]string{"TLS_MIN_VERSION": "", "TLS_CIPHER_SUITES": ""})
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Operands) != 2 || set.Operands[0].Name != "cluster-api" || set.Operands[1].Name != provider {
			t.Errorf("%s: %v, want cluster-api and %s", platform, set.Components(), provider)
		}
	}
}

// valuesFor gives the variables of a provider a value.
func valuesFor(provider facts) map[string]string {
	values := map[string]string{}
	for name := range provider.Variables {
		values[name] = ""
	}
	return values
}

func BenchmarkRender(b *testing.B) {
	var made strings.Builder
	for i := range 200 {
		fmt.Fprintf(&made, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: made-%d\n  namespace: openshift-cluster-api\ndata:\n  key: ${VALUE:=%d}\n", i, i)
	}
	benchmarkRender(b, "made", extractor.Bundle{Origin: extractor.Origin{Image: testImage}, Manifests: []byte(made.String())}, nil)
	providers := realProviders(b)
	for _, folder := range []string{"core-cluster-api", "infrastructure-aws", "openshift-aws"} {
		benchmarkRender(b, folder, realBundle(b, folder, providers[folder]), valuesFor(providers[folder]))
	}
}

func benchmarkRender(b *testing.B, name string, bundle extractor.Bundle, values map[string]string) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(len(bundle.Manifests)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Render([]extractor.Bundle{bundle}, values); err != nil {
				b.Fatal(err)
			}
		}
	})
}
