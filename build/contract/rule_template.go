// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"

	"github.com/capi-installer/capi-installer/internal/object"
)

// templateRules are the rules of the theme "template".
var templateRules = []Rule{{
	ID:       "template/named-after-resource",
	Severity: Error,
	Source:   forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition"),
	Why:      "Cluster API derives the kind of an object from the kind of its template by removing the suffix Template.",
	Fix:      "Add the CRD of the kind, in the same group, or rename the template.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, d := range b.templates() {
			if kind := strings.TrimSuffix(d.DefinedKind, "Template"); b.defined(d.Group, kind) == nil {
				findings = append(findings, d.At("spec", "names", "kind").finding("CRD of %s in %s not found", kind, d.Group))
			}
		}
		return findings
	},
}, {
	ID:       "template/spec-template-spec",
	Severity: Error,
	Source:   forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition"),
	Why:      "Cluster API copies spec.template.spec to the spec of the objects that it creates, and fails without it.",
	Fix:      "Put the spec of the objects into spec.template.spec.",
	Check: eachTemplate(func(d *definition) []Finding {
		return append(d.missing("spec.template.spec"), d.mistyped("spec.template.spec", anObject)...)
	}),
}, {
	ID:       "template/spec-template-metadata",
	Severity: Info,
	Source:   forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition"),
	Why:      "spec.template.metadata has the labels and annotations of the objects that are created from a template.",
	Fix:      "Add spec.template.metadata, of the type ObjectMeta of Cluster API.",
	Check:    eachTemplate(func(d *definition) []Finding { return d.missing("spec.template.metadata") }),
}, {
	ID:       "template/no-status-ready",
	Severity: Info,
	Source:   forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition"),
	Why:      "No controller reconciles a template, so status.ready in one is never set, although it suggests a condition to wait for.",
	Fix:      "Remove status.ready from the template; Cluster API reads only capacity and nodeInfo of its status.",
	Check: eachTemplate(func(d *definition) []Finding {
		if ready, _ := fieldOf(d.Schema, "status.ready"); ready.Exists() {
			return []Finding{ready.finding("status.ready has no effect in a template")}
		}
		return nil
	}),
}, {
	ID:       "template/metadata-not-pruned",
	Severity: Warning,
	Source:   forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition"),
	Why:      "The API server silently drops the content of a field without properties.",
	Fix:      "Use the type ObjectMeta of Cluster API, which has labels and annotations, not that of Kubernetes.",
	Check: eachTemplate(func(d *definition) []Finding {
		metadata, _ := fieldOf(d.Schema, "spec.template.metadata")
		keeps := metadata.At("properties").node != nil || metadata.At("x-kubernetes-preserve-unknown-fields").Text() == "true"
		if !metadata.Exists() || keeps {
			return nil
		}
		return []Finding{metadata.finding("spec.template.metadata has no fields in version %s", d.Version)}
	}),
}, {
	ID:       "template/same-contract",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Cluster API creates an object in the version of its template. The CRD of the object must have the same version under the same contract.",
	Fix:      "Give both CRDs the same contract labels.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, d := range b.templates() {
			of := b.defined(d.Group, strings.TrimSuffix(d.DefinedKind, "Template"))
			if of != nil && d.Schema.Exists() && of.Schema.Exists() && (d.Contract != of.Contract || d.Version != of.Version) {
				findings = append(findings, contractOf(d.Object, d.Contract).finding("the template has %s in version %s, but %s has %s in version %s",
					d.Contract, d.Version, of.DefinedKind, of.Contract, of.Version))
			}
		}
		return findings
	},
}, {
	ID:       "template/ssa-dry-run-webhook",
	Severity: Info,
	Source:   forInfraMachine("InfraMachineTemplate: support for SSA dry run"),
	Why:      "Cluster API compares templates by dry-run requests, which a webhook for immutable templates must allow. The manifests do not show whether it does.",
	Fix:      "Allow updates that are dry runs with the annotation topology.cluster.x-k8s.io/dry-run.",
	Check:    checkImmutableByWebhook,
}, {
	ID:       "template/ssa-dry-run-cel",
	Severity: Warning,
	Source:   forInfraMachine("InfraMachineTemplate: support for SSA dry run"),
	Why:      "Cluster API compares templates by dry-run requests. A CEL rule of the CRD cannot detect a dry run or its annotation, and rejects it: ClusterClasses cannot be used.",
	Fix:      "Make templates immutable with a webhook that allows dry runs with the annotation topology.cluster.x-k8s.io/dry-run.",
	Check:    eachTemplate(checkImmutableByCEL),
}, {
	ID:       "template/webhook-side-effects",
	Severity: Error,
	Source:   kubernetes("Side effects", webhooksPage),
	Why:      "The API server rejects a dry run that matches a webhook with side effects, and Cluster API compares templates by dry runs.",
	Fix:      "Set sideEffects to None or NoneOnDryRun.",
	Check: eachWebhook(func(webhook Value) []Finding {
		effects := webhook.At("sideEffects")
		if text := effects.Text(); text == "None" || text == "NoneOnDryRun" {
			return nil
		}
		return []Finding{effects.finding("the webhook may have side effects in a dry run")}
	}),
}}

// eachTemplate checks the templates whose fields are known.
func eachTemplate(check func(*definition) []Finding) func(*Bundle) []Finding {
	return eachDefinition(func(b *Bundle) []*definition {
		return filter(b.templates(), func(d *definition) bool { return d.Schema.Exists() })
	}, check)
}

// isComparedByDryRun reports whether Cluster API compares objects of a template by dry runs.
func isComparedByDryRun(d *definition) bool {
	return d.Template && (d.Role == infraMachine || d.Role == infraMachinePool || d.Role == bootstrapConfig)
}

func checkImmutableByWebhook(b *Bundle) (findings []Finding) {
	for _, o := range b.ofKind(object.ValidatingWebhookConfiguration) {
		for _, webhook := range o.At("webhooks").Items() {
			for _, rule := range webhook.At("rules").Items() {
				if !contains(rule.At("operations"), "UPDATE") && !contains(rule.At("operations"), "*") {
					continue
				}
				for _, d := range b.templates() {
					if isComparedByDryRun(d) && contains(rule.At("apiGroups"), d.Group) && contains(rule.At("resources"), d.At("spec", "names", "plural").Text()) {
						findings = append(findings, rule.At("resources").finding("the webhook validates updates of %s", d.DefinedKind))
					}
				}
			}
		}
	}
	return findings
}

func checkImmutableByCEL(d *definition) (findings []Finding) {
	template, _ := fieldOf(d.Schema, "spec.template")
	if !isComparedByDryRun(d) || !template.Exists() {
		return nil
	}
	for value := range template.All() {
		for _, rule := range value.At("x-kubernetes-validations").Items() {
			if text := rule.At("rule"); strings.Contains(text.Text(), "oldSelf") {
				findings = append(findings, text.finding("the CEL rule depends on the old value"))
			}
		}
	}
	return findings
}
