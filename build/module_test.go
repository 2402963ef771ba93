// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// TestGenerateTakesTheKustomizeDirectoriesOfRealProvidersAsTheyAre uses the
// directories that the providers release from, with only the options that a
// user has to give.
func TestGenerateTakesTheKustomizeDirectoriesOfRealProvidersAsTheyAre(t *testing.T) {
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range providers {
		t.Run(provider.Name, func(t *testing.T) {
			bundle, _, err := build.Generate(build.GenerateOptions{
				Dir: provider.Kustomization, ProviderName: provider.Name, ProviderType: provider.Type,
				ProviderVersion: provider.Version, OCPPlatform: provider.Platform, ImageName: provider.ImageName,
			})
			if err != nil {
				t.Fatal(err)
			}
			checkReal(t, bundle)
			kinds := map[string]int{}
			for _, o := range objectsOf(t, bundle) {
				kinds[o.GetKind()]++
				if o.GetKind() == "Deployment" {
					checkManager(t, o, provider.ImageName)
				}
			}
			if kinds["Deployment"] != 1 || kinds["CustomResourceDefinition"] == 0 || kinds["Service"] == 0 {
				t.Errorf("kinds: %v", kinds)
			}
		})
	}
}

// checkManager checks that a provider runs the placeholder under OpenShift's conventions.
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
