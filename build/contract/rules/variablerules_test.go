// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
)

// TestVariableRules_Grammar: the rules about variables find the expressions that are substituted, also in operands,
// and no other text.
func TestVariableRules_Grammar(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"${ABC}": 1, "${ABC:=${DEF}}": 2, "$${ABC}": 0, "${abc.def}": 0, "${ABC-def}": 0, "${ABC": 0, "${ ABC }": 0,
	} {
		manifests := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: x" + text + "\n"
		findings := check(manifests)
		if got := lines(findings, "clusterctl/variables-prefix"); len(got) != want {
			t.Errorf("%s: findings of clusterctl/variables-prefix are %q, want %d", text, got, want)
		}
		if got := lines(findings, "clusterctl/variables-in-crd"); len(got) != min(want, 1) {
			t.Errorf("%s: findings of clusterctl/variables-in-crd are %q, want %d", text, got, min(want, 1))
		}
		if text == "${ ABC }" {
			want = 1 // clusterctl removes the spaces in templates
		}
		if got := variableFindings(contract.ReadTemplate("clusterclass-x.yaml", []byte(manifests))); len(got) != min(want, 1) {
			t.Errorf("%s: findings of clusterctl/clusterclass-file are %v, want %d", text, got, min(want, 1))
		}
	}
}
