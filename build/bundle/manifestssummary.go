// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"cmp"
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
)

// ManifestsSummaryFile is the file that manifests-gen writes beside the manifests with --manifests-summary.
const ManifestsSummaryFile = "manifests-summary.yaml"

// summaryEntry identifies an object in ManifestsSummaryFile.
type summaryEntry struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace,omitempty"`
}

// ManifestsSummary lists the objects of a bundle, sorted by kind, API version, name and namespace.
func ManifestsSummary(b extractor.Bundle) ([]byte, error) {
	objects, err := Objects(b)
	if err != nil {
		return nil, err
	}
	entries := make([]summaryEntry, len(objects))
	for i, object := range objects {
		entries[i] = summaryEntry{object.GetAPIVersion(), object.GetKind(), object.GetName(), object.GetNamespace()}
	}
	slices.SortFunc(entries, func(a, b summaryEntry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
	text, err := yaml.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", ManifestsSummaryFile, err)
	}
	return text, nil
}
