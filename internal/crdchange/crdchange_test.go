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
	crd := &unstructured.Unstructured{}
	content := fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {group: x.io, scope: %s, names: {kind: X}, versions: %s}", scope, versions)
	if err := yaml.Unmarshal([]byte(content), &crd.Object); err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(crd)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
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
