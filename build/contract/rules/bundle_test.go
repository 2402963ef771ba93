// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/manifests"
)

func check(manifests string) contract.Findings {
	return contract.Check(bundleOf(manifests), All())
}

// lines returns the positions of findings: "4 ConfigMap a/b data.level".
func lines(findings contract.Findings, rule string) (found []string) {
	for _, f := range findings {
		if f.Rule == rule {
			found = append(found, strings.TrimSpace(fmt.Sprintf("%d %s %s", f.Line, f.Object, f.Field)))
		}
	}
	return found
}

func TestCheck_FindingsHaveLineObjectAndField(t *testing.T) {
	findings := check(`# A comment.
---
# Another one.
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ServiceAccount
  metadata: {name: manager}
--- {apiVersion: v1, kind: Secret, metadata: {name: token, namespace: openshift-cluster-api}}
---

apiVersion: apps/v1
kind: StatefulSet
metadata: {name: manager, namespace: openshift-cluster-api}
spec:
  template:
    spec:
      initContainers:
      - name: init
        image: &image example.com/init:latest
      containers:
      - name: manager
        image: *image
`)
	for rule, want := range map[string][]string{
		"installer/target-namespace": {"9 ServiceAccount manager metadata.namespace"},
		"installer/no-secret":        {"10 Secret openshift-cluster-api/token"},
		"installer/other-image-pinned": {
			"21 StatefulSet openshift-cluster-api/manager spec.template.spec.initContainers[0].image",
			"21 StatefulSet openshift-cluster-api/manager spec.template.spec.containers[0].image",
		},
	} {
		if diff := cmp.Diff(want, lines(findings, rule)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
}

func TestCheck_ContinuesAfterInvalidDocument(t *testing.T) {
	findings := check("a: b: c\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: x}\n---\nkind: [\n---\n7\n")
	if diff := cmp.Diff([]string{"1", "7", "9"}, lines(findings, "bundle/yaml-parse")); diff != "" {
		t.Errorf("findings of invalid documents (-want +got):\n%s", diff)
	}
	if got := lines(findings, "installer/no-secret"); len(got) != 1 {
		t.Errorf("Secrets: %v", got)
	}
}

func TestCheck_InvalidDocumentHasLineOfFile(t *testing.T) {
	findings := check("apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\nb: c\nd: e: f\n")
	if len(findings) == 0 || findings[len(findings)-1].Line != 5 || !strings.Contains(findings[len(findings)-1].Message, "line 6") {
		t.Errorf("findings: %+v", findings)
	}
}

func TestCheck_RejectsAliasBombs(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 20 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for name, manifests := range map[string]string{"a bomb": bomb.String(), "a list that contains itself": "a: &a [*a]\n"} {
		if got := lines(check(manifests), "bundle/yaml-parse"); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCheck_ReadsMergeKeys(t *testing.T) {
	findings := check(`apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: openshift-cluster-api}
spec:
  template:
    spec:
      initContainers:
      - &base
        name: init
        image: registry.example.com/openshift:example
      containers:
      - <<: *base
        name: manager
      - <<: [*base]
        name: proxy
        image: example.com/proxy:latest
`)
	if diff := cmp.Diff([]string{"16 Deployment openshift-cluster-api/manager spec.template.spec.containers[1].image"}, lines(findings, "installer/other-image-pinned")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheck_LimitsInvalidDocuments(t *testing.T) {
	if got := lines(check(strings.Repeat("---\n[\n", 100_000)), "bundle/yaml-parse"); len(got) != 20 {
		t.Errorf("%d invalid documents reported", len(got))
	}
}

// TestKinds_MatchInstallerRoles compares with the roles that grant every verb of the installer: those for the kinds of
// providers.
func TestKinds_MatchInstallerRoles(t *testing.T) {
	var allowed []string
	for kind := range contract.Installable {
		plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion("v1"))
		allowed = append(allowed, plural.GroupResource().String())
	}
	slices.Sort(allowed)
	if diff := cmp.Diff(writable(t), allowed); diff != "" {
		t.Errorf("resources (-the roles in manifests +the rule installer/kind-allowed):\n%s", diff)
	}
}

func writable(t *testing.T) []string {
	t.Helper()
	objects, err := manifests.Objects()
	if err != nil {
		t.Fatal(err)
	}
	resources := map[string]bool{}
	for _, o := range objects {
		if o.GetNamespace() == "openshift-cluster-api-operator" || !strings.HasSuffix(o.GetKind(), "Role") {
			continue // the installer's own objects
		}
		var role rbacv1.Role // a ClusterRole has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if slices.Contains(rule.Verbs, "update") && slices.Contains(rule.Verbs, "delete") {
					resources[schema.GroupResource{Group: rule.APIGroups[0], Resource: resource}.String()] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(resources))
}

func FuzzCheck(f *testing.F) {
	for _, rule := range All() {
		example, err := rule.Example()
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(example.Good))
		f.Add([]byte(example.Bad))
	}
	f.Add([]byte("a: &a {b: *a}\n---\n- &c\n- *c\n"))
	breaks := strings.NewReplacer("\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n") // line breaks of YAML
	f.Fuzz(func(t *testing.T, manifests []byte) {
		last := strings.Count(breaks.Replace(string(manifests)), "\n") + 1
		for _, finding := range check(string(manifests)) {
			if finding.File == contract.ManifestsFile && (finding.Line < 1 || finding.Line > last) {
				t.Errorf("line %d of %d: %+v", finding.Line, last, finding)
			}
		}
	})
}

// TestReadTemplate_Variables finds the expressions that clusterctl substitutes, also in operands, and no other text.
func TestReadTemplate_Variables(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"${ABC}": "ABC", "${ABC:=${DEF}}": "DEF", "$${ABC}": "", "${abc.def}": "", "${ABC-def}": "", "${ABC": "", "${ ABC }": "ABC",
	} {
		manifests := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: x" + text + "\n"
		template := contract.ReadTemplate("clusterclass-x.yaml", []byte(manifests))
		if got := strings.Join(contract.VariablesOf(template.Objects[0].Name), " "); got != want {
			t.Errorf("%s: got the variables %q, want %q", text, got, want)
		}
	}
}
