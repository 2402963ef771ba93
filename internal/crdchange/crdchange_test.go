// SPDX-License-Identifier: Apache-2.0

package crdchange

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// crdWith returns a CRD with versions in YAML.
func crdWith(t *testing.T, scope, versions string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return crdFrom(t, fmt.Sprintf("{group: x.io, scope: %s, names: {kind: X}, versions: %s}", scope, versions))
}

// versionWith returns a version with the properties of spec, in YAML.
func versionWith(name string, served bool, properties string) string {
	return fmt.Sprintf("{name: %s, served: %t, storage: %t, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: %s}}}}}", name, served, served, properties)
}

func TestIncompatibilities(t *testing.T) {
	required := "[" + versionWith("v1", true, "{a: {type: string}, mode: {type: string, enum: [p, q]}}") + ", " + versionWith("v1alpha1", false, "{old: {type: string}}") + "]"
	v1 := func(properties string) string { return "[" + versionWith("v1", true, properties) + "]" }
	for _, c := range []struct {
		name, scope, actual string
		want                []string
	}{
		{"the same", "Namespaced", required, nil},
		{"without a version that is not served", "Namespaced", v1("{a: {type: string}, mode: {type: string, enum: [p, q]}}"), nil},
		{"more fields, values and versions", "Namespaced", "[" + versionWith("v1", true, "{a: {type: string}, b: {type: integer}, mode: {type: string, enum: [r, q, p]}}") + ", " + versionWith("v2", false, "{}") + "]", nil},
		{"missing version", "Namespaced", "[" + versionWith("v2", true, "{}") + "]", []string{"version v1 removed"}},
		{"version not served", "Namespaced", "[" + versionWith("v1", false, "{a: {type: string}, mode: {type: string, enum: [p, q]}}") + "]", []string{"v1 spec.versions[v1].served: version v1 is no longer served (true -> false)"}},
		{"missing field", "Namespaced", v1("{mode: {type: string, enum: [p, q]}}"), []string{"v1 spec.a: field removed"}},
		{"changed type", "Namespaced", v1("{a: {type: integer}, mode: {type: string, enum: [p, q]}}"), []string{`v1 spec.a: type changed ("string" -> "integer")`}},
		{"fewer values", "Namespaced", v1("{a: {type: string}, mode: {type: string, enum: [p]}}"), []string{`v1 spec.mode: fewer values are allowed (["p","q"] -> ["p"])`}},
		{"another scope", "Cluster", v1("{a: {type: string}, mode: {type: string, enum: [p, q]}}"), []string{`spec.scope: scope changed ("Namespaced" -> "Cluster")`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := crdWith(t, "Namespaced", required)
			got := Incompatibilities(before, crdWith(t, c.scope, c.actual))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(crdWith(t, "Namespaced", required), before); diff != "" {
				t.Errorf("the required CRD was modified:\n%s", diff)
			}
		})
	}
}

// TestCompare_WholeCRD compares everything but the schemas.
func TestCompare_WholeCRD(t *testing.T) {
	version := func(fields string) string { return "{name: v1, served: true, storage: true" + fields + "}" }
	const old = "{group: x.io, scope: Cluster, names: {kind: X}, versions: [{name: v1, served: true, storage: true}]}"
	for name, test := range map[string]struct {
		old, now string
		want     []string
	}{
		"the same":      {old, old, nil},
		"another kind":  {old, "{group: x.io, scope: Cluster, names: {kind: Z}, versions: [" + version("") + "]}", []string{`breaking crd/kind spec.names.kind: kind changed ("X" -> "Z")`}},
		"another group": {old, "{group: y.io, scope: Cluster, names: {kind: X}, versions: [" + version("") + "]}", []string{`breaking crd/group spec.group: group changed ("x.io" -> "y.io")`}},
		"another version is stored": {
			"{group: x.io, scope: Cluster, names: {kind: X}, versions: [" + version("") + ", {name: v2, served: true}]}",
			"{group: x.io, scope: Cluster, names: {kind: X}, versions: [{name: v1, served: true}, {name: v2, served: true, storage: true}]}",
			[]string{`review crd/storage-version spec.versions: objects are stored in v2 ("v1" -> "v2")`},
		},
		"the stored version is removed": {old, "{group: x.io, scope: Cluster, names: {kind: X}, versions: [{name: v2, served: true, storage: true}]}", []string{
			"breaking crd/stored-version-removed version v1 removed", "change crd/version-added version v2 added", `review crd/storage-version spec.versions: objects are stored in v2 ("v1" -> "v2")`,
		}},
		"a version that was not served is removed": {
			"{group: x.io, scope: Cluster, names: {kind: X}, versions: [" + version("") + ", {name: v0, served: false}]}", old, []string{"review crd/version-removed version v0 removed"},
		},
		"a version that was served is removed": {
			"{group: x.io, scope: Cluster, names: {kind: X}, versions: [" + version("") + ", {name: v0, served: true}]}", old, []string{"breaking crd/version-removed version v0 removed"},
		},
		"a version is served again": {
			"{group: x.io, scope: Cluster, names: {kind: X}, versions: [" + version("") + ", {name: v0, served: false}]}",
			"{group: x.io, scope: Cluster, names: {kind: X}, versions: [" + version("") + ", {name: v0, served: true}]}",
			[]string{"change crd/version-served v0 spec.versions[v0].served: version v0 is served (false -> true)"},
		},
		"status is removed": {
			"{group: x.io, scope: Cluster, names: {kind: X}, versions: [" + version(", subresources: {status: {}}") + "]}", old,
			[]string{"breaking crd/subresource-removed v1 spec.versions[v1].subresources.status: subresource status removed"},
		},
		"status is added": {old, "{group: x.io, scope: Cluster, names: {kind: X}, versions: [" + version(", subresources: {status: {}}") + "]}",
			[]string{"review crd/subresource-added v1 spec.versions[v1].subresources.status: subresource status added"}},
		"no conversion, one version": {
			"{group: x.io, scope: Cluster, names: {kind: X}, conversion: {strategy: Webhook}, versions: [" + version("") + "]}", old,
			[]string{`review crd/conversion spec.conversion.strategy: conversion between versions changed ("Webhook" -> "None")`},
		},
		"no conversion, two versions": {
			"{group: x.io, scope: Cluster, names: {kind: X}, conversion: {strategy: Webhook}, versions: [" + version("") + ", {name: v2, served: true}]}",
			"{group: x.io, scope: Cluster, names: {kind: X}, versions: [" + version("") + ", {name: v2, served: true}]}",
			[]string{`breaking crd/conversion spec.conversion.strategy: conversion between versions changed ("Webhook" -> "None")`},
		},
		"conversion by a webhook": {old, "{group: x.io, scope: Cluster, names: {kind: X}, conversion: {strategy: Webhook}, versions: [" + version("") + "]}",
			[]string{`review crd/conversion spec.conversion.strategy: conversion between versions changed ("None" -> "Webhook")`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, change := range Compare(crdFrom(t, test.old), crdFrom(t, test.now)) {
				got = append(got, string(change.Level)+" "+change.Rule+" "+change.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// crdFrom returns a CRD with a spec in YAML.
func crdFrom(t *testing.T, spec string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: "+spec+"}"), &crd.Object); err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(crd)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestDecode_OtherVersion(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition"}}
	if decoded, err := Decode(crd); err == nil || decoded != nil {
		t.Errorf("got %v, %v", decoded, err)
	}
}
