// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"

	"github.com/gobuffalo/flect"
)

// crdRules are about CRDs, whatever they define.
var crdRules = []Rule{{
	ID:       "crd/valid",
	Severity: Error,
	Source:   kubernetes("Specifying a structural schema", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server refuses a CRD whose schema is not structural, whose defaults do not fit, or whose CEL rules do not compile or cost too much. It is asked here with its own code.",
	Fix:      "Correct the CRD, as a rule in the Go type and its markers, and generate it again.",
	Check:    checkDefinitions,
}, {
	ID:       "crd/name-plural-group",
	Severity: Error,
	Source:   kubernetes("Create a CustomResourceDefinition", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server refuses a CRD whose name is not <plural>.<group>, and Cluster API finds CRDs by that name.",
	Fix:      "Set metadata.name to <spec.names.plural>.<spec.group>.",
	Check:    eachDefinition(allDefinitions, checkCRDName),
}, {
	ID:       "crd/name-calculate",
	Severity: Error,
	Source:   forInfraCluster("All resources: CRD name"),
	Why:      "Cluster API does not list CRDs. It makes the name of the one that it needs out of the kind, so no other plural is found.",
	Fix:      "Use the plural in the message; for the kind in Go, remove path from the kubebuilder:resource marker.",
	Check:    eachDefinition((*Bundle).withRole, checkCalculatedName),
}, {
	ID:       "clusterctl/crd-name-preflight",
	Severity: Error,
	Source:   clusterctl("CRD naming"),
	Why:      "clusterctl refuses a provider with a CRD that Cluster API would not find by its kind, unless an annotation says that Cluster API never looks for it.",
	Fix:      "Use the plural in the message, or annotate the CRD with " + skipPreflight + ".",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		if d.Role != "" || d.At("metadata", "annotations", skipPreflight).node != nil {
			return nil
		}
		return checkCalculatedName(d)
	}),
}, {
	ID:       "crd/list-kind",
	Severity: Error,
	Source:   forInfraCluster("InfraClusterList, InfraClusterTemplateList resources"),
	Why:      "Cluster API lists objects of a kind by the kind with List at its end.",
	Fix:      "Set spec.names.listKind to <kind>List, or leave it out.",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		list := d.At("spec", "names", "listKind")
		if list.Text() == "" || list.Text() == d.Defines+"List" {
			return nil
		}
		return []Finding{list.finding("the kind of lists is %s, not %sList", list.Text(), d.Defines)}
	}),
}, {
	ID:       "crd/status-subresource",
	Severity: Error,
	Source:   forInfraCluster("All resources: scope"),
	Why:      "Controllers write the status of an object by its subresource. Without it their requests are answered with 404, and no status is ever there.",
	Fix:      "Add subresources: {status: {}} to the version; in Go, the marker +kubebuilder:subresource:status.",
	Check:    eachDefinition(notTemplates, checkStatusSubresource),
}, {
	ID:       "crd/served-version-exists",
	Severity: Error,
	Source:   kubernetes("Versions in CustomResourceDefinitions", versionsPage),
	Why:      "Without a version that is served nobody can create an object of the kind.",
	Fix:      "Serve a version.",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		if versions := d.At("spec", "versions"); versions.length() > 0 && servedVersions(d.Object) == "" {
			return []Finding{versions.finding("no version is served")}
		}
		return nil
	}),
}, {
	ID:       "crd/no-unserved-storage",
	Severity: Warning,
	Source:   kubernetes("Versions in CustomResourceDefinitions", versionsPage),
	Why:      "What is stored in a version that nobody can read can only be seen through conversion, and is lost to tools that read what is stored.",
	Fix:      "Store a version that is served.",
	Check:    eachDefinition(allDefinitions, checkStorageServed),
}, {
	ID:       "crd/preserve-unknown-fields",
	Severity: Error,
	Source:   kubernetes("Field pruning", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server takes spec.preserveUnknownFields: true in no CRD of apiextensions.k8s.io/v1.",
	Fix:      "Leave the field out, and set x-kubernetes-preserve-unknown-fields where fields are really unknown.",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		if preserve := d.At("spec", "preserveUnknownFields"); preserve.Text() == "true" {
			return []Finding{preserve.finding("unknown fields are preserved everywhere")}
		}
		return nil
	}),
}, {
	ID:       "crd/open-schema",
	Severity: Warning,
	Source:   resourceVersions,
	Why:      "A schema that preserves unknown fields at its root checks nothing, and whether the kind keeps its contract cannot be seen.",
	Fix:      "Declare the fields of spec and status.",
	Check: eachWithRole(func(d *definition) []Finding {
		if open := d.Schema.At("x-kubernetes-preserve-unknown-fields"); open.Text() == "true" {
			return []Finding{open.finding("the schema of version %s says nothing about its fields", d.Version)}
		}
		return nil
	}),
}, {
	ID:       "crd/conversion-webhook",
	Severity: Warning,
	Source:   kubernetes("Webhook conversion", versionsPage),
	Why:      "Without a webhook an object of one version becomes one of another by its apiVersion alone: fields that only one version has are lost.",
	Fix:      "Convert by a webhook, or serve a single version.",
	Check:    eachDefinition(allDefinitions, checkConversion),
}, {
	ID:       "crd/conversion-review-versions",
	Severity: Warning,
	Source:   kubernetes("Webhook request and response", versionsPage),
	Why:      "These are versions of the ConversionReview, not of the kind. Without v1 the webhook lives on a version of the review that was deprecated long ago.",
	Fix:      "Set conversionReviewVersions to [v1].",
	Check:    eachDefinition(allDefinitions, checkReviewVersions),
}, {
	ID:       "crd/categories",
	Severity: Info,
	Source:   forInfraCluster("All resources: scope"),
	Why:      "\"kubectl get cluster-api\" shows the objects of Cluster API by this category.",
	Fix:      "Add the category cluster-api to spec.names.categories.",
	Check: eachWithRole(func(d *definition) []Finding {
		categories := d.At("spec", "names", "categories")
		if contains(categories, "cluster-api") {
			return nil
		}
		return []Finding{categories.finding("the kind is not in the category cluster-api")}
	}),
}, {
	ID:       "installer/probe-crd",
	Severity: Error,
	Source:   ours("Objects"),
	Why:      "Of two kinds of a group with the same plural, singular or short name, the API server accepts the names of one only. The other never becomes established, and the release is never installed.",
	Fix:      "Give each kind names of its own.",
	Check:    checkNamesUnique,
}}

const (
	versionsPage  = "tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/"
	skipPreflight = "clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check"
)

func notTemplates(b *Bundle) []*definition {
	return filter(b.withRole(), func(d *definition) bool { return !d.Template && d.Role != ipamPool })
}

// contains says whether a list has a text.
func contains(list Value, text string) bool {
	for _, item := range list.Items() {
		if item.Text() == text {
			return true
		}
	}
	return false
}

func checkCRDName(crd *definition) []Finding {
	want := crd.At("spec", "names", "plural").Text() + "." + crd.Group
	if crd.Name == want {
		return nil
	}
	return []Finding{crd.At("metadata", "name").finding("the name is not %s", want)}
}

// checkCalculatedName makes the plural as Cluster API does.
func checkCalculatedName(d *definition) []Finding {
	plural := flect.Pluralize(strings.ToLower(d.Defines))
	if written := d.At("spec", "names", "plural"); written.Text() != plural && d.Defines != "" {
		return []Finding{written.finding("Cluster API looks for %s.%s", plural, d.Group)}
	}
	return nil
}

func checkStatusSubresource(d *definition) (findings []Finding) {
	for _, version := range d.At("spec", "versions").Items() {
		status, _ := fieldOf(version.At("schema", "openAPIV3Schema"), "status")
		subresource := version.At("subresources", "status")
		if version.At("served").Text() == "true" && status.Exists() && subresource.node == nil {
			findings = append(findings, subresource.finding("version %s has a status without the subresource", version.At("name").Text()))
		}
	}
	return findings
}

func checkStorageServed(d *definition) (findings []Finding) {
	for _, version := range d.At("spec", "versions").Items() {
		if version.At("storage").Text() == "true" && version.At("served").Text() != "true" {
			findings = append(findings, version.At("served").finding("version %s is stored, but not served", version.At("name").Text()))
		}
	}
	return findings
}

// checkConversion compares the top fields of spec and status of the versions that
// are served, which is where versions differ that lose something.
func checkConversion(d *definition) []Finding {
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
			return []Finding{strategy.finding("versions with different fields (%s) are not converted by a webhook", servedVersions(d.Object))}
		}
	}
	return nil
}

// topFields names the fields of spec and status, and their types.
func topFields(schema Value) string {
	fields := []string{"-"}
	for _, part := range []string{"spec", "status"} {
		for name, field := range schema.At("properties", part, "properties").Fields() {
			fields = append(fields, part+"."+name+" "+typeOf(field))
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}

func checkReviewVersions(d *definition) []Finding {
	versions := d.At("spec", "conversion", "webhook", "conversionReviewVersions")
	if d.At("spec", "conversion", "strategy").Text() != "Webhook" || versions.length() == 0 || contains(versions, "v1") {
		return nil
	}
	return []Finding{versions.finding("v1 is not among the versions of the review")}
}

func checkNamesUnique(b *Bundle) (findings []Finding) {
	taken := map[string]*definition{}
	for _, d := range b.definitions {
		names := []Value{d.At("spec", "names", "plural"), d.At("spec", "names", "singular")}
		for _, short := range d.At("spec", "names", "shortNames").Items() {
			names = append(names, short)
		}
		for _, name := range names {
			key := d.Group + "/" + name.Text()
			other, found := taken[key]
			if found && other != d && name.Text() != "" {
				findings = append(findings, name.finding("%s has the name %s already", other.Name, name.Text()))
			}
			taken[key] = d
		}
	}
	return findings
}
