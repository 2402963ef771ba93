// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/parallel"
	"github.com/gobuffalo/flect"
)

// crdRules are the rules of the theme "crd".
var crdRules = []contract.Rule{{
	ID:       "crd/valid",
	Severity: contract.Error,
	Source:   kubernetes("Specifying a structural schema", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server rejects a CRD whose schema is not structural, whose defaults are invalid, or whose CEL rules do not compile or exceed the cost limit. This rule runs the validation code of the API server.",
	Fix:      "Correct the Go type and its markers, and regenerate the CRD.",
	Check: func(b *contract.Bundle) contract.Findings {
		return slices.Concat(parallel.Map(b.Definitions, checkValid)...)
	},
}, {
	ID:       "crd/name-calculate",
	Severity: contract.Error,
	Source:   forInfraCluster("All resources: CRD name"),
	Why:      "Cluster API derives the name of a CRD from the kind, so it does not find a CRD with another plural.",
	Fix:      "Use the plural in the message; for the kind in Go, remove path from the kubebuilder:resource marker.",
	Check:    eachDefinition(contract.Definitions.WithRole, checkCalculatedName),
}, {
	ID:       "crd/list-kind",
	Severity: contract.Error,
	Source:   forInfraCluster("InfraClusterList, InfraClusterTemplateList resources"),
	Why:      "Cluster API lists objects by the kind <kind>List.",
	Fix:      "Set spec.names.listKind to <kind>List, or remove the field.",
	Check: eachDefinition(allDefinitions, func(d *contract.Definition) contract.Findings {
		list := d.At("spec", "names", "listKind")
		if list.Text() == "" || list.Text() == d.DefinedKind+"List" {
			return nil
		}
		return list.Finding("the kind of lists is %s, not %sList", list.Text(), d.DefinedKind)
	}),
}, {
	ID:       "crd/status-subresource",
	Severity: contract.Error,
	Source:   forInfraCluster("All resources: scope"),
	Why:      "Controllers write the status of an object through the status subresource. Without it their requests fail with 404, and the status stays empty.",
	Fix:      "Add subresources: {status: {}} to the version; in Go, the marker +kubebuilder:subresource:status.",
	Check:    eachDefinition(notTemplates, checkStatusSubresource),
}, {
	ID:       "crd/served-version-exists",
	Severity: contract.Error,
	Source:   kubernetes("Versions in CustomResourceDefinitions", versionsPage),
	Why:      "Without a served version users cannot create objects of the kind.",
	Fix:      "Serve a version.",
	Check: eachDefinition(allDefinitions, func(d *contract.Definition) contract.Findings {
		if versions := d.At("spec", "versions"); versions.Length() > 0 && contract.ServedVersions(d.Object) == "" {
			return versions.Finding("no version is served")
		}
		return nil
	}),
}, {
	ID:       "crd/open-schema",
	Severity: contract.Warning,
	Source:   resourceVersions,
	Why:      "A schema that preserves unknown fields at its root, in spec or in status accepts misspelled fields, and does not show whether the kind implements its contract.",
	Fix:      "Declare the fields of spec and status.",
	Check: eachWithRole(func(d *contract.Definition) contract.Findings {
		for _, part := range []contract.Value{d.Schema, d.Schema.At("properties", "spec"), d.Schema.At("properties", "status")} {
			if open := part.At("x-kubernetes-preserve-unknown-fields"); open.Text() == "true" {
				return open.Finding("the schema of version %s accepts unknown fields at its root, in spec or in status", d.Version)
			}
		}
		return nil
	}),
}, {
	ID:       "crd/conversion-webhook",
	Severity: contract.Warning,
	Source:   kubernetes("Webhook conversion", versionsPage),
	Why:      "Without a webhook the API server converts objects by changing their apiVersion only: fields of only one version are lost.",
	Fix:      "Add a conversion webhook, or serve a single version.",
	Check:    eachDefinition(allDefinitions, checkConversion),
}}

func checkStatusSubresource(d *contract.Definition) (findings contract.Findings) {
	for _, version := range d.At("spec", "versions").Items() {
		status, _ := contract.SchemaField(version.At("schema", "openAPIV3Schema"), "status")
		subresource := version.At("subresources", "status")
		if version.At("served").Text() == "true" && status.Exists() && subresource.Node == nil {
			findings = append(findings, subresource.Finding("version %s has a status without the subresource", version.At("name").Text())...)
		}
	}
	return findings
}

// checkConversion compares the fields at the top of spec and status of the served versions: incompatible versions
// usually differ there.
func checkConversion(d *contract.Definition) contract.Findings {
	strategy := d.At("spec", "conversion", "strategy")
	if strategy.Text() == "Webhook" {
		return nil
	}
	var first string
	for _, version := range d.At("spec", "versions").Items() {
		fields := topFields(version.At("schema", "openAPIV3Schema"))
		switch {
		case version.At("served").Text() != "true":
		case first == "":
			first = fields
		case fields != first:
			return strategy.Finding("versions with different fields (%s) are not converted by a webhook", contract.ServedVersions(d.Object))
		}
	}
	return nil
}

// topFields returns the names and types of the fields of spec and status.
func topFields(schema contract.Value) string {
	fields := []string{"-"}
	for _, part := range []string{"spec", "status"} {
		for name, field := range schema.At("properties", part, "properties").Fields() {
			fields = append(fields, part+"."+name+" "+contract.SchemaType(field))
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

// checkCalculatedName derives the plural as Cluster API does.
func checkCalculatedName(d *contract.Definition) contract.Findings {
	plural := flect.Pluralize(strings.ToLower(d.DefinedKind))
	if written := d.At("spec", "names", "plural"); written.Text() != plural && d.DefinedKind != "" {
		return written.Finding("Cluster API expects the name %s.%s", plural, d.Group)
	}
	return nil
}

const skipPreflight = "clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check"
