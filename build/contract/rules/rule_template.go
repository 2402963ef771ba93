// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

// templateRules are the rules of the theme "template".
var templateRules = []contract.Rule{{
	ID:       "template/named-after-resource",
	Severity: contract.Error,
	Source:   forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition"),
	Why:      "Cluster API derives the kind of an object from the kind of its template by removing the suffix Template.",
	Fix:      "Add the CRD of the kind, in the same group, or rename the template.",
	Check: func(b *contract.Bundle) (findings contract.Findings) {
		for _, d := range b.Definitions.Templates() {
			if kind := strings.TrimSuffix(d.DefinedKind, "Template"); b.Definitions.Kind(d.Group, kind) == nil {
				findings = append(findings, d.At("spec", "names", "kind").Finding("CRD of %s in %s not found", kind, d.Group)...)
			}
		}
		return findings
	},
}, {
	ID:       "template/spec-template-spec",
	Severity: contract.Error,
	Source:   forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition"),
	Why:      "Cluster API copies spec.template.spec to the spec of the objects that it creates, and fails without it.",
	Fix:      "Put the spec of the objects into spec.template.spec.",
	Check: eachTemplate(func(d *contract.Definition) contract.Findings {
		return append(d.Missing("spec.template.spec"), d.Mistyped("spec.template.spec", contract.TypeObject)...)
	}),
}, {
	ID:       "template/metadata-not-pruned",
	Severity: contract.Warning,
	Source:   forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition"),
	Why:      "The API server silently drops the content of a field without properties.",
	Fix:      "Use the type ObjectMeta of Cluster API, with labels and annotations, not the type of Kubernetes.",
	Check: eachTemplate(func(d *contract.Definition) contract.Findings {
		metadata, _ := contract.SchemaField(d.Schema, "spec.template.metadata")
		keeps := metadata.At("properties").Node != nil || metadata.At("x-kubernetes-preserve-unknown-fields").Text() == "true"
		if !metadata.Exists() || keeps {
			return nil
		}
		return metadata.Finding("spec.template.metadata has no fields in version %s", d.Version)
	}),
}, {
	ID:       "template/same-contract",
	Severity: contract.Error,
	Source:   resourceVersions,
	Why:      "Cluster API creates an object in the version of its template. The CRD of the object must have the same version under the same contract.",
	Fix:      "Give both CRDs the same contract labels.",
	Check: func(b *contract.Bundle) (findings contract.Findings) {
		for _, d := range b.Definitions.Templates() {
			of := b.Definitions.Kind(d.Group, strings.TrimSuffix(d.DefinedKind, "Template"))
			if of != nil && d.Schema.Exists() && of.Schema.Exists() && (d.Contract != of.Contract || d.Version != of.Version) {
				findings = append(findings, contract.LabelOf(d.Object, d.Contract).Finding("the template has %s in version %s, but %s has %s in version %s",
					d.Contract, d.Version, of.DefinedKind, of.Contract, of.Version)...)
			}
		}
		return findings
	},
}, {
	ID:       "template/ssa-dry-run-cel",
	Severity: contract.Warning,
	Source:   forInfraMachine("InfraMachineTemplate: support for SSA dry run"),
	Why:      "Cluster API compares templates by dry-run requests. A CEL rule of the CRD cannot detect a dry run or its annotation, and rejects it: ClusterClasses cannot be used.",
	Fix:      "Make templates immutable with a webhook that allows dry runs with the annotation topology.cluster.x-k8s.io/dry-run.",
	Check:    eachTemplate(checkImmutableByCEL),
}}

// eachTemplate checks the templates whose fields are known.
func eachTemplate(check func(*contract.Definition) contract.Findings) func(*contract.Bundle) contract.Findings {
	return eachDefinition(func(all contract.Definitions) contract.Definitions {
		return contract.Filter(all.Templates(), func(d *contract.Definition) bool { return d.Schema.Exists() })
	}, check)
}

// isComparedByDryRun reports whether Cluster API compares objects of a template by dry runs.
func isComparedByDryRun(d *contract.Definition) bool {
	return d.Template && (d.Role == contract.InfraMachine || d.Role == contract.InfraMachinePool || d.Role == contract.BootstrapConfig)
}

func checkImmutableByCEL(d *contract.Definition) (findings contract.Findings) {
	template, _ := contract.SchemaField(d.Schema, "spec.template")
	if !isComparedByDryRun(d) || !template.Exists() {
		return nil
	}
	for value := range template.All() {
		for _, rule := range value.At("x-kubernetes-validations").Items() {
			if text := rule.At("rule"); strings.Contains(text.Text(), "oldSelf") {
				findings = append(findings, text.Finding("the CEL rule depends on the old value")...)
			}
		}
	}
	return findings
}
