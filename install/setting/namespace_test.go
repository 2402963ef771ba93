// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

const namespaced = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager, namespace: capi-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
subjects: [{kind: ServiceAccount, name: manager, namespace: capi-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: kube-system}
subjects: [{kind: ServiceAccount, name: manager, namespace: capi-system}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: capi, annotations: {cert-manager.io/inject-ca-from: capi-system/serving}}
webhooks: [{name: a, clientConfig: {service: {name: webhook, namespace: capi-system}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.example.com}
spec:
  group: example.com
  names: {kind: Machine, plural: machines}
  scope: Namespaced
  conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: webhook, namespace: capi-system}}}}
  versions: [{name: v1, schema: {openAPIV3Schema: {description: in capi-system}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: capi-system}
spec:
  template:
    spec:
      containers:
      - name: manager
        args: [--metrics=webhook.capi-system.svc:8443, --namespace=capi-system, --leader-elect]
        env: [{name: POD_NAMESPACE, value: capi-system}, {name: REGION, value: eu}]
`

// inNamespace are the settings of a component with a namespace, in a cluster with two namespaces.
func inNamespace(namespace string, own v1alpha1.ComponentSettings) Component {
	own.Name, own.Namespace = "capi", namespace
	return Settings{Components: []v1alpha1.ComponentSettings{own}, Namespaces: []string{"capi-system", "capa-system"}}.For("capi")
}

// identities names the objects, for comparisons.
func identities(objects []*unstructured.Unstructured) string {
	var names []string
	for _, obj := range objects {
		names = append(names, object.Describe(obj))
	}
	return strings.Join(names, ", ")
}

func TestApply_Namespace(t *testing.T) {
	objects := objectsOf(t, namespaced)
	names, errs := inNamespace("capa-system", v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Args: []string{"--v=4"}}}).Apply(objects, nil, false)
	if len(errs) > 0 || strings.Join(names, ",") != "namespace,deployment.args[--v]" && strings.Join(names, ",") != "namespace,deployment.args" {
		t.Fatal(names, errs.ToAggregate())
	}
	want := "ServiceAccount capa-system/manager, ClusterRoleBinding manager, RoleBinding kube-system/reader, ValidatingWebhookConfiguration capi, CustomResourceDefinition machines.example.com, Deployment capa-system/manager"
	if got := identities(objects); got != want {
		t.Errorf("objects: %s, want %s", got, want)
	}
	for _, obj := range objects {
		text := at(t, obj)
		if strings.Contains(strings.ReplaceAll(text, "in capi-system", ""), "capi-system") {
			t.Errorf("not moved:\n%s", text)
		}
	}
	if text := at(t, objects[5], "spec", "template", "spec", "containers"); !strings.Contains(text, "--metrics=webhook.capa-system.svc:8443") || !strings.Contains(text, "--v=4") {
		t.Error(text)
	}
	objects = objectsOf(t, namespaced)
	before := identities(objects)
	if names, errs := inNamespace("capi-system", v1alpha1.ComponentSettings{}).Apply(objects, nil, false); len(errs) > 0 || len(names) != 1 || identities(objects) != before {
		t.Errorf("the namespace of the manifests: %v, %v, %s", names, errs, identities(objects))
	}
}

// An error about the namespace names the field. A text that cannot be moved with certainty is one, unless a patch replaces it.
func TestApply_NamespaceErrors(t *testing.T) {
	unknown := strings.Replace(namespaced, "--leader-elect", "--hosts=a;capi-system", 1)
	replaced := v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Args: []string{"--hosts=a;capa-system"}}}
	for name, test := range map[string]struct {
		namespace, manifests, marked string
		own                          v1alpha1.ComponentSettings
		openShift                    bool
		want                         string
	}{
		"permitted":                 {"capa-system", namespaced, "", v1alpha1.ComponentSettings{}, false, ""},
		"not permitted":             {"other", namespaced, "", v1alpha1.ComponentSettings{}, false, `spec.components[0].namespace: Invalid value: "other": the installer may use the namespaces capi-system, capa-system; to add one`},
		"in OpenShift":              {"capa-system", namespaced, "", v1alpha1.ComponentSettings{}, true, "spec.components[0].namespace: Forbidden: in OpenShift all providers have one namespace"},
		"without namespaced object": {"capa-system", "apiVersion: v1\nkind: Node\nmetadata: {name: a}", "", v1alpha1.ComponentSettings{}, false, "spec.components[0].namespace: Forbidden: the component has no objects in a namespace"},
		"a text of unknown form":    {"capa-system", unknown, "", v1alpha1.ComponentSettings{}, false, `spec.components[0].namespace: Forbidden: spec.template.spec.containers[0].args[2] of Deployment capa-system/manager contains the name of another namespace, "--hosts=a;capi-system"`},
		"a replaced text":           {"capa-system", unknown, "", replaced, false, ""},
		"a longer name":             {"capa-system", strings.Replace(namespaced, "--leader-elect", "--id=capi-system-leader", 1), "", v1alpha1.ComponentSettings{}, false, ""},
		"a variable": {"capa-system", namespaced, strings.Replace(namespaced, "--namespace=capi-system", "--namespace="+markStart+"WATCH"+markEnd, 1),
			v1alpha1.ComponentSettings{Variables: []v1alpha1.Variable{{Name: "WATCH", Value: new("capi-system")}}}, false, "spec.components[0].namespace: Forbidden: spec.components[0].variables[WATCH] also sets spec.template.spec.containers[0].args.namespace of Deployment capi-system/manager"},
		"an argument": {"capa-system", namespaced, "", v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Args: []string{"--namespace=x"}}}, false, "spec.components[0].namespace also sets spec.template.spec.containers[0].args.namespace of Deployment capa-system/manager"},
	} {
		var marked []*unstructured.Unstructured
		if test.marked != "" {
			marked = objectsOf(t, test.marked)
		}
		_, errs := inNamespace(test.namespace, test.own).Apply(objectsOf(t, test.manifests), marked, test.openShift)
		got := ""
		if len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, test.want)
		}
	}
}
