// SPDX-License-Identifier: Apache-2.0

package generate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Real providers, generated for any Kubernetes cluster, need nothing of OpenShift and of
// cert-manager, and validate applies no rule of OpenShift to them.
func TestBundle_KubernetesProfileOfRealProviders(t *testing.T) {
	for name, options := range released(t) {
		t.Run(name, func(t *testing.T) {
			options.Profile = extractor.Kubernetes
			bundle, _, err := generate.Bundle(options)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objectsOf(t, bundle) {
				checkNeutral(t, o)
			}
			for _, finding := range contract.Check(bundle, rules.All()) {
				if finding.Severity == contract.Error {
					t.Errorf("%s: %s %s: %s", finding.Rule, finding.Object, finding.Field, finding.Message)
				}
			}
			bundle.Metadata.ClusterProfile = extractor.OpenShift
			if findings := contract.Check(bundle, rules.All()); !slices.ContainsFunc(findings, func(f contract.Finding) bool { return f.Rule == "installer/target-namespace" }) {
				t.Errorf("in OpenShift: %v", findings)
			}
		})
	}
}

// checkNeutral fails the test if an object has keys of OpenShift or of cert-manager.
func checkNeutral(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if strings.Contains(object.GroupKind(o).Group, "cert-manager.io") {
		t.Errorf("%s", object.Describe(o))
	}
	template := object.MapAt(object.PodTemplate(o), "metadata")
	for _, keys := range []map[string]any{object.MapAt(o.Object, "metadata", "annotations"), object.MapAt(o.Object, "metadata", "labels"), object.MapAt(template, "annotations"), object.MapAt(template, "labels")} {
		for key := range maps.Keys(keys) {
			domain, _, _ := strings.Cut(key, "/")
			if strings.Contains(domain, "openshift.io") && domain != v1alpha1.Prefix || strings.Contains(domain, "cert-manager.io") {
				t.Errorf("%s has the key %s", object.Describe(o), key)
			}
		}
	}
}
