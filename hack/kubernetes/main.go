// SPDX-License-Identifier: Apache-2.0

// Program kubernetes writes the manifests that install the installer in a cluster without OpenShift: deploy/kubernetes for
// kubectl, and deploy/helm for Helm. Both are derived from the manifests of an OpenShift release, with other names.
package main

import (
	"bytes"
	_ "embed"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/hack/generated"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/manifests"
)

func main() { generated.Main(generate) }

const header = "# SPDX-License-Identifier: Apache-2.0\n# Generated from manifests by make generate.\n"

// generate returns the files by their paths in the repository.
func generate(string) (map[string][]byte, error) {
	objects, err := installation(v1alpha1.KubernetesNamespaces)
	if err != nil {
		return nil, err
	}
	plain, err := stream(objects)
	if err != nil {
		return nil, err
	}
	charts, err := chart()
	if err != nil {
		return nil, err
	}
	charts["deploy/kubernetes/capi-installer.yaml"] = plain
	if err := namespace(charts); err != nil {
		return nil, err
	}
	return charts, nil
}

// stream returns the objects as YAML documents.
func stream(objects []*unstructured.Unstructured) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(header)
	for i, o := range objects {
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(document)
	}
	return out.Bytes(), nil
}

// The objects that only a cluster without OpenShift has.
var (
	//go:embed written.yaml
	written []byte
	//go:embed registries.yaml
	registries []byte
	//go:embed serving-certificates.yaml
	servingCertificates []byte
	//go:embed view.yaml
	view []byte
)

// installation returns the objects that install the installer in a cluster without OpenShift, in the order of their creation.
func installation(namespaces v1alpha1.Namespaces) ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Objects()
	if err != nil {
		return nil, err
	}
	var kept []*unstructured.Unstructured
	for _, o := range objects {
		if forKubernetes(o) {
			kept = append(kept, o)
		}
	}
	for _, file := range [][]byte{registries, servingCertificates, view, written} {
		more, err := yamldoc.Objects(file)
		if err != nil {
			return nil, err
		}
		kept = append(kept, more...)
	}
	for _, o := range kept {
		if err := adapt(o, namespaces); err != nil {
			return nil, fmt.Errorf("adapting %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return kept, nil
}
