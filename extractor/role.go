// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"bytes"
	"strings"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

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
