// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

func rulesFrom(t *testing.T, rules string) []rbacrule.Permission {
	t.Helper()
	role := map[string]any{}
	if err := yaml.Unmarshal([]byte("rules: "+rules), &role); err != nil {
		t.Fatal(err)
	}
	return rulesIn(&unstructured.Unstructured{Object: role})
}

func TestNotCovered(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		gained, lost        []string
	}{
		{"one rule in two", `[{apiGroups: [a], resources: [x, y], verbs: [get]}]`, `[{apiGroups: [a], resources: [x], verbs: [get]}, {apiGroups: [a], resources: [y], verbs: [get]}]`, nil, nil},
		{"a verb more", `[{apiGroups: [a], resources: [x], verbs: [get]}]`, `[{apiGroups: [a], resources: [x], verbs: [get, list]}]`, []string{"list x (a)"}, nil},
		{"every verb", `[{apiGroups: [a], resources: [x], verbs: [get]}]`, `[{apiGroups: [a], resources: [x], verbs: ["*"]}]`, []string{"all verbs on x (a)"}, nil},
		{"from every verb to one", `[{apiGroups: [a], resources: [x], verbs: ["*"]}]`, `[{apiGroups: [a], resources: [x], verbs: [get]}]`, nil, []string{"all verbs on x (a)"}},
		{"from every resource to one and its status", `[{apiGroups: [a], resources: ["*"], verbs: [get]}]`, `[{apiGroups: [a], resources: [x, x/status], verbs: [get]}]`, nil, []string{"get all resources (a)"}},
		{"a subresource is not its resource", `[{apiGroups: [a], resources: [x], verbs: [get]}]`, `[{apiGroups: [a], resources: [x/status], verbs: [get]}]`, []string{"get x/status (a)"}, []string{"get x (a)"}},
		{"a subresource of every resource", `[{apiGroups: [a], resources: ["*/scale"], verbs: [get]}]`, `[{apiGroups: [a], resources: [x/scale], verbs: [get]}]`, nil, []string{"get */scale (a)"}},
		{"every group", `[{apiGroups: [a], resources: [x], verbs: [get]}]`, `[{apiGroups: ["*"], resources: [x], verbs: [get]}]`, []string{"get x (all groups)"}, nil},
		{"some objects instead of all", `[{apiGroups: [a], resources: [x], verbs: [get]}]`, `[{apiGroups: [a], resources: [x], verbs: [get], resourceNames: [one]}]`, nil, []string{"get x (a)"}},
		{"all objects instead of some", `[{apiGroups: [a], resources: [x], verbs: [get], resourceNames: [one, two]}]`, `[{apiGroups: [a], resources: [x], verbs: [get]}]`, []string{"get x (a)"}, []string{}},
		{"another object", `[{apiGroups: [a], resources: [x], verbs: [get], resourceNames: [one]}]`, `[{apiGroups: [a], resources: [x], verbs: [get], resourceNames: [one, two]}]`, []string{"get x (a) named two"}, nil},
		{"paths below another", `[{nonResourceURLs: ["/a/*"], verbs: [get]}]`, `[{nonResourceURLs: [/a/b, /c], verbs: [get]}]`, []string{"get /c"}, []string{"get /a/*"}},
		{"a path is not a resource", `[{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]`, `[{nonResourceURLs: [/a], verbs: [get]}]`, []string{"get /a"}, []string{"all verbs on all resources (all groups)"}},
		{"the core group", `[]`, `[{apiGroups: [""], resources: [secrets], verbs: [watch, get, list]}]`, []string{"get, list, watch secrets (core)"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := rulesFrom(t, c.before), rulesFrom(t, c.after)
			check := func(label string, want []string, got []rbacrule.Permission) {
				texts := []string{}
				for _, p := range permissionsOf(got) {
					texts = append(texts, p.String())
				}
				if diff := cmp.Diff(append([]string{}, want...), texts); diff != "" {
					t.Errorf("%s (-want +got):\n%s", label, diff)
				}
			}
			check("gained", c.gained, notCovered(before, after))
			check("lost", c.lost, notCovered(after, before))
		})
	}
}

func TestSensitive_Grants(t *testing.T) {
	for _, c := range []struct{ group, resource, verbs, want string }{
		{"*", "*", "*", "is equivalent to cluster-admin"},
		{"", "secrets", "get", "reads secrets"},
		{"", "secrets", "delete", ""},
		{"", "configmaps", "get", ""},
		{"rbac.authorization.k8s.io", "clusterroles", "escalate", "allows privilege escalation"},
		{"rbac.authorization.k8s.io", "clusterrolebindings", "create", "grants permissions"},
		{"apps", "deployments", "patch", "runs pods with any service account of the namespace"},
		{"apps", "deployments", "get", ""},
		{"", "pods/exec", "create", "runs commands in pods"},
		{"admissionregistration.k8s.io", "mutatingwebhookconfigurations", "update", "reads and modifies requests of other clients"},
	} {
		if got := sensitive(c.group, c.resource, []string{c.verbs}); got != c.want {
			t.Errorf("%s %s (%s): got %q, want %q", c.verbs, c.resource, c.group, got, c.want)
		}
	}
}

// TestFields_DifferExactlyWhereValuesDo generates values of all shapes.
func TestFields_DifferExactlyWhereValuesDo(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		scalar := rapid.OneOf(rapid.Just[any](true), rapid.Map(rapid.Int64Range(0, 2), func(n int64) any { return n }), rapid.Map(rapid.SampledFrom([]string{"", "a", "--b=c", "--b"}), func(s string) any { return s }))
		if depth == 0 {
			return scalar
		}
		inner := value(depth - 1)
		return rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(inner, 0, 3), func(list []any) any { return list }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"name", "args", "containers", "a.b"}), inner, 0, 3), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := value(4).Draw(t, "a"), value(4).Draw(t, "b")
		if changes := fields("", a, a); len(changes) > 0 {
			t.Errorf("a value differs from itself: %+v", changes)
		}
		if changes := fields("", a, b); (len(changes) == 0) != reflect.DeepEqual(a, b) {
			t.Errorf("%v and %v: %+v", a, b, changes)
		}
	})
}
