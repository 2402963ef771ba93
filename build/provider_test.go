// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

// facts are what facts.json says of a rendered provider.
type facts struct {
	Name     string
	Type     string
	Version  string
	Platform string
	Image    string
	Images   []string
	Objects  int
}

// TestGenerateMakesABundleOfEachRealProvider reads the folder PROVIDERS (by default
// ../shared/providers beside the project): a folder a provider with
// components.yaml, what its kustomization renders, and facts.json.
func TestGenerateMakesABundleOfEachRealProvider(t *testing.T) {
	root := cmp.Or(os.Getenv("PROVIDERS"), filepath.Join("..", "..", "shared", "providers"))
	files, err := filepath.Glob(filepath.Join(root, "*", "facts.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("NOT TESTED: there are no rendered providers in %s; set PROVIDERS to a folder of them", root)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			var f facts
			if err := json.Unmarshal(readFile(t, file), &f); err != nil {
				t.Fatal(err)
			}
			options := optionsOf(f)
			options.Dir = kustomization(t, readFile(t, filepath.Join(filepath.Dir(file), "components.yaml")))
			bundle, summary, err := build.Generate(options)
			if err != nil {
				t.Fatal(err)
			}
			if summary.Read != f.Objects {
				t.Errorf("read %d objects, the provider has %d", summary.Read, f.Objects)
			}
			checkReal(t, bundle)
			if len(bundle.Manifests) < 400_000 { // the others would only take longer
				checkAgain(t, options, bundle)
			}
		})
	}
}

func optionsOf(f facts) build.GenerateOptions {
	placeholder := "registry.example.com/openshift:" + f.Name
	images := map[string]string{}
	for _, image := range f.Images {
		if image != f.Image {
			images[image] = "registry.example.com/other@sha256:" + strings.Repeat("ab", 32)
		}
	}
	if f.Image != "" {
		images[f.Image] = placeholder
	}
	providerType := extractor.ProviderType(strings.ReplaceAll(f.Type, "-", "")) // clusterctl writes control-plane
	return build.GenerateOptions{
		ProviderName: f.Name, ProviderType: providerType, ProviderVersion: f.Version, OCPPlatform: f.Platform, ImageName: placeholder, Images: images,
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

// checkReal checks what a cluster relies on in every object.
func checkReal(t *testing.T, bundle extractor.Bundle) {
	t.Helper()
	if strings.Contains(string(bundle.Manifests), "cert-manager.io/") {
		for _, o := range objectsOf(t, bundle) {
			for key := range o.GetAnnotations() {
				if strings.HasPrefix(key, "cert-manager.io/") {
					t.Errorf("%s %s still asks cert-manager by %s", o.GetKind(), o.GetName(), key)
				}
			}
		}
	}
	for _, o := range objectsOf(t, bundle) {
		if namespace := o.GetNamespace(); namespace != "" && namespace != v1alpha1.OperandNamespace {
			t.Errorf("%s %s is in namespace %s", o.GetKind(), o.GetName(), namespace)
		}
		if kind := o.GetKind(); kind == "Namespace" || kind == "Secret" || kind == "Certificate" || kind == "Issuer" {
			t.Errorf("%s %s is part of the bundle", kind, o.GetName())
		}
	}
}

func objectsOf(t *testing.T, bundle extractor.Bundle) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(bundle.Manifests), 4096)
	var objects []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); err == io.EOF {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}

// checkAgain checks that a bundle's own manifests give the same manifests.
func checkAgain(t *testing.T, options build.GenerateOptions, bundle extractor.Bundle) {
	t.Helper()
	options.Dir, options.Images = kustomization(t, bundle.Manifests), nil
	again, _, err := build.Generate(options)
	if err != nil {
		t.Fatalf("generating from the bundle: %v", err)
	}
	if again.Metadata.ContentID != bundle.Metadata.ContentID {
		t.Errorf("the bundle of the bundle differs: %s, then %s", bundle.Metadata.ContentID, again.Metadata.ContentID)
	}
}
