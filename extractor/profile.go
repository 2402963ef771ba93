// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"bytes"
	"fmt"
	"maps"
	"path"

	"go.yaml.in/yaml/v3"
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
