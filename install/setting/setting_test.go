// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

const provider = `apiVersion: apps/v1
kind: Deployment
metadata: {name: capi, namespace: capi-system}
spec:
  replicas: 1
  template:
    spec:
      nodeSelector: {kubernetes.io/os: linux}
      tolerations: [{key: master, effect: NoSchedule}]
      containers:
      - name: manager
        image: capi
        args: ["--leader-elect", "--feature-gates=MachinePool=true,ClusterTopology=false", "--v=2", "--concurrency", "10"]
        env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, value: b}]
        resources: {requests: {cpu: 10m}}
---
apiVersion: v1
kind: Service
metadata: {name: capi, namespace: capi-system}
spec: {ports: [{port: 443, name: webhook}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.x-k8s.io}
spec: {group: cluster.x-k8s.io, names: {kind: Cluster, plural: clusters}}
`

// second is another Deployment.
const second = `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: aso, namespace: capi-system}
spec: {template: {spec: {containers: [{name: a, image: a}, {name: b, image: b}]}}}
`

func objectsOf(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := yamldoc.Objects([]byte(manifests))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func settingsOf(own v1alpha1.ComponentSettings) Component {
	own.Name = "capi"
	return Settings{Components: []v1alpha1.ComponentSettings{{Name: "other"}, own}}.For("capi")
}

// at returns the JSON of a field.
func at(t *testing.T, obj *unstructured.Unstructured, path ...string) string {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestApply_Deployment(t *testing.T) {
	objects := objectsOf(t, provider)
	own := v1alpha1.ComponentSettings{
		FeatureGates: []v1alpha1.FeatureGate{{Name: "ClusterTopology", Enabled: true}, {Name: "MachinePool"}},
		Deployment: &v1alpha1.DeploymentSettings{
			Replicas: new(int32(2)),
			Placement: v1alpha1.Placement{
				NodeSelector: map[string]string{"node-role.kubernetes.io/infra": ""},
				Tolerations:  []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}, {Key: "master", Effect: corev1.TaintEffectNoSchedule}},
			},
			Resources:        &v1alpha1.Resources{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
			Env:              []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}, {Name: "A", Value: "mine"}},
			Args:             []string{"--v=4", "--concurrency=20", "--watch-filter=mine"},
			ImagePullSecrets: []string{"pull"},
		},
	}
	names, errs := settingsOf(own).Apply(objects, nil, false)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	want := `replicas: 2
template:
  spec:
    containers:
    - args:
      - --leader-elect
      - --feature-gates=MachinePool=false,ClusterTopology=true
      - --v=4
      - --concurrency=20
      - --watch-filter=mine
      env:
      - name: B
        value: b
      - name: HTTPS_PROXY
        value: http://proxy
      - name: A
        value: mine
      image: capi
      name: manager
      resources:
        limits:
          memory: 1Gi
        requests:
          cpu: 10m
    imagePullSecrets:
    - name: pull
    nodeSelector:
      kubernetes.io/os: linux
      node-role.kubernetes.io/infra: ""
    tolerations:
    - effect: NoSchedule
      key: master
    - key: infra
      operator: Exists
`
	if diff := cmp.Diff(want, at(t, objects[0], "spec")); diff != "" {
		t.Errorf("Deployment (-want +got):\n%s", diff)
	}
	wantNames := []string{
		"featureGates[ClusterTopology]", "featureGates[MachinePool]", "deployment.args", "deployment.env", "deployment.imagePullSecrets", "deployment.nodeSelector",
		"deployment.replicas", "deployment.resources", "deployment.tolerations",
	}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestApply_Placement(t *testing.T) {
	objects := objectsOf(t, provider+second)
	settings := Settings{Placement: &v1alpha1.Placement{NodeSelector: map[string]string{"kubernetes.io/os": "windows"}}}
	if names, errs := settings.For("capi").Apply(objects, nil, false); len(errs) > 0 || fmt.Sprint(names) != "[placement]" {
		t.Fatalf("%v, %v", names, errs)
	}
	for _, i := range []int{0, 3} {
		if got := at(t, objects[i], "spec", "template", "spec", "nodeSelector"); got != "kubernetes.io/os: windows\n" {
			t.Errorf("nodeSelector of %s: %s", objects[i].GetName(), got)
		}
	}
	if names, errs := settings.For("capi").Apply(objects[1:2], nil, false); len(names)+len(errs) > 0 {
		t.Errorf("a component without a Deployment: %v, %v", names, errs)
	}
}

func TestApply_Patches(t *testing.T) {
	for name, test := range map[string]struct {
		target      v1alpha1.PatchTarget
		patch, want string
		object      int
		field       []string
	}{
		"strategic merge of a list by its key": {
			v1alpha1.PatchTarget{Group: "apps", Kind: "Deployment"}, "spec: {template: {spec: {containers: [{name: manager, imagePullPolicy: Always}]}}}",
			"imagePullPolicy: Always", 0, []string{"spec", "template", "spec"},
		},
		"JSON patch": {
			v1alpha1.PatchTarget{Kind: "Service", Name: "capi"}, `[{"op": "replace", "path": "/spec/ports/0/port", "value": 8443}]`, "port: 8443", 1, []string{"spec"},
		},
		"a CRD": {
			v1alpha1.PatchTarget{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, "metadata: {labels: {mine: yes-it-is}}", "mine: yes-it-is", 2, []string{"metadata"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := objectsOf(t, provider)
			names, errs := settingsOf(v1alpha1.ComponentSettings{Patches: []v1alpha1.Patch{{Target: test.target, Patch: test.patch}}}).Apply(objects, nil, false)
			if got := at(t, objects[test.object], test.field...); len(errs) > 0 || !strings.Contains(got, test.want) || fmt.Sprint(names) != "[patches[0]]" {
				t.Errorf("names %v, errors %v:\n%s", names, errs, got)
			}
		})
	}
}

func TestApply_Errors(t *testing.T) {
	deployment := v1alpha1.PatchTarget{Group: "apps", Kind: "Deployment"}
	for name, test := range map[string]struct {
		manifests string
		own       v1alpha1.ComponentSettings
		want      string
	}{
		"a feature gate that the manager does not have": {
			provider, v1alpha1.ComponentSettings{FeatureGates: []v1alpha1.FeatureGate{{Name: "ClusterTopolgy"}}},
			`spec.components[1].featureGates[0].name: Unsupported value: "ClusterTopolgy": supported values: "ClusterTopology", "MachinePool"`,
		},
		"no Deployment": {
			provider[strings.Index(provider, "---")+4:], v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Replicas: new(int32(2))}},
			"spec.components[1].deployment: Forbidden: the component has no Deployment",
		},
		"two values of one argument": {
			provider, v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Args: []string{"--v=4", "--x", "-v=5"}}},
			"spec.components[1].deployment.args: Forbidden: Deployment capi-system/capi: --v=4 and -v=5 set the same argument",
		},
		"replicas of several Deployments": {
			provider + second, v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Replicas: new(int32(2))}},
			"spec.components[1].deployment.replicas: Forbidden: the component has the Deployments capi, aso",
		},
		"no container is the manager": {
			second, v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Args: []string{"--v=4"}}},
			`spec.components[1].deployment.args: Forbidden: Deployment capi-system/aso: it has several containers, and none is named "manager"`,
		},
		"a patch that matches nothing": {
			provider, v1alpha1.ComponentSettings{Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchTarget{Kind: "Deployment", Name: "capi"}, Patch: "{}"}}},
			`spec.components[1].patches[0].target: Not found: "Deployment capi of group \"\"; the component has capi of group \"apps\""`,
		},
		"a patch that is not YAML": {
			provider, v1alpha1.ComponentSettings{Patches: []v1alpha1.Patch{{Target: deployment, Patch: "a: ["}}}, "spec.components[1].patches[0].patch: Forbidden",
		},
		"a patch that is a text": {
			provider, v1alpha1.ComponentSettings{Patches: []v1alpha1.Patch{{Target: deployment, Patch: "text"}}}, "want a mapping or a list of operations",
		},
		"a patch of a path that does not exist": {
			provider, v1alpha1.ComponentSettings{Patches: []v1alpha1.Patch{{Target: deployment, Patch: `[{"op": "remove", "path": "/spec/none"}]`}}}, "spec.components[1].patches[0]: Forbidden: Deployment capi-system/capi:",
		},
		"a patch of a wrong type": {
			provider, v1alpha1.ComponentSettings{Patches: []v1alpha1.Patch{{Target: deployment, Patch: "spec: {template: {spec: {containers: text}}}"}}}, "spec.components[1].patches[0]: Forbidden",
		},
		"a patch of the name": {
			provider, v1alpha1.ComponentSettings{Patches: []v1alpha1.Patch{{Target: deployment, Patch: "metadata: {name: other}"}}}, "cannot change the apiVersion, kind, name or namespace",
		},
		"a setting and a patch of one field": {
			provider, v1alpha1.ComponentSettings{
				Deployment: &v1alpha1.DeploymentSettings{Replicas: new(int32(2))},
				Patches:    []v1alpha1.Patch{{Target: deployment, Patch: "spec: {replicas: 3}"}},
			},
			"spec.components[1].patches[0]: Forbidden: spec.components[1].deployment.replicas also sets spec.replicas of Deployment capi-system/capi",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := settingsOf(test.own).Apply(objectsOf(t, test.manifests), nil, false)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), test.want) {
				t.Errorf("got %v, want %s", errs, test.want)
			}
		})
	}
}

func TestValues(t *testing.T) {
	text, cluster := []byte("a: ${A}\nb: ${B:=2}\nproxy: ${HTTP_PROXY}\n"), map[string]string{"HTTP_PROXY": "cluster"}
	own := func(names ...string) Component {
		settings := v1alpha1.ComponentSettings{}
		for _, name := range names {
			settings.Variables = append(settings.Variables, v1alpha1.Variable{Name: name, Value: new("mine")})
		}
		return settingsOf(settings)
	}
	values, errs := own("A", "HTTP_PROXY").Values(cluster, text, false)
	if diff := cmp.Diff(map[string]string{"A": "mine", "HTTP_PROXY": "mine"}, values); diff != "" || len(errs) > 0 || cluster["HTTP_PROXY"] != "cluster" {
		t.Errorf("errors %v, values (-want +got):\n%s", errs, diff)
	}
	_, errs = own("C", "HTTP_PROXY").Values(cluster, text, true)
	want := []string{
		`spec.components[1].variables[0].name: Unsupported value: "C": supported values: "A", "B", "HTTP_PROXY"`,
		"spec.components[1].variables[HTTP_PROXY]: Forbidden: HTTP_PROXY has the value of the cluster's configuration in OpenShift",
	}
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestCheck_UnknownComponent(t *testing.T) {
	settings := Settings{Components: []v1alpha1.ComponentSettings{{Name: "cluster-api"}, {Name: "aws"}, {Name: "azure"}}, Unselected: map[string]string{"azure": "is for platform Azure"}}
	want := `[spec.components[1].name: Unsupported value: "aws": supported values: "cluster-api", "cluster-api-provider-aws" spec.components[2].name: Invalid value: "azure": is for platform Azure]`
	if errs := settings.Check([]string{"cluster-api", "cluster-api-provider-aws"}); fmt.Sprint(errs) != want {
		t.Errorf("got %v", errs)
	}
}

// TestUnknown_NamesEachEntry has an entry of each kind that names something, and others.
func TestUnknown_NamesEachEntry(t *testing.T) {
	policy := []v1alpha1.IgnoredFields{
		{Group: "apps", Kind: "Deployment", Name: "capi", Fields: []string{"/spec/replicas", "/spec/replica", "/spec/template/spec/containers/0/args/1", "/spec/template/spec/containers/1"}},
		{Kind: "Deployment", Name: "capi", Fields: []string{"/spec/replicas"}},
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "clusters.cluster.x-k8s.io", Fields: []string{"/spec/names/caBundle", "/spec/conversion/webhook/clientConfig/caBundle"}},
	}
	want := []string{
		"spec.unmanagedCRDs: no component has CRD cluster.cluster.x-k8s.io",
		"spec.unmanagedCRDs: no component has CRD others.example.org",
		"spec.driftPolicy.ignoredFields[0].fields[1]: Deployment.apps capi has no field /spec/replica",
		"spec.driftPolicy.ignoredFields[1]: no component has Deployment capi",
	}
	got := Unknown([]string{"clusters.cluster.x-k8s.io", "cluster.cluster.x-k8s.io", "others.example.org"}, policy, objectsOf(t, provider))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	got = Unknown([]string{"cluster.cluster.x-k8s.io"}, nil, objectsOf(t, provider))
	if want := []string{"spec.unmanagedCRDs: no component has CRD cluster.cluster.x-k8s.io (did you mean clusters.cluster.x-k8s.io?)"}; !cmp.Equal(want, got) {
		t.Errorf("got %q", got)
	}
}

// Settings in the form of cluster-api-operator get an error with the form of ClusterAPI.
func TestParseSpec_FormsOfClusterAPIOperator(t *testing.T) {
	_, err := ParseSpec([]byte(`spec:
  components:
  - name: cluster-api
    featureGates: {ClusterTopology: true}
    manager: {featureGates: {MachinePool: false}}
    deployment: {args: {v: 4}, env: {A: b}}
    args: {x: z}
    env: [{name: A, value: b}]
`))
	want := `spec.components[0].featureGates: want featureGates: [{name: ClusterTopology, enabled: true}]
spec.components[0].manager.featureGates: want featureGates: [{name: MachinePool, enabled: false}]
spec.components[0].deployment.args: want deployment.args: ["--v=4"]
spec.components[0].args: want deployment.args: ["--x=z"]
spec.components[0].deployment.env: want deployment.env: [{name: A, value: "b"}]`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	_, err = ParseSpec([]byte("components: [{name: a, env: [{name: A, value: b}]}]"))
	if err == nil || !strings.Contains(err.Error(), `unknown field "components[0].env"`) {
		t.Errorf("got %v", err)
	}
}
