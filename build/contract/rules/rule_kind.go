// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

// kindRules are the rules about kinds with a role that the table of fields cannot express.
var kindRules = []contract.Rule{{
	ID:       "infra-cluster/failure-domains-key",
	Severity: contract.Warning,
	Source:   forInfraCluster("InfraCluster: failure domains"),
	Why:      "Every writer replaces a list without a key as a whole, and the list can contain a failure domain twice.",
	Fix:      "Set x-kubernetes-list-type: map and x-kubernetes-list-map-keys: [name].",
	Check: newInfraCluster.whenThere("status.failureDomains", func(d *contract.Definition) contract.Findings {
		list, _ := contract.SchemaField(d.Schema, "status.failureDomains")
		if contract.SchemaType(list) != contract.TypeArray || contract.Contains(list.At("x-kubernetes-list-map-keys"), "name") {
			return nil
		}
		return list.Finding("status.failureDomains in version %s is not a list map with the key name", d.Version)
	}),
}, {
	ID:       "infra-machine/address-types",
	Severity: contract.Warning,
	Source:   forInfraMachine("InfraMachine: addresses"),
	Why:      "A Machine can have addresses of these types. The API server rejects a status with a type that the schema does not allow, so the provider cannot report it.",
	Fix:      "Allow " + strings.Join(addressTypes, ", ") + ", or remove the enum.",
	Check:    anInfraMachine.whenThere("status.addresses[].type", checkAddressTypes),
}, {
	ID:       "infra-machine-template/capacity",
	Severity: contract.Error,
	Source:   forInfraMachine("InfraMachineTemplate: support cluster autoscaling from zero"),
	Why:      "To scale from zero, the cluster autoscaler reads here the resources, the architecture and the operating system of a future node.",
	Fix:      "Make status.capacity a map of quantities and status.nodeInfo an object with strings, and add the status subresource.",
	Check:    eachDefinition(contract.Definitions.Templates, checkCapacity),
}, {
	ID:       "control-plane/status-version",
	Severity: contract.Error,
	Source:   forControlPlane("ControlPlane: version"),
	Why:      "A control plane with spec.version reports its version in status.versions or status.version. Without them Cluster API takes it for a control plane before its first version, under each contract: MachineSets create no Machines, and the webhook of Clusters rejects another version with \"control plane is currently provisioning\".",
	Fix:      "Add status.versions, a list of version and replicas, or the string status.version.",
	Check: aControlPlane.whenThere("spec.version", func(d *contract.Definition) contract.Findings {
		if d.HasField("status.versions") {
			if list, _ := contract.SchemaField(d.Schema, "status.versions"); contract.SchemaType(list) != contract.TypeArray {
				return nil // reported by another rule
			}
			return d.Missing("status.versions[].version")
		}
		return d.Missing("status.version")
	}),
}, {
	ID:       "control-plane/scale-subresource",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: replicas"),
	Why:      "\"kubectl scale\" and autoscalers read and set replicas only through this subresource.",
	Fix:      "Add subresources.scale with .spec.replicas, .status.replicas and .status.selector.",
	Check:    aControlPlane.whenThere("spec.replicas", checkScale),
}, {
	ID:       "ipam/rbac",
	Severity: contract.Warning,
	Source:   forIPAM("Behavior"),
	Why:      "The provider watches IPAddressClaims and answers each with an IPAddress. It needs the permissions.",
	Fix:      "Grant get, list and watch of ipaddressclaims, patch or update of ipaddressclaims/status, and get, list, watch, create and delete of ipaddresses in ipam.cluster.x-k8s.io.",
	Check: func(b *contract.Bundle) contract.Findings {
		if b.Metadata.ProviderType != extractor.IPAM {
			return nil
		}
		return b.Grants.Lacking(b, "ipam.cluster.x-k8s.io",
			contract.Need("ipaddressclaims", "get", "list", "watch"), contract.Need("ipaddressclaims/status", "patch|update"),
			contract.Need("ipaddresses", "get", "list", "watch", "create", "delete"))
	},
}}

var addressTypes = []string{"Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"}

func checkAddressTypes(d *contract.Definition) contract.Findings {
	kind, _ := contract.SchemaField(d.Schema, "status.addresses[].type")
	allowed := kind.At("enum")
	if allowed.Length() == 0 {
		return nil
	}
	for _, name := range addressTypes {
		if !contract.Contains(allowed, name) {
			return allowed.Finding("the schema of version %[2]s does not allow the type %[1]s", name, d.Version)
		}
	}
	return nil
}

func checkCapacity(d *contract.Definition) (findings contract.Findings) {
	if d.Role != contract.InfraMachine {
		return nil
	}
	for field, kind := range map[string]string{
		"status.capacity": contract.TypeObject, "status.nodeInfo": contract.TypeObject,
		"status.nodeInfo.architecture": contract.TypeString, "status.nodeInfo.operatingSystem": contract.TypeString,
	} {
		findings = append(findings, d.Mistyped(field, kind)...)
	}
	subresource := contract.VersionOf(d.Object, d.Version).At("subresources", "status")
	if capacity, _ := contract.SchemaField(d.Schema, "status.capacity"); capacity.Exists() && subresource.Node == nil {
		findings = append(findings, subresource.Finding("version %s has status.capacity without the subresource", d.Version).As(contract.Warning)...) // all but the optional feature works
	}
	return findings
}

func checkScale(d *contract.Definition) contract.Findings {
	scale := contract.VersionOf(d.Object, d.Version).At("subresources", "scale")
	for field, path := range map[string]string{
		"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
	} {
		if scale.At(field).Text() != path {
			return scale.Finding("version %s has spec.replicas, but no complete scale subresource", d.Version)
		}
	}
	return nil
}

// The kinds of rules about other fields than the table of fields has.
var (
	newInfraCluster = subject{contract.InfraCluster, "v1beta2"}
	anInfraMachine  = subject{role: contract.InfraMachine}
	aControlPlane   = subject{role: contract.ControlPlane}
)

// subject selects the kinds that a rule about fields checks: those with a role, and with a contract if one is set.
type subject struct {
	role     contract.Role
	contract string
}

// whenThere limits a rule about other fields to kinds whose fields are known, and that have a field.
func (s subject) whenThere(field string, check func(*contract.Definition) contract.Findings) func(*contract.Bundle) contract.Findings {
	return eachDefinition(func(all contract.Definitions) contract.Definitions { return all.Of(s.role) }, func(d *contract.Definition) contract.Findings {
		if !d.Schema.Exists() || s.contract != "" && s.contract != d.Contract || !d.HasField(field) {
			return nil
		}
		return check(d)
	})
}
