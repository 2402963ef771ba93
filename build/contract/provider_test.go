// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestRealProvidersKeepTheRules finds no error in a provider that works. The
// bundles are made by build.Generate with nothing but the options that it needs;
// those that OpenShift ships, which are in the folder PROVIDERS if that is given,
// are taken as they are.
func TestRealProvidersKeepTheRules(t *testing.T) {
	makers := released(t)
	maps.Copy(makers, rendered(t))
	for name, bundle := range makers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counts := map[string]int{}
			for _, finding := range contract.Check(bundle(t)) {
				counts[finding.Rule]++
				if finding.Severity == contract.Error {
					t.Errorf("%s breaks %s: %s", finding.Object, finding.Rule, finding.Message)
				}
			}
			t.Logf("%s: findings by rule: %v", name, counts)
		})
	}
}

// maker makes a bundle when it is needed.
type maker func(*testing.T) extractor.Bundle

// released are the bundles of the providers that there always are.
func released(t *testing.T) map[string]maker {
	t.Helper()
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	makers := map[string]maker{}
	for _, provider := range providers {
		makers[provider.Name] = func(t *testing.T) extractor.Bundle {
			return generate(t, build.GenerateOptions{
				Dir: provider.Kustomization, ProviderName: provider.Name, ProviderType: provider.Type,
				ProviderVersion: provider.Version, OCPPlatform: provider.Platform, ImageName: provider.ImageName,
			})
		}
	}
	return makers
}

func generate(t *testing.T, options build.GenerateOptions) extractor.Bundle {
	t.Helper()
	bundle, _, err := build.Generate(options)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// facts are what facts.json says of a rendered provider.
type facts struct {
	Name, Type, Version, Platform, Image string
	Images                               []string
}

// rendered are the bundles of the folder PROVIDERS, which has a folder for each provider; none if there is no such folder.
func rendered(t *testing.T) map[string]maker {
	t.Helper()
	root := os.Getenv("PROVIDERS")
	if root == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(root, "*", "facts.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no rendered providers in PROVIDERS=%q (%v)", root, err)
	}
	makers := map[string]maker{}
	for _, file := range files {
		dir := filepath.Dir(file)
		makers[filepath.Base(dir)] = func(t *testing.T) extractor.Bundle {
			if _, err := os.Stat(filepath.Join(dir, "metadata.yaml")); err == nil {
				return shipped(t, dir)
			}
			var f facts
			if err := json.Unmarshal(readFile(t, file), &f); err != nil {
				t.Fatal(err)
			}
			options := optionsOf(f)
			options.Dir = kustomization(t, readFile(t, filepath.Join(dir, "components.yaml")))
			return generate(t, options)
		}
	}
	return makers
}

// shipped is a bundle that OpenShift ships.
func shipped(t *testing.T, dir string) extractor.Bundle {
	t.Helper()
	files := extractor.Files{
		"capi-operator-manifests/default/metadata.yaml":  readFile(t, filepath.Join(dir, "metadata.yaml")),
		"capi-operator-manifests/default/manifests.yaml": readFile(t, filepath.Join(dir, "components.yaml")),
	}
	bundles, err := files.Bundles(extractor.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	return bundles[0]
}

func optionsOf(f facts) build.GenerateOptions {
	placeholder := "registry.example.com/openshift:" + f.Name
	images := map[string]string{f.Image: placeholder}
	for _, image := range f.Images {
		if image != f.Image {
			images[image] = "registry.example.com/other@sha256:" + strings.Repeat("ab", 32)
		}
	}
	delete(images, "")
	return build.GenerateOptions{
		ProviderName: f.Name, ProviderType: extractor.ProviderType(strings.ReplaceAll(f.Type, "-", "")), // clusterctl writes control-plane
		ProviderVersion: f.Version, OCPPlatform: f.Platform, ImageName: placeholder, Images: images,
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// kustomization returns a kustomize directory of one file.
func kustomization(t *testing.T, manifests []byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{"kustomization.yaml": []byte("resources: [manifests.yaml]\n"), "manifests.yaml": manifests} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestThePlatformsAreThoseThatGenerateTakes keeps the two lists one.
func TestThePlatformsAreThoseThatGenerateTakes(t *testing.T) {
	for _, platform := range build.Platforms() {
		bundle := extractor.Bundle{Metadata: extractor.Metadata{OCPPlatform: string(platform)}}
		for _, finding := range contract.Check(bundle) {
			if finding.Rule == "metadata/ocp-platform-known" {
				t.Error(finding.Message)
			}
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	providers, err := fixture.Providers(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	aws := providers[len(providers)-1]
	bundle, _, err := build.Generate(build.GenerateOptions{
		Dir: aws.Kustomization, ProviderName: aws.Name, ProviderType: aws.Type, ProviderVersion: aws.Version, ImageName: aws.ImageName,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(bundle.Manifests)))
	for b.Loop() {
		contract.Check(bundle)
	}
}
