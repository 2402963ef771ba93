// SPDX-License-Identifier: Apache-2.0

// Package manifests is what the release installs to run the installer: its
// namespaces, CRD, identity, permissions, Deployment and admission policies. The
// files are applied in the order of their names.
package manifests

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:generate go tool -modfile=../tools/go.mod controller-gen object:headerFile=../tools/header.go.txt paths=../api/...
//go:generate sh -c "{ echo '# SPDX-License-Identifier: Apache-2.0'; go tool -modfile=../tools/go.mod controller-gen crd paths=../api/... output:crd:stdout; } > 0000_30_cluster-api_01_clusterapis.crd.yaml"

// ProvidersRole is the name of the ClusterRole, of the Role in the providers' namespace,
// and of their bindings, that let the installer install whatever providers there are.
const ProvidersRole = "openshift-capi-installer-providers"

//go:embed 0000_30_*.yaml
var files embed.FS

// Objects returns every object, in the order in which they are applied.
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
		decoded, err := decode(content)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

func decode(content []byte) ([]*unstructured.Unstructured, error) {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}
