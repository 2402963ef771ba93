// SPDX-License-Identifier: Apache-2.0

package generate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestBundle_RealProviders uses the kustomize directories that providers are
// released from, with only the required options, and the directories in the folder
// PROVIDERS, if it is set.
func TestBundle_RealProviders(t *testing.T) {
	for name, options := range released(t) {
		t.Run(name, func(t *testing.T) {
			bundle, _ := bundleFrom(t, options)
			for _, o := range objectsOf(t, bundle) {
				if o.GetKind() == "Deployment" {
					checkManager(t, o, options.ImageName)
				}
			}
			if kinds := kindsOf(t, bundle); kinds["Deployment"] != 1 || kinds["CustomResourceDefinition"] == 0 || kinds["Service"] == 0 {
				t.Errorf("kinds: %v", kinds)
			}
		})
	}
	rendered, err := fixture.RenderedProviders()
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range rendered {
		t.Run("rendered/"+provider.Folder, func(t *testing.T) {
			options := optionsOf(provider)
			options.Dir = kustomization(t, provider.Components)
			bundle, summary := bundleFrom(t, options)
			if summary.Read != provider.Objects {
				t.Errorf("read %d objects, the provider has %d", summary.Read, provider.Objects)
			}
			checkPreview(t, provider, options.Dir, bundle)
			if len(bundle.Manifests) < 400_000 { // the others would only take longer
				checkAgain(t, options, bundle)
			}
		})
	}
}

// unlabelled lists the folders of providers whose type neither the provider label nor
// the CRDs tell.
var unlabelled = []string{"addon-helm"}

// checkPreview checks that a preview needs no options and contains the same
// objects.
func checkPreview(t *testing.T, provider fixture.Rendered, dir string, bundle extractor.Bundle) {
	t.Helper()
	preview, _, err := generate.Preview(generate.Options{Dir: dir})
	if slices.Contains(unlabelled, provider.Folder) {
		if !errors.As(err, new(*transform.OptionsError)) {
			t.Errorf("preview of a provider without a label: got error %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if preview.Metadata.ProviderType != provider.Type {
		t.Errorf("the preview is of type %s", preview.Metadata.ProviderType)
	}
	if diff := cmp.Diff(kindsOf(t, bundle), kindsOf(t, preview)); diff != "" {
		t.Errorf("the preview has other objects:\n%s", diff)
	}
}

func bundleFrom(t *testing.T, options generate.Options) (extractor.Bundle, generate.Summary) {
	t.Helper()
	bundle, summary, err := generate.Bundle(options)
	if err != nil {
		t.Fatal(err)
	}
	checkReal(t, bundle)
	return bundle, summary
}

// released returns the options for the providers that are always available.
func released(t *testing.T) map[string]generate.Options {
	t.Helper()
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]generate.Options{}
	for _, provider := range providers {
		all[provider.Name] = generate.Options{
			Dir: provider.Kustomization, ProviderName: provider.Name, ProviderType: provider.Type,
			ProviderVersion: provider.Version, OCPPlatform: provider.Platform, Options: transform.Options{ImageName: provider.ImageName},
		}
	}
	return all
}

func optionsOf(provider fixture.Rendered) generate.Options {
	placeholder := "registry.example.com/openshift:" + provider.Name
	return generate.Options{
		ProviderName: provider.Name, ProviderType: provider.Type, ProviderVersion: provider.Version,
		OCPPlatform: provider.Platform, Options: transform.Options{ImageName: placeholder, Images: provider.Pins(placeholder)},
	}
}

// kustomization returns a kustomize directory of one file.
func kustomization(t *testing.T, manifests []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := fixture.WriteKustomization(dir, manifests); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkReal checks properties that a cluster relies on, in every object.
func checkReal(t *testing.T, bundle extractor.Bundle) {
	t.Helper()
	for _, o := range objectsOf(t, bundle) {
		if namespace := o.GetNamespace(); namespace != "" && namespace != v1alpha1.OpenShiftNamespaces.Operand {
			t.Errorf("%s %s is in namespace %s", o.GetKind(), o.GetName(), namespace)
		}
		if kind := o.GetKind(); kind == "Namespace" || kind == "Secret" || kind == "Certificate" || kind == "Issuer" {
			t.Errorf("%s %s is part of the bundle", kind, o.GetName())
		}
		for key := range o.GetAnnotations() {
			if strings.HasPrefix(key, "cert-manager.io/") {
				t.Errorf("%s %s still has annotation %s of cert-manager", o.GetKind(), o.GetName(), key)
			}
		}
	}
}

func objectsOf(t *testing.T, bundle extractor.Bundle) []*unstructured.Unstructured {
	t.Helper()
	objects, err := yamldoc.Objects(bundle.Manifests)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// checkAgain checks that generating from a bundle's own manifests gives the same
// manifests.
func checkAgain(t *testing.T, options generate.Options, bundle extractor.Bundle) {
	t.Helper()
	options.Dir, options.Images = kustomization(t, bundle.Manifests), nil
	again, _, err := generate.Bundle(options)
	if err != nil {
		t.Fatalf("generating from the bundle: %v", err)
	}
	if again.Metadata.ContentID != bundle.Metadata.ContentID {
		t.Errorf("the bundle of the bundle differs: %s, then %s", bundle.Metadata.ContentID, again.Metadata.ContentID)
	}
}

// checkManager checks that a provider runs the placeholder image and follows
// OpenShift's conventions.
func checkManager(t *testing.T, deployment *unstructured.Unstructured, image string) {
	t.Helper()
	spec, _, err := unstructured.NestedMap(deployment.Object, "spec", "template", "spec")
	if err != nil {
		t.Fatal(err)
	}
	if spec["priorityClassName"] != "system-cluster-critical" {
		t.Errorf("the priority class is %v", spec["priorityClassName"])
	}
	manager := spec["containers"].([]any)[0].(map[string]any)
	if manager["image"] != image {
		t.Errorf("the image is %v", manager["image"])
	}
	if manager["terminationMessagePolicy"] != "FallbackToLogsOnError" || manager["imagePullPolicy"] != "IfNotPresent" {
		t.Errorf("policies are %v and %v", manager["terminationMessagePolicy"], manager["imagePullPolicy"])
	}
	requests, _, _ := unstructured.NestedMap(manager, "resources", "requests")
	if requests["cpu"] == nil || requests["memory"] == nil {
		t.Errorf("requests are %v", requests)
	}
}

func kindsOf(t *testing.T, bundle extractor.Bundle) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	for _, o := range objectsOf(t, bundle) {
		kinds[o.GetKind()]++
	}
	return kinds
}
