// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

const crdOf = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s, labels: {%[3]s}}
spec:
  group: %[2]s
  names: {kind: %[1]s, plural: x}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {%[4]s}}}
---
`

func TestDefine_RolesByLabelKindAndFields(t *testing.T) {
	t.Parallel()
	const (
		foreign   = "capi-provider.agent-install.openshift.io"
		label     = "cluster.x-k8s.io/v1beta1: v1"
		endpoint  = "spec: {properties: {controlPlaneEndpoint: {properties: {host: {type: string}, port: {type: integer}}}}}"
		machine   = "spec: {properties: {providerID: {type: string}}}"
		data      = "status: {properties: {dataSecretName: {type: string}}}"
		pool      = "spec: {properties: {addresses: {}, gateway: {}, prefix: {}}}"
		instances = "spec: {properties: {providerIDList: {type: array}}}"
	)
	for _, c := range []struct {
		kind, group, labels, fields string
		want                        contract.Role
	}{
		{"AgentCluster", foreign, label, endpoint, contract.InfraCluster},
		{"AgentCluster", foreign, "", endpoint, contract.InfraCluster}, // its missing label is a finding
		{"AgentMachine", foreign, label, machine, contract.InfraMachine},
		{"AgentMachine", foreign, "", machine, ""},
		{"AgentMachineTemplate", foreign, label, "spec: {properties: {template: {properties: {spec: {type: object}}}}}", contract.InfraMachine},
		{"AgentMachinePool", foreign, label, instances, contract.InfraMachinePool},
		{"AgentConfig", foreign, label, data, contract.BootstrapConfig},
		{"FleetConfig", "addons.example.com", label, machine, ""},
		{"AgentIPPool", foreign, "", pool, contract.IPAMPool},
		{"Cluster", "cluster.x-k8s.io", label, endpoint, ""},
		{"Machine", "cluster.x-k8s.io", label, machine, ""},
		{"AWSCluster", "infrastructure.cluster.x-k8s.io", "", endpoint, contract.InfraCluster},
		{"AWSCluster", "vmware.infrastructure.cluster.x-k8s.io", "", endpoint, contract.InfraCluster},
		{"DemoControlPlane", "example.com", "", "status: {properties: {initialized: {type: boolean}}}", contract.ControlPlane},
	} {
		b := contract.Read(extractor.Bundle{Manifests: fmt.Appendf(nil, crdOf, c.kind, c.group, c.labels, c.fields)})
		if got := b.Definitions[0].Role; got != c.want {
			t.Errorf("%s in %s, label %q: role %q, want %q", c.kind, c.group, c.labels, got, c.want)
		}
	}
}

// A provider in its own group fulfills the contract, except for the role that it must aggregate to Cluster API's.
func TestCheck_ProviderInGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	manifests := fmt.Sprintf(crdOf, "AgentCluster", "agent.example.com", "cluster.x-k8s.io/v1beta1: v1", "spec: {properties: {controlPlaneEndpoint: {properties: {host: {type: string}, port: {type: integer}}}}}") +
		fmt.Sprintf(crdOf, "AgentMachine", "agent.example.com", "cluster.x-k8s.io/v1beta1: v1", "spec: {properties: {providerID: {type: string}}}")
	counts := map[string]int{}
	for _, f := range contract.Check(extractor.Bundle{Metadata: extractor.Metadata{ProviderType: extractor.Infrastructure}, Manifests: []byte(manifests)}, All()) {
		counts[f.Rule]++
	}
	want := map[string]int{"contract/kind-present": 0, "rbac/aggregation-label": 2, "contract/field-present": 2}
	for rule, number := range want {
		if counts[rule] != number {
			t.Errorf("%s: %d findings, want %d", rule, counts[rule], number)
		}
	}
}

// TestCheck_ProviderWithoutKindsIsWarned: clusterctl installs providers without kinds with a role, such as simulators.
func TestCheck_ProviderWithoutKindsIsWarned(t *testing.T) {
	t.Parallel()
	machine := fmt.Sprintf(crdOf, "DemoMachine", "infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io/v1beta2: v1", "spec: {properties: {providerID: {type: string}}}")
	for manifests, want := range map[string]int{machine: 1, "": 2} {
		got := 0
		for _, f := range contract.Check(extractor.Bundle{Metadata: extractor.Metadata{ProviderType: extractor.Infrastructure}, Manifests: []byte(manifests)}, All()) {
			if f.Rule == "contract/kind-present" && f.Severity == contract.Warning {
				got++
			}
		}
		if got != want {
			t.Errorf("%d warnings of contract/kind-present in %q, want %d", got, manifests, want)
		}
	}
}
