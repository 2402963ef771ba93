// SPDX-License-Identifier: Apache-2.0

package crdchange

import (
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Version returns a version of a CRD by its name; nil if there is none.
func Version(crd *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == name })
	if at < 0 {
		return nil
	}
	return &crd.Spec.Versions[at]
}

// schemaOf returns the schema of a version; an empty one if it has none.
func schemaOf(version *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return &apiextensionsv1.JSONSchemaProps{}
	}
	return version.Schema.OpenAPIV3Schema
}

// identityChanges compares the immutable fields.
func identityChanges(old, now *apiextensionsv1.CustomResourceDefinition) (changes []Change) {
	for _, field := range []struct{ name, path, from, to string }{
		{"kind", "spec.names.kind", old.Spec.Names.Kind, now.Spec.Names.Kind},
		{"group", "spec.group", old.Spec.Group, now.Spec.Group},
		{"scope", "spec.scope", string(old.Spec.Scope), string(now.Spec.Scope)},
	} {
		if field.from != field.to {
			changes = append(changes, Change{
				Rule: "crd/" + field.name, Level: Breaking, Path: field.path, Message: field.name + " changed", From: field.from, To: field.to,
				Consequence: "The API server rejects the CRD while the old one exists; the provider cannot be installed.",
			})
		}
	}
	return changes
}

// versionChanges compares the versions of a CRD.
func versionChanges(old, now *apiextensionsv1.CustomResourceDefinition) (changes []Change) {
	for _, before := range old.Spec.Versions {
		if after := Version(now, before.Name); after != nil {
			changes = append(changes, sameVersionChanges(before, *after)...)
			continue
		}
		changes = append(changes, removedVersion(before))
	}
	for _, after := range now.Spec.Versions {
		if Version(old, after.Name) == nil {
			changes = append(changes, Change{Rule: "crd/version-added", Level: Plain, Version: after.Name, Message: "version " + after.Name + " added", To: after.Name})
		}
	}
	if from, to := StorageVersion(old), StorageVersion(now); from != to {
		changes = append(changes, Change{
			Rule: "crd/storage-version", Level: Review, Path: "spec.versions", Message: "objects are stored in " + to, From: from, To: to,
			Consequence: "Existing objects are migrated at their next write. A rollback requires that the previous release also has version " + to + ".",
		})
	}
	return changes
}

// removedVersion reports the consequence for objects that are stored in a version. Only a
// cluster knows all stored versions; the storage version of the old CRD is one of them.
func removedVersion(version apiextensionsv1.CustomResourceDefinitionVersion) Change {
	change := Change{
		Rule: "crd/version-removed", Level: Breaking, Version: version.Name, Message: "version " + version.Name + " removed", From: version.Name,
		Consequence: "Clients that use it get 404. If objects were ever stored in it, the API server rejects the CRD until they are migrated.",
	}
	switch {
	case version.Storage:
		change.Rule = "crd/stored-version-removed"
		change.Consequence = "Objects are stored in it: the API server rejects the CRD until they are migrated and it is removed from status.storedVersions."
	case !version.Served:
		change.Level = Review
		change.Consequence = "It was no longer served. The API server rejects the CRD while status.storedVersions contains it."
	}
	return change
}

// StorageVersion returns the name of the version that a CRD stores instances in; empty if there is none.
func StorageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}

// sameVersionChanges compares a version that exists on both sides.
func sameVersionChanges(before, after apiextensionsv1.CustomResourceDefinitionVersion) (changes []Change) {
	path := "spec.versions[" + before.Name + "]"
	add := func(rule string, level Level, field, says, means string, from, to any) {
		changes = append(changes, Change{Rule: rule, Level: level, Version: before.Name, Path: path + "." + field, Message: says, Consequence: means, From: from, To: to})
	}
	switch {
	case before.Served && !after.Served:
		add("crd/version-unserved", Breaking, "served", "version "+before.Name+" is no longer served", "Clients that use it get 404. Stored objects are retained.", true, false)
	case !before.Served && after.Served:
		add("crd/version-served", Plain, "served", "version "+before.Name+" is served", "", false, true)
	}
	had, has := subresources(before), subresources(after)
	for _, name := range unionOfKeys(had, has) {
		switch {
		case had[name] != "" && has[name] == "":
			add("crd/subresource-removed", Breaking, "subresources."+name, "subresource "+name+" removed", "Requests to it get 404.", had[name], nil)
		case had[name] == "":
			add("crd/subresource-added", Review, "subresources."+name, "subresource "+name+" added", subresourceMeans(name), nil, has[name])
		case had[name] != has[name]:
			add("crd/subresource", Review, "subresources."+name, "subresource "+name+" changed", "", had[name], has[name])
		}
	}
	return changes
}

func subresourceMeans(name string) string {
	if name == "status" {
		return "Writes of the whole object no longer change its status; clients must use the subresource."
	}
	return ""
}

// subresources returns the subresources of a version as JSON, by name.
func subresources(version apiextensionsv1.CustomResourceDefinitionVersion) map[string]string {
	found := map[string]string{}
	if version.Subresources == nil {
		return found
	}
	if version.Subresources.Status != nil {
		found["status"] = encoded(version.Subresources.Status)
	}
	if version.Subresources.Scale != nil {
		found["scale"] = encoded(version.Subresources.Scale)
	}
	return found
}

// conversionChanges compares the strategies of the conversion between versions.
func conversionChanges(old, now *apiextensionsv1.CustomResourceDefinition) []Change {
	before, after := strategyOf(old), strategyOf(now)
	if before == after {
		return nil
	}
	change := Change{Rule: "crd/conversion", Level: Review, Path: "spec.conversion.strategy", Message: "conversion between versions changed", From: before, To: after}
	if after == string(apiextensionsv1.NoneConverter) && len(now.Spec.Versions) > 1 {
		change.Level = Breaking
		change.Consequence = "The API server only changes the apiVersion of objects stored in another version; fields that only one version has are lost."
	}
	return []Change{change}
}

func strategyOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	if crd.Spec.Conversion == nil {
		return string(apiextensionsv1.NoneConverter)
	}
	return string(crd.Spec.Conversion.Strategy)
}

// jsonValue converts a value to the types of package json.
func jsonValue(value any) any {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil // API types can always be encoded
	}
	var decoded any
	_ = json.Unmarshal(encoded, &decoded) // cannot fail: it was just encoded
	return decoded
}
