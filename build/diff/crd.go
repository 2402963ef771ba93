// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/validations/crd/scope"
	"sigs.k8s.io/crdify/pkg/validations/crd/storedversionremoval"
)

// crdChanges compares CRDs: what follows for the objects that exist and for
// clients. What has no such consequence is compared by field.
func crdChanges(a, b *unstructured.Unstructured) []Change {
	old, errOld := decoded(a)
	now, errNow := decoded(b)
	if errOld != nil || errNow != nil {
		return undecoded(a, b)
	}
	changes := objectChanges(refOf(a), withoutSchemas(a.Object), withoutSchemas(b.Object))
	changes = slices.DeleteFunc(changes, toldByMeaning)
	changes = append(changes, identityChanges(old, now)...)
	changes = append(changes, versionChanges(old, now)...)
	changes = append(changes, conversionChanges(old, now)...)
	for _, version := range now.Spec.Versions {
		if before := versionOf(old, version.Name); before != nil {
			changes = append(changes, schemaChanges(version.Name, schemaOf(before), schemaOf(&version))...)
		}
	}
	return changes
}

// wholeVersion is the path of a version that is new, or gone.
var wholeVersion = regexp.MustCompile(`^spec\.versions\[[^\]]*\]$`)

// toldByMeaning says whether a field is one that is told otherwise, and better.
func toldByMeaning(c Change) bool {
	return c.Path == "spec.scope" || c.Path == "spec.names.kind" || c.Path == "spec.group" || wholeVersion.MatchString(c.Path)
}

func decoded(o *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	if version := o.GetAPIVersion(); version != apiextensionsv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("reading a CRD of %s", version)
	}
	encoded, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, json.Unmarshal(encoded, crd)
}

// undecoded compares CRDs field by field that cannot be read as what they should be.
func undecoded(a, b *unstructured.Unstructured) []Change {
	changes := objectChanges(refOf(a), a.Object, b.Object)
	for i := range changes {
		if strings.HasPrefix(changes[i].Path, "spec") || changes[i].Path == "apiVersion" {
			changes[i].Level = Review
		}
	}
	return changes
}

// withoutSchemas leaves out what is compared by meaning.
func withoutSchemas(object map[string]any) map[string]any {
	rest, spec := maps.Clone(object), maps.Clone(mapAt(object, "spec"))
	if spec == nil {
		return rest
	}
	rest["spec"] = spec
	delete(spec, "conversion")
	var versions []any
	for _, version := range mapsAt(spec, "versions") {
		version = maps.Clone(version)
		for _, name := range []string{"schema", "served", "storage", "subresources"} {
			delete(version, name)
		}
		versions = append(versions, version)
	}
	spec["versions"] = versions
	return rest
}

func versionOf(crd *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == name })
	if at < 0 {
		return nil
	}
	return &crd.Spec.Versions[at]
}

func schemaOf(version *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return &apiextensionsv1.JSONSchemaProps{}
	}
	return version.Schema.OpenAPIV3Schema
}

// identityChanges are about what the API server never lets change.
func identityChanges(old, now *apiextensionsv1.CustomResourceDefinition) (changes []Change) {
	const refused = "The API server refuses the CRD as long as the one before is there, and with it the provider."
	if old.Spec.Names.Kind != now.Spec.Names.Kind {
		changes = append(changes, Change{Rule: "crd/kind", Level: Breaking, Path: "spec.names.kind", Says: "kind changed", From: old.Spec.Names.Kind, To: now.Spec.Names.Kind, Means: refused})
	}
	if old.Spec.Group != now.Spec.Group {
		changes = append(changes, Change{Rule: "crd/group", Level: Breaking, Path: "spec.group", Says: "group changed", From: old.Spec.Group, To: now.Spec.Group, Means: refused})
	}
	check := &scope.Scope{}
	check.SetEnforcement(config.EnforcementPolicyError)
	if len(check.Compare(old, now).Errors) > 0 {
		changes = append(changes, Change{Rule: "crd/scope", Level: Breaking, Path: "spec.scope", Says: "scope changed", From: string(old.Spec.Scope), To: string(now.Spec.Scope), Means: refused})
	}
	return changes
}

// versionChanges are about the versions of a CRD.
func versionChanges(old, now *apiextensionsv1.CustomResourceDefinition) (changes []Change) {
	for _, before := range old.Spec.Versions {
		if after := versionOf(now, before.Name); after != nil {
			changes = append(changes, sameVersionChanges(before, *after)...)
			continue
		}
		changes = append(changes, removedVersion(old, now, before))
	}
	for _, after := range now.Spec.Versions {
		if versionOf(old, after.Name) == nil {
			changes = append(changes, Change{Rule: "crd/version-added", Level: Plain, Version: after.Name, Says: "version " + after.Name + " is new", To: after.Name})
		}
	}
	if before, after := storageOf(old), storageOf(now); before != after {
		changes = append(changes, storageMoved(before, after))
	}
	return changes
}

// removedVersion tells what follows for the objects stored in a version. Which these
// are only a cluster knows; the version in which the CRD before stores is one of them.
func removedVersion(old, now *apiextensionsv1.CustomResourceDefinition, version apiextensionsv1.CustomResourceDefinitionVersion) Change {
	change := Change{
		Rule: "crd/version-removed", Level: Breaking, Version: version.Name, Says: "version " + version.Name + " is gone", From: version.Name,
		Means: "Clients that use it get 404. The API server refuses the CRD of a cluster in which objects were ever stored in it, until they are migrated.",
	}
	stored := old.DeepCopy()
	stored.Status.StoredVersions = nil
	if version.Storage {
		stored.Status.StoredVersions = []string{version.Name}
	}
	check := &storedversionremoval.StoredVersionRemoval{}
	check.SetEnforcement(config.EnforcementPolicyError)
	switch {
	case len(check.Compare(stored, now).Errors) > 0:
		change.Rule = "crd/stored-version-removed"
		change.Means = "Objects are stored in it: the API server refuses the CRD until they are migrated and it is no longer in status.storedVersions."
	case !version.Served:
		change.Level = Review
		change.Means = "It was not served any more. The API server refuses the CRD of a cluster that still has it in status.storedVersions."
	}
	return change
}

func storageOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}

func storageMoved(from, to string) Change {
	return Change{
		Rule: "crd/storage-version", Level: Review, Path: "spec.versions", Says: "objects are stored in " + to, From: from, To: to,
		Means: "Objects that exist are rewritten only when somebody writes them. Going back to the release before needs " + to + " to be known to it.",
	}
}

// sameVersionChanges are about a version that is still there.
func sameVersionChanges(before, after apiextensionsv1.CustomResourceDefinitionVersion) (changes []Change) {
	path := "spec.versions[" + before.Name + "]"
	add := func(rule string, level Level, field, says, means string, from, to any) {
		changes = append(changes, Change{Rule: rule, Level: level, Version: before.Name, Path: path + "." + field, Says: says, Means: means, From: from, To: to})
	}
	switch {
	case before.Served && !after.Served:
		add("crd/version-unserved", Breaking, "served", "version "+before.Name+" is no longer served", "Clients that use it get 404. Objects stored in it are kept.", true, false)
	case !before.Served && after.Served:
		add("crd/version-served", Plain, "served", "version "+before.Name+" is served", "", false, true)
	}
	had, has := subresources(before), subresources(after)
	for _, name := range unionOfKeys(had, has) {
		switch {
		case had[name] != "" && has[name] == "":
			add("crd/subresource-removed", Breaking, "subresources."+name, "subresource "+name+" is gone", "Requests to it get 404.", had[name], nil)
		case had[name] == "":
			add("crd/subresource-added", Review, "subresources."+name, "subresource "+name+" is new", subresourceMeans(name), nil, has[name])
		case had[name] != has[name]:
			add("crd/subresource", Review, "subresources."+name, "subresource "+name+" changed", "", had[name], has[name])
		}
	}
	return changes
}

func subresourceMeans(name string) string {
	if name == "status" {
		return "Who writes the status together with the rest of an object writes it no longer."
	}
	return ""
}

// subresources are the subresources of a version as JSON, by name.
func subresources(version apiextensionsv1.CustomResourceDefinitionVersion) map[string]string {
	found := map[string]string{}
	if version.Subresources == nil {
		return found
	}
	if version.Subresources.Status != nil {
		found["status"] = compact(version.Subresources.Status)
	}
	if version.Subresources.Scale != nil {
		found["scale"] = compact(version.Subresources.Scale)
	}
	return found
}

// conversionChanges are about how objects get from one version to another.
func conversionChanges(old, now *apiextensionsv1.CustomResourceDefinition) (changes []Change) {
	before, after := strategyOf(old), strategyOf(now)
	if before != after {
		change := Change{Rule: "crd/conversion", Level: Review, Path: "spec.conversion.strategy", Says: "conversion between versions changed", From: before, To: after}
		if after == string(apiextensionsv1.NoneConverter) && len(now.Spec.Versions) > 1 {
			change.Level = Breaking
			change.Means = "Objects stored in another version are served with nothing but their apiVersion changed; fields that only one version has are lost."
		}
		changes = append(changes, change)
	}
	for _, change := range fields("spec.conversion.webhook", conversionOf(old), conversionOf(now)) {
		change.Rule, change.Level = "crd/conversion", Plain
		changes = append(changes, change)
	}
	return changes
}

func strategyOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	if crd.Spec.Conversion == nil {
		return string(apiextensionsv1.NoneConverter)
	}
	return string(crd.Spec.Conversion.Strategy)
}

// conversionOf is the conversion webhook without its certificates.
func conversionOf(crd *apiextensionsv1.CustomResourceDefinition) any {
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Webhook == nil {
		return nil
	}
	webhook := crd.Spec.Conversion.Webhook.DeepCopy()
	if webhook.ClientConfig != nil {
		webhook.ClientConfig.CABundle = nil
	}
	return plain(webhook)
}

// plain is a value as JSON reads it.
func plain(value any) any {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil // types of the API can be encoded
	}
	var decoded any
	_ = json.Unmarshal(encoded, &decoded) // what was encoded before
	return decoded
}
