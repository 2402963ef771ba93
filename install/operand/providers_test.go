// SPDX-License-Identifier: Apache-2.0

//go:build providers

package operand

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/variable"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// realProviders reads the manifests of real providers, by the names of their folders.
func realProviders(t testing.TB) map[string]fixture.Rendered {
	t.Helper()
	rendered, err := fixture.RenderedProviders()
	if err != nil || rendered == nil {
		t.Fatalf("no manifests of real providers: %v", err)
	}
	providers := map[string]fixture.Rendered{}
	for _, provider := range rendered {
		providers[provider.Folder] = provider
	}
	return providers
}

// realBundle returns a provider's manifests as a bundle. Images other than the
// provider's own are pinned by digest.
func realBundle(provider fixture.Rendered) extractor.Bundle {
	manifests := provider.Components
	for image, pinned := range provider.Pins(provider.ImageName) {
		if image != provider.ImageName {
			whole := regexp.MustCompile(regexp.QuoteMeta(image) + `(\s|"|')`)
			manifests = whole.ReplaceAll(manifests, []byte(strings.ReplaceAll(pinned, "$", "$$")+"$1"))
		}
	}
	return extractor.Bundle{
		Origin: extractor.Origin{Name: provider.Folder, Image: testImage},
		Metadata: extractor.Metadata{
			ProviderName: provider.Name, ProviderType: provider.Type, ProviderVersion: provider.Version, OCPPlatform: provider.Platform,
			ContentID: digest.FromBytes(manifests), ImageName: provider.ImageName,
		},
		Manifests: manifests,
	}
}

func TestRender_RealProviders(t *testing.T) {
	for folder, provider := range realProviders(t) {
		t.Run(folder, func(t *testing.T) {
			set, err := Render(Inputs{Bundles: []extractor.Bundle{realBundle(provider)}, Variables: valuesFor(provider)})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(set.Operands[0].Objects); got != provider.Objects {
				t.Errorf("%d objects, want %d", got, provider.Objects)
			}
		})
	}
}

func TestRender_RealReleaseOnEachPlatform(t *testing.T) {
	var results []extractor.Result
	platforms := map[string]string{}
	for folder, provider := range realProviders(t) {
		if strings.HasPrefix(folder, "openshift-") {
			results = append(results, extractor.Result{Bundles: []extractor.Bundle{realBundle(provider)}})
			platforms[provider.Platform] = provider.Name
		}
	}
	delete(platforms, "") // the core provider's
	for platform, provider := range platforms {
		bundles, err := Select(Platforms{platform}, results)
		if err != nil {
			t.Fatal(err)
		}
		set, err := Render(Inputs{Bundles: bundles, Variables: map[string]string{"TLS_MIN_VERSION": "", "TLS_CIPHER_SUITES": ""}})
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Operands) != 2 || set.Operands[0].Name != "cluster-api" || set.Operands[1].Name != provider {
			t.Errorf("%s: %v, want cluster-api and %s", platform, set.Components(), provider)
		}
	}
}

// begins matches the begin of an expression in a line. It is independent of the
// code of Substitute.
var begins = regexp.MustCompile(`(?:^|[^$])(\$\{[A-Za-z_][A-Za-z0-9_]*[}:=,^/#%])`)

func TestSubstitute_KeepsOtherBytesOfRealManifests(t *testing.T) {
	lines, changed, dollars := 0, 0, 0
	for folder, provider := range realProviders(t) {
		after := bytes.Split(variable.Substitute(provider.Components, valuesFor(provider), func(offset int, err error) {
			t.Errorf("%s: byte %d: %v", folder, offset, err)
		}), []byte("\n"))
		before := bytes.Split(provider.Components, []byte("\n"))
		if len(before) != len(after) {
			t.Fatalf("%s has %d lines before and %d after", folder, len(before), len(after))
		}
		for i, line := range before {
			lines++
			at := begins.FindSubmatchIndex(line)
			if at == nil {
				dollars += bytes.Count(line, []byte("$"))
				if !bytes.Equal(line, after[i]) {
					t.Errorf("%s, line %d without a variable changed from\n%s\nto\n%s", folder, i+1, line, after[i])
				}
				continue
			}
			changed++
			if end := bytes.LastIndexByte(line, '}') + 1; !bytes.HasPrefix(after[i], line[:at[2]]) || !bytes.HasSuffix(after[i], line[end:]) {
				t.Errorf("%s, line %d: the text around its variables changed from\n%s\nto\n%s", folder, i+1, line, after[i])
			}
		}
	}
	t.Logf("%d lines, %d with variables; %d dollar signs in the others", lines, changed, dollars)
	if lines < 100_000 || changed < 100 || dollars < 100 {
		t.Errorf("only %d lines, %d with variables and %d other dollar signs were compared", lines, changed, dollars)
	}
}

// valuesFor returns a value for each variable of a provider.
func valuesFor(provider fixture.Rendered) map[string]string {
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
		benchmarkRender(b, folder, realBundle(providers[folder]), valuesFor(providers[folder]))
	}
}

func benchmarkRender(b *testing.B, name string, bundle extractor.Bundle, values map[string]string) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(len(bundle.Manifests)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Render(Inputs{Bundles: []extractor.Bundle{bundle}, Variables: values}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
