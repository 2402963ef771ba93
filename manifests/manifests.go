// SPDX-License-Identifier: Apache-2.0

// Package manifests embeds the installer's manifests in the release payload: namespaces,
// CRD, service account, permissions, Deployment and admission policies. They are
// applied in the order of the file names.
package manifests

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

//go:generate go tool -modfile=../tools/go.mod controller-gen object:headerFile=../tools/header.go.txt paths=../api/...
//go:generate sh -c "{ echo '# SPDX-License-Identifier: Apache-2.0'; go tool -modfile=../tools/go.mod controller-gen crd paths=../api/... output:crd:stdout; } > 0000_30_cluster-api_01_clusterapis.crd.yaml"

// ProvidersRole is the name of the ClusterRole, of the Role in the providers' namespace,
// and of their bindings, that allow the installer to install any provider.
const ProvidersRole = "openshift-capi-installer-providers"

//go:embed 0000_30_*.yaml
var files embed.FS

// Components are the kustomize components for installations with other settings.
//
//go:embed components
var Components embed.FS

// Objects returns the objects that a release applies, in that order. The objects of cluster-capi-operator that it deletes are omitted.
func Objects() ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		decoded, err := yamldoc.Objects(content)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		objects = append(objects, decoded...)
	}
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
		return object.GetAnnotations()["release.openshift.io/delete"] == "true"
	}), nil
}
