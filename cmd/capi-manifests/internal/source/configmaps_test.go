// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
)

// directoryWithList writes the transport ConfigMaps of a bundle as one List, and returns their directory.
func directoryWithList(t *testing.T, manifests string) string {
	t.Helper()
	metadata := extractor.Metadata{ProviderName: "core", ProviderType: extractor.Core, ProviderVersion: "v1.13.0", ContentID: digest.FromString(manifests)}
	configMaps, err := configmap.ConfigMaps(extractor.Bundle{Metadata: metadata, Manifests: []byte(manifests)}, "4.22.3")
	if err != nil {
		t.Fatal(err)
	}
	list, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": configMaps})
	if err != nil {
		t.Fatal(err)
	}
	return directory(t, "-- list.yaml --\n"+string(list))
}

// kubectl and the cluster version operator apply the items of a List too.
func TestBundles_TransportConfigMapsInAList(t *testing.T) {
	for form, manifests := range map[string]string{
		"text": manifestsYAML, "compressed": manifestsYAML + "# " + strings.Repeat("-", 1<<20) + "\n",
	} {
		t.Run(form, func(t *testing.T) {
			bundles, _, err := Bundles(t.Context(), io.Discard, directoryWithList(t, manifests))
			if err != nil || len(bundles) != 1 {
				t.Fatalf("%d bundles, error %v", len(bundles), err)
			}
			if got := bundles[0]; got.Metadata.ProviderName != "core" || string(got.Manifests) != manifests {
				t.Errorf("bundle of %s with manifests of %d bytes", got.Metadata.ProviderName, len(got.Manifests))
			}
		})
	}
}

// Parsers differ in the value that they take for a duplicate key.
func TestBundles_DuplicateKeyInTransportConfigMap(t *testing.T) {
	dir := directory(t, "-- aws.yaml --\nkind: ConfigMap\nmetadata:\n  labels: {capi-operator.openshift.io/manifest-bundle: aws}\n  labels: {capi-operator.openshift.io/manifest-bundle: core}\n")
	_, _, err := Bundles(t.Context(), io.Discard, dir)
	if _, invalid := errors.AsType[*InvalidError](err); !invalid || !strings.Contains(err.Error(), `aws.yaml: line 1 (document 1): `) || !strings.Contains(err.Error(), `line 4: key "labels" already set in map`) {
		t.Errorf("error %v, want an *InvalidError that names file, line and key", err)
	}
}
