// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

const manifests = `
{apiVersion: v1, kind: Service, metadata: {name: webhook, namespace: openshift-cluster-api}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: manager, namespace: openshift-cluster-api}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: clusters.cluster.x-k8s.io}}
`

func newSet() operand.Set {
	objects, err := yamldoc.Objects([]byte(manifests))
	if err != nil {
		panic(err)
	}
	return operand.Set{Operands: []operand.Operand{{Name: "cluster-api", Type: extractor.Core, Version: "v1.0.0", Objects: objects}}}
}

// CRDs are in a phase of their own; the other objects follow in apply order.
func ExamplePhases() {
	phases, err := revision.Phases("4.22.0-1", 1, newSet(), nil)
	if err != nil {
		panic(err)
	}
	for _, phase := range phases {
		fmt.Println(phase.Name)
		for _, o := range phase.Objects {
			fmt.Println(" ", object.Describe(o))
		}
	}
	// Output:
	// cluster-api-crds
	//   CustomResourceDefinition clusters.cluster.x-k8s.io
	// cluster-api
	//   ServiceAccount openshift-cluster-api/manager
	//   Service openshift-cluster-api/webhook
}

// A version is read from its ConfigMaps alone.
func ExampleFromConfigMaps() {
	stored, err := revision.Encode(newSet())
	if err != nil {
		panic(err)
	}
	var existing []corev1.ConfigMap
	for _, configMap := range revision.ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1", metav1.OwnerReference{}, stored) {
		existing = append(existing, *configMap)
	}
	found, err := revision.FromConfigMaps("4.22.0-1", existing)
	if err != nil {
		panic(err)
	}
	set, err := found.Decode()
	fmt.Println(len(existing), "ConfigMap with", len(set.Operands[0].Objects), "objects", err)
	_, err = revision.FromConfigMaps("4.22.0-2", existing)
	fmt.Println(err)
	// Output:
	// 1 ConfigMap with 3 objects <nil>
	// version 4.22.0-2: ConfigMap 4.22.0-2: not found
}

// The number is higher than the numbers of all versions, of any release.
func ExampleNext() {
	history := []v1alpha1.Version{{Name: "4.21.9-7", Revision: 7}}
	fmt.Println(revision.Next(history, "4.22.0"))
	// Output: 4.22.0-8 8 <nil>
}
