// SPDX-License-Identifier: Apache-2.0

//go:build providers

package version

import (
	"maps"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// predecessorVariables are the values that cluster-capi-operator gives to variables in a cluster without a TLS profile.
// Every other variable has its default, or else is empty.
var predecessorVariables = map[string]string{
	"EXP_BOOTSTRAP_FORMAT_IGNITION": "true",
	"TLS_MIN_VERSION":               "VersionTLS12",
	"TLS_CIPHER_SUITES": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256," +
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384," +
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// A bundle that both operators install has the same objects with either, so that no pod restarts when one replaces the
// other. cluster-capi-operator substitutes variables in each document, and the placeholder wherever it occurs.
func TestVariables_ShippedBundlesAsPredecessor(t *testing.T) {
	values := clusterInputs{}.variables(nil)
	ignition := 0
	for name, bundle := range shippedBundles(t) {
		t.Run(name, func(t *testing.T) {
			values := maps.Clone(values)
			values["NUTANIX_ENDPOINT"] = "" // has no value in any cluster
			set, err := operand.Render(operand.Inputs{Bundles: []extractor.Bundle{bundle}, Variables: values})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(bundle.Manifests), "EXP_BOOTSTRAP_FORMAT_IGNITION") {
				ignition++
			}
			if diff := cmp.Diff(asPredecessor(t, bundle), contents(set.Operands[0].Objects)); diff != "" {
				t.Errorf("(-cluster-capi-operator +installer):\n%s", diff)
			}
		})
	}
	if ignition == 0 {
		t.Error("no bundle depends on Ignition; want the provider of AWS")
	}
}

// asPredecessor renders a bundle as cluster-capi-operator does.
func asPredecessor(t *testing.T, bundle extractor.Bundle) []map[string]any {
	t.Helper()
	text, err := envsubst.Eval(string(bundle.Manifests), func(name string) (string, bool) { return predecessorVariables[name], true })
	if err != nil {
		t.Fatal(err)
	}
	objects, err := yamldoc.Objects([]byte(strings.ReplaceAll(text, bundle.Metadata.ImageName, bundle.Origin.Image)))
	if err != nil {
		t.Fatal(err)
	}
	return contents(objects)
}

// contents returns the content of objects. The namespace of a cluster-scoped object is omitted: the API server drops it.
func contents(objects []*unstructured.Unstructured) (all []map[string]any) {
	for _, object := range objects {
		if strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy") {
			object.SetNamespace("")
		}
		all = append(all, object.Object)
	}
	return all
}

// shippedBundles returns the bundles of forks and of the folder of providers, by name.
func shippedBundles(t *testing.T) map[string]extractor.Bundle {
	t.Helper()
	rendered, err := fixture.RenderedProviders()
	if err != nil {
		t.Fatal(err)
	}
	origin := extractor.Origin{Name: "image", Image: "quay.io/example/provider@sha256:" + strings.Repeat("a", 64)}
	found := map[string]extractor.Bundle{}
	for _, provider := range rendered {
		if strings.HasPrefix(provider.Folder, "openshift-") {
			found[provider.Folder] = extractor.Bundle{Origin: origin, Manifests: provider.Components, Metadata: extractor.Metadata{
				ProviderName: provider.Name, ProviderType: provider.Type, ImageName: provider.ImageName, OCPPlatform: provider.Platform,
			}}
		}
	}
	forks, err := fixture.Forks()
	if err != nil {
		t.Fatal(err)
	}
	for _, fork := range forks {
		bundles, err := fork.Shipped.Bundles(origin)
		if err != nil || len(bundles) != 1 {
			t.Fatalf("%s: %d bundles, %v", fork.Folder, len(bundles), err)
		}
		found[fork.Folder] = bundles[0]
	}
	if len(found) == 0 {
		t.Fatal("PROVIDERS and FORKS are not set")
	}
	return found
}
