// SPDX-License-Identifier: Apache-2.0

// Package crdchange reports the changes between two CRDs with their consequences for
// existing objects and for clients. Each property of a schema is checked with the
// validations of sigs.k8s.io/crdify.
package crdchange

import (
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Level is the severity of a change.
type Level string

// The levels, from the lowest.
const (
	// Noise needs no review, such as another description.
	Noise Level = "noise"
	// Plain is a change that breaks nothing, as far as CRDs can show.
	Plain Level = "change"
	// Review may break something and needs a reviewer who knows the provider.
	Review Level = "review"
	// Breaking loses or rejects existing objects, or removes an API that clients use.
	Breaking Level = "breaking"
)

// Change is one difference between two CRDs.
type Change struct {
	// Rule is the kind of difference, such as "crd/enum".
	Rule  string
	Level Level
	// Version is the version that differs; empty if the difference concerns all versions.
	Version string
	// Path is the path of the field. In a schema, it is relative to the root of the schema.
	Path string
	// Message describes the change.
	Message string
	// Consequence describes the consequence for existing objects and clients.
	Consequence string
	// From and To are JSON values; nil if there is none.
	From, To any
}

// Compare returns the changes of the immutable fields, the versions, the strategy of
// conversion and the schemas, in this order.
func Compare(old, now *apiextensionsv1.CustomResourceDefinition) []Change {
	changes := slices.Concat(identityChanges(old, now), versionChanges(old, now), conversionChanges(old, now))
	for _, version := range now.Spec.Versions {
		if before := Version(old, version.Name); before != nil {
			changes = append(changes, schemaChanges(version.Name, schemaOf(before), schemaOf(&version))...)
		}
	}
	return changes
}

// Incompatibilities describes the parts of the required CRD that an actual CRD lacks:
// served versions, fields, values. Additions are compatible.
func Incompatibilities(required, actual *apiextensionsv1.CustomResourceDefinition) []string {
	required = required.DeepCopy()
	required.Spec.Versions = slices.DeleteFunc(required.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Served })
	var found []string
	for _, change := range Compare(required, actual) {
		if change.Level == Breaking {
			found = append(found, change.String())
		}
	}
	return found
}

// String returns text such as "v1beta1 spec.mode: fewer values are allowed ([\"a\",\"b\"] -> [\"a\"])".
func (c Change) String() string {
	text := c.Message
	switch {
	case c.Version != "" && c.Path != "":
		text = c.Version + " " + c.Path + ": " + text
	case c.Path != "":
		text = c.Path + ": " + text
	}
	if c.From == nil || c.To == nil {
		return text
	}
	values := fmt.Sprintf(" (%s -> %s)", encoded(c.From), encoded(c.To))
	if len(values) > maxValues {
		return text
	}
	return text + values
}

// maxValues limits the length of the values in the description of a change.
const maxValues = 100

// Decode returns a CRD of apiextensions.k8s.io/v1 in its Go type.
func Decode(crd *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	if version := crd.GetAPIVersion(); version != apiextensionsv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("unsupported apiVersion %q of a CRD", version)
	}
	content, err := json.Marshal(crd.Object)
	if err != nil {
		return nil, err
	}
	decoded := &apiextensionsv1.CustomResourceDefinition{}
	return decoded, json.Unmarshal(content, decoded)
}

// encoded returns a value as JSON.
func encoded(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		return "?" // values of CRDs can always be encoded
	}
	return string(content)
}

// unionOfKeys returns the keys of both maps, sorted.
func unionOfKeys[V any](a, b map[string]V) []string {
	return sets.List(sets.KeySet(a).Union(sets.KeySet(b)))
}
