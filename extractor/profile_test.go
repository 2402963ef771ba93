// SPDX-License-Identifier: Apache-2.0

package extractor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

func TestProfileFiles_RoundTrip(t *testing.T) {
	manifests := "kind: A\n"
	bundle := extractor.Bundle{
		Metadata: extractor.Metadata{
			ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, ProviderVersion: "v2.10.0", OCPPlatform: "AWS",
			ContentID: digest.FromString(manifests), ImageName: "registry.example.com/openshift:aws", InstallOrder: 20,
		},
		Profile: "featuregate-foo", Attributes: map[string]any{"team": "cloud", "since": 4}, Manifests: []byte(manifests),
	}
	written := bundle
	written.Attributes = map[string]any{"team": "cloud", "since": 4, "type": "ignored"}
	files, err := written.ProfileFiles()
	if err != nil {
		t.Fatal(err)
	}
	read, err := files.Bundles(extractor.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]extractor.Bundle{bundle}, read); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	metadata := string(files["capi-operator-manifests/featuregate-foo/metadata.yaml"])
	if !strings.Contains(metadata, "  since: 4\n  team: cloud\n  type: infrastructure\n  version: v2.10.0\n") {
		t.Errorf("metadata.yaml:\n%s", metadata)
	}
}

func TestProfileFiles_RejectsAnInvalidBundle(t *testing.T) {
	if _, err := (extractor.Bundle{Profile: "default", Manifests: []byte("kind: A\n")}).ProfileFiles(); err == nil {
		t.Error("error is nil")
	}
}
