// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// ProfileFiles encodes the bundle in the second layout, in the directory of its
// Profile. It fails if Bundles would reject the files.
func (b Bundle) ProfileFiles() (Files, error) {
	metadata, err := encodeYAML(b.Metadata, b.Attributes)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", metadataYAML, err)
	}
	dir := path.Join(profilesRoot, b.Profile)
	files := Files{
		path.Join(dir, metadataYAML):  metadata,
		path.Join(dir, manifestsYAML): b.Manifests,
	}
	if _, err := files.Bundles(b.Origin); err != nil {
		return nil, err
	}
	return files, nil
}

// encodeYAML writes metadata.yaml.
func encodeYAML(m Metadata, attributes map[string]any) ([]byte, error) {
	all := map[string]any{}
	maps.Copy(all, attributes)
	if m.ProviderType != "" {
		all["type"] = string(m.ProviderType)
	}
	if m.ProviderVersion != "" {
		all["version"] = m.ProviderVersion
	}
	if m.ClusterProfile != OpenShift {
		all["clusterProfile"] = string(m.ClusterProfile)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(struct { // the keys are sorted, as manifests-gen writes them
		Attributes   map[string]any `yaml:"attributes,omitempty"`
		InstallOrder int            `yaml:"installOrder,omitempty"`
		Name         string         `yaml:"name"`
		OCPPlatform  string         `yaml:"ocpPlatform,omitempty"`
		SelfImageRef string         `yaml:"selfImageRef,omitempty"`
	}{all, m.InstallOrder, m.ProviderName, m.OCPPlatform, m.ImageName})
	return out.Bytes(), err
}

const (
	clusterCRD          = "clusters.cluster.x-k8s.io"
	infrastructureGroup = ".infrastructure.cluster.x-k8s.io"
)

// typeOf returns the type of the provider that manifests install: core if they contain the CRD of Cluster, infrastructure
// if they contain a CRD of an infrastructure provider; empty otherwise. Invalid documents have no CRD.
func typeOf(manifests []byte) (found ProviderType) {
	for _, document := range yamldoc.SplitNonEmpty(manifests) {
		if !mayDefine(document.Text, clusterCRD) && (found != "" || !mayDefine(document.Text, infrastructureGroup)) {
			continue
		}
		objects, _ := document.Parse(document.Text) // rendering reports the error
		for _, fields := range objects {
			switch name := crdName(fields); {
			case name == clusterCRD:
				return Core
			case strings.HasSuffix(name, infrastructureGroup):
				found = Infrastructure
			}
		}
	}
	return found
}

// mayDefine reports whether a document may contain a CRD whose name ends in a text, so that it must be parsed.
func mayDefine(document []byte, end string) bool {
	return bytes.Contains(document, []byte("CustomResourceDefinition")) && bytes.Contains(document, []byte(end))
}

// crdName returns the name of a CRD; empty for other objects.
func crdName(fields map[string]any) string {
	if fields["kind"] != "CustomResourceDefinition" {
		return ""
	}
	metadata, _ := fields["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}
