// SPDX-License-Identifier: Apache-2.0

package rbac_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/manifests"
)

// objectsOf reads YAML documents.
func objectsOf(t *testing.T, documents string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := yamldoc.Objects([]byte(documents))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// brief formats rules as "where: verbs of resources (names)".
func brief(rules []rbac.Rule) (lines []string) {
	for _, rule := range rules {
		of := strings.Join(rule.Resources, ",") + strings.Join(rule.NonResourceURLs, ",")
		if group := strings.Join(rule.APIGroups, ","); group != "" {
			of += "." + group
		}
		line := fmt.Sprintf("%s: %s %s", rule.Namespace, strings.Join(rule.Verbs, ","), of)
		if len(rule.ResourceNames) > 0 {
			line += " (" + strings.Join(rule.ResourceNames, ",") + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

const (
	configMapsAB = `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: openshift-cluster-api}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: openshift-cluster-api}}
`
	crdOfThings = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: thingies.example.com}, spec: {group: example.com, names: {plural: thingies, kind: Thing}}}
`
	knownRole = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: known}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list]}, {nonResourceURLs: [/metrics], verbs: [get]}]}
`
	gatheringRole = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: gathers}, aggregationRule: {clusterRoleSelectors: []}}
`
)

func TestMinimalRules(t *testing.T) {
	for _, c := range []struct {
		name, objects string
		options       rbac.Options
		want          []string
	}{
		{name: "the certificate that a Service requests", objects: `{apiVersion: v1, kind: Service, metadata: {name: webhook, namespace: demo, annotations: {capi-operator.openshift.io/serving-cert-secret-name: cert}}}
`, want: []string{
			"demo: create services",
			"demo: delete,get,patch services (webhook)",
			"demo: create secrets",
			"demo: get,update secrets (cert)",
			"openshift-cluster-api: list,watch services",
		}},
		{name: "objects of one kind share rules", objects: configMapsAB, want: []string{
			"openshift-cluster-api: create,list,watch configmaps",
			"openshift-cluster-api: delete,get,patch configmaps (a,b)",
		}},
		{name: "what the installer holds is left out", objects: configMapsAB,
			options: rbac.Options{ExistingRules: []rbac.Rule{{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}}},
			want:    []string{"openshift-cluster-api: create configmaps", "openshift-cluster-api: delete,patch configmaps (a,b)"}},
		{name: "what it holds in another namespace is not", objects: configMapsAB,
			options: rbac.Options{ExistingRules: []rbac.Rule{{Namespace: "other", PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}},
			want:    []string{"openshift-cluster-api: create,list,watch configmaps", "openshift-cluster-api: delete,get,patch configmaps (a,b)"}},
		{name: "an object elsewhere is created there, and its kind watched where the cache is",
			objects: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: reader, namespace: kube-system}, roleRef: {kind: Role, name: extension-apiserver-authentication-reader}}`,
			want: []string{
				"kube-system: create rolebindings.rbac.authorization.k8s.io",
				"kube-system: delete,get,patch rolebindings.rbac.authorization.k8s.io (reader)",
				"kube-system: bind roles.rbac.authorization.k8s.io (extension-apiserver-authentication-reader)",
				"openshift-cluster-api: list,watch rolebindings.rbac.authorization.k8s.io",
			}},
		{name: "of a CRD the instances are looked for, and an object of its kind has the CRD's plural",
			objects: crdOfThings + "---\n{apiVersion: example.com/v1, kind: Thing, metadata: {name: one}}\n",
			want: []string{
				": create,list,watch customresourcedefinitions.apiextensions.k8s.io",
				": create,list,watch thingies.example.com",
				": delete,get,patch customresourcedefinitions.apiextensions.k8s.io (thingies.example.com)",
				": delete,get,patch thingies.example.com (one)",
			}},
		{name: "an unmanaged CRD is checked and let go", objects: crdOfThings, options: rbac.Options{UnmanagedCRDs: []string{"thingies.example.com"}}, want: []string{
			": list,watch customresourcedefinitions.apiextensions.k8s.io",
			": get,patch customresourcedefinitions.apiextensions.k8s.io (thingies.example.com)",
			": create,delete,get,list,patch,watch compatibilityrequirements.apiextensions.openshift.io",
		}},
		{name: "what a role grants is held, which needs no escalate", objects: knownRole, want: []string{
			": create,list,watch clusterroles.rbac.authorization.k8s.io",
			": delete,get,patch clusterroles.rbac.authorization.k8s.io (known)",
			": get /metrics",
			": get,list secrets",
		}},
		{name: "URLs that it holds in a namespace have no effect", objects: knownRole,
			options: rbac.Options{ExistingRules: []rbac.Rule{
				{Namespace: "other", PolicyRule: rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}}},
				{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}}},
			}},
			want: []string{": get /metrics"}},
		{name: "with escalate it needs none of the permissions of a role", objects: knownRole,
			options: rbac.Options{ExistingRules: []rbac.Rule{
				{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, Verbs: []string{"escalate", "create", "get", "list", "watch", "patch", "delete"}}},
			}}},
		{name: "it reads an instance of a CRD with a conversion webhook", objects: strings.Replace(crdOfThings, "kind: Thing}}", "kind: Thing}, conversion: {strategy: Webhook}}", 1),
			options: rbac.Options{ExistingRules: []rbac.Rule{{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}},
			want:    []string{": get,list thingies.example.com"}},
		{name: "it lists the instances of a CRD of its group", objects: crdOfThings,
			options: rbac.Options{ExistingRules: []rbac.Rule{
				{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
				{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, Verbs: []string{"*"}}},
			}}, want: []string{": list thingies.example.com"}},
		{name: "unless it can grant itself the permission", objects: crdOfThings,
			options: rbac.Options{ExistingRules: []rbac.Rule{
				{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
				{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles", "clusterrolebindings"}, Verbs: []string{"*"}}},
			}}},
		{name: "a role that gathers others is escalated, and so are all", objects: knownRole + "---\n" + gatheringRole, want: []string{
			": create,list,watch clusterroles.rbac.authorization.k8s.io",
			": delete,get,patch clusterroles.rbac.authorization.k8s.io (gathers,known)",
			": escalate clusterroles.rbac.authorization.k8s.io",
		}},
		{name: "a binding binds by name, a RoleBinding in its namespace",
			objects: `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: openshift-cluster-api}, roleRef: {kind: ClusterRole, name: known}}`,
			want: []string{
				"openshift-cluster-api: create,list,watch rolebindings.rbac.authorization.k8s.io",
				"openshift-cluster-api: delete,get,patch rolebindings.rbac.authorization.k8s.io (b)",
				"openshift-cluster-api: bind clusterroles.rbac.authorization.k8s.io (known)",
			}},
		{name: "the parameters of an admission policy are read", objects: `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec: {paramKind: {apiVersion: config.openshift.io/v1, kind: Infrastructure}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: {policyName: p, paramRef: {name: cluster, parameterNotFoundAction: Deny}}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: c}, spec: {policyName: p, paramRef: {selector: {}}}}`, want: []string{
			": create,list,watch validatingadmissionpolicies,validatingadmissionpolicybindings.admissionregistration.k8s.io",
			": delete,get,patch validatingadmissionpolicies.admissionregistration.k8s.io (p)",
			": delete,get,patch validatingadmissionpolicybindings.admissionregistration.k8s.io (b,c)",
			": get,list infrastructures.config.openshift.io",
		}},
		{name: "kinds with a plural of their own", objects: `{apiVersion: security.openshift.io/v1, kind: SecurityContextConstraints, metadata: {name: a}}`, want: []string{
			": create,list,watch securitycontextconstraints.security.openshift.io",
			": delete,get,patch securitycontextconstraints.security.openshift.io (a)",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := objectsOf(t, c.objects)
			rules := rbac.MinimalRules(objects, c.options)
			if diff := cmp.Diff(c.want, brief(rules)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			slices.Reverse(objects)
			if diff := cmp.Diff(rules, rbac.MinimalRules(append(objects, objects...), c.options)); diff != "" {
				t.Errorf("duplicates in another order give other rules (-first +second):\n%s", diff)
			}
		})
	}
}

func TestMinimalRules_KeepsRuleWithManyVerbs(t *testing.T) {
	role := objectsOf(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: ns}, rules: [
  {apiGroups: [a, b], resources: [x, y/status], verbs: [get, "*"]}, {apiGroups: [a], resources: ["*"], verbs: [get]}, {apiGroups: [c], resources: ["*/status"], verbs: [get]},
  {apiGroups: [c], resources: [z/status], resourceNames: [one], verbs: [get]}]}`)
	want := []string{
		"ns: create roles.rbac.authorization.k8s.io",
		"ns: delete,get,patch roles.rbac.authorization.k8s.io (r)",
		"ns: get *.a", "ns: * x,y/status.a", "ns: * x,y/status.b", "ns: get */status.c",
		"openshift-cluster-api: list,watch roles.rbac.authorization.k8s.io",
	}
	got := brief(rbac.MinimalRules(role, rbac.Options{}))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestRolesOf_BindsAndAggregates(t *testing.T) {
	rules := rbac.MinimalRules(objectsOf(t, crdOfThings+"---\n"+configMapsAB), rbac.Options{})
	roles := rbac.RolesOf(rules, "least", "openshift-cluster-api-operator")
	if diff := cmp.Diff(map[string]string{rbac.AggregateLabel: "true"}, roles.ClusterRole.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	var got []string
	for _, object := range roles.Objects() {
		got = append(got, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetNamespace()+"/"+object.GetName())
	}
	if diff := cmp.Diff([]string{"ClusterRole /least", "Role openshift-cluster-api/least", "RoleBinding openshift-cluster-api/least"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	own, err := manifests.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range own {
		selectors, _, _ := unstructured.NestedSlice(object.Object, "aggregationRule", "clusterRoleSelectors")
		for _, selector := range selectors {
			if labels := selector.(map[string]any)["matchLabels"].(map[string]any); labels[rbac.AggregateLabel] == "true" {
				return
			}
		}
	}
	t.Errorf("no ClusterRole in the manifests aggregates roles with label %s", rbac.AggregateLabel)
}

// TestRulesOfInstaller_CoverEveryProvider: the installer's manifests grant all
// permissions that a provider with common kinds needs.
func TestRulesOfInstaller_CoverEveryProvider(t *testing.T) {
	own, err := manifests.Objects()
	if err != nil {
		t.Fatal(err)
	}
	held, err := rbac.RulesOfInstaller(own, "openshift-cluster-api-operator")
	if err != nil {
		t.Fatal(err)
	}
	objects := objectsOf(t, crdOfThings+"---\n"+configMapsAB+"---\n"+gatheringRole+"---\n"+
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {kind: ClusterRole, name: gathers}}`)
	if rules := rbac.MinimalRules(objects, rbac.Options{ExistingRules: held}); len(rules) > 0 {
		t.Errorf("missing rules: %v", brief(rules))
	}
}
