// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/crdchange"
)

// crdChanges reports the consequences of a changed CRD for existing objects and for
// clients. Other changes are reported field by field.
func crdChanges(ref Ref, a, b *unstructured.Unstructured) []Change {
	old, errOld := crdchange.Decode(a)
	now, errNow := crdchange.Decode(b)
	if errOld != nil || errNow != nil {
		return undecodedChanges(ref, a, b)
	}
	changes := objectChanges(ref, withoutSchemas(a.Object), withoutSchemas(b.Object))
	changes = slices.DeleteFunc(changes, comparedSeparately)
	for _, change := range crdchange.Compare(old, now) {
		changes = append(changes, changeOf(change))
	}
	return append(changes, conversionChanges(a, b)...)
}

// changeOf returns a change of a CRD as a change of the report.
func changeOf(c crdchange.Change) Change {
	if c.Level == Noise {
		return description
	}
	return Change{Rule: c.Rule, Level: c.Level, Version: c.Version, Path: c.Path, Message: c.Message, Consequence: c.Consequence, From: c.From, To: c.To}
}

// description is the change of descriptions, wherever they are.
var description = Change{Rule: "description", Level: Noise, Message: "descriptions and examples of fields"}

// conversionChanges compares the conversion webhooks without their CA bundles.
func conversionChanges(a, b *unstructured.Unstructured) []Change {
	changes := fields("spec.conversion.webhook", conversionWebhook(a), conversionWebhook(b))
	for i := range changes {
		changes[i].Rule, changes[i].Level = "crd/conversion", Plain
	}
	return changes
}

// conversionWebhook returns the conversion webhook of a CRD without its CA bundle; nil if it has none.
func conversionWebhook(crd *unstructured.Unstructured) any {
	webhook := maps.Clone(mapAt(crd.Object, "spec", "conversion", "webhook"))
	if webhook == nil {
		return nil
	}
	if config := maps.Clone(mapAt(webhook, "clientConfig")); config != nil {
		delete(config, "caBundle")
		webhook["clientConfig"] = config
	}
	return webhook
}

// wholeVersion matches the path of an added or removed version.
var wholeVersion = regexp.MustCompile(`^spec\.versions\[[^\]]*\]$`)

// comparedSeparately reports whether another comparison reports the field.
func comparedSeparately(c Change) bool {
	return c.Path == "spec.scope" || c.Path == "spec.names.kind" || c.Path == "spec.group" || wholeVersion.MatchString(c.Path)
}

// undecodedChanges compares CRDs that cannot be decoded, field by field.
func undecodedChanges(ref Ref, a, b *unstructured.Unstructured) []Change {
	changes := objectChanges(ref, a.Object, b.Object)
	for i := range changes {
		if strings.HasPrefix(changes[i].Path, "spec") || changes[i].Path == "apiVersion" {
			changes[i].Level = Review
		}
	}
	return changes
}

// withoutSchemas returns a CRD without the fields that are compared separately.
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
