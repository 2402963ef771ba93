// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/google/go-cmp/cmp"
)

func TestReadRelease_DetectsProvider(t *testing.T) {
	const labelled = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x, labels: {cluster.x-k8s.io/provider: ipam-in-cluster}}\n"
	for _, scenario := range []struct {
		dir, file, text string
		want            extractor.Metadata
	}{
		{"infrastructure-aws/v2.10.0", "infrastructure-components.yaml", "", extractor.Metadata{ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, ProviderVersion: "v2.10.0"}},
		{"cluster-api/v1.10.2", "core-components.yaml", "", extractor.Metadata{ProviderName: "cluster-api", ProviderType: extractor.Core, ProviderVersion: "v1.10.2"}},
		{"control-plane-rke2/v1.0.0", "install.yaml", "", extractor.Metadata{ProviderName: "cluster-api-provider-rke2", ProviderType: extractor.ControlPlane, ProviderVersion: "v1.0.0"}},
		{"", "install.yaml", labelled, extractor.Metadata{ProviderName: "cluster-api-provider-in-cluster", ProviderType: extractor.IPAM}},
		{"", "addon-components.yaml", "", extractor.Metadata{ProviderType: extractor.Addon}},
		{"", "install.yaml", "", extractor.Metadata{}},
	} {
		read := readRelease(Release{Dir: scenario.dir, Files: map[string][]byte{scenario.file: []byte(scenario.text)}})
		if diff := cmp.Diff(scenario.want, read[0].Metadata); diff != "" {
			t.Errorf("%s/%s (-want +got):\n%s", scenario.dir, scenario.file, diff)
		}
	}
}
