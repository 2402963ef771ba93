// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"fmt"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/report"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// An image with two components has one node. The objects are in the order of the phases, not of the manifests.
func ExampleNewTree() {
	component := func(name, manifests string) operand.Operand {
		objects, err := yamldoc.Objects([]byte(manifests))
		if err != nil {
			panic(err)
		}
		return operand.Operand{Name: name, Version: "v1.0.0", Settings: []string{"featureGates[" + name + "]"}, Origin: extractor.Origin{Image: "quay.io/me/capi"}, Objects: objects}
	}
	images, err := report.NewTree("4.22.0-1", 1, operand.Set{Operands: []operand.Operand{
		component("core", `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: manager, namespace: capi}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: manager, namespace: capi}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: clusters.cluster.x-k8s.io}}
`),
		component("ipam", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: ipam, namespace: capi}}"),
	}}, nil)
	if err != nil {
		fmt.Println(err)
	}
	for _, image := range images {
		var out bytes.Buffer
		image.Draw(&out)
		fmt.Print(out.String())
	}
	// Output:
	// quay.io/me/capi
	// ├── core v1.0.0
	// │   ├── featureGates[core]
	// │   ├── core-crds
	// │   │   └── CustomResourceDefinition
	// │   │       └── clusters.cluster.x-k8s.io
	// │   └── core
	// │       ├── ServiceAccount
	// │       │   └── capi/manager
	// │       └── Deployment
	// │           └── capi/manager
	// └── ipam v1.0.0
	//     ├── featureGates[ipam]
	//     └── ipam
	//         └── ServiceAccount
	//             └── capi/ipam
}
