// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
)

// parse returns the object of a YAML document.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// podKinds has one object of every kind with a pod spec; POD stands for its spec.
var podKinds = map[string]string{
	"Pod":                   "{apiVersion: v1, kind: Pod, spec: POD}",
	"PodTemplate":           "{apiVersion: v1, kind: PodTemplate, template: {spec: POD}}",
	"ReplicationController": "{apiVersion: v1, kind: ReplicationController, spec: {template: {spec: POD}}}",
	"Deployment":            "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: POD}}}",
	"DaemonSet":             "{apiVersion: apps/v1, kind: DaemonSet, spec: {template: {spec: POD}}}",
	"StatefulSet":           "{apiVersion: apps/v1, kind: StatefulSet, spec: {template: {spec: POD}}}",
	"ReplicaSet":            "{apiVersion: apps/v1, kind: ReplicaSet, spec: {template: {spec: POD}}}",
	"Job":                   "{apiVersion: batch/v1, kind: Job, spec: {template: {spec: POD}}}",
	"CronJob":               "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: POD}}}}}",
}

func podKind(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	o := parse(t, podKinds[kind])
	var pod map[string]any
	if err := yaml.Unmarshal([]byte(spec), &pod); err != nil {
		t.Fatal(err)
	}
	path, found := object.PodSpecPath(object.GroupKind(o))
	if !found {
		t.Fatalf("%s has no pod spec", kind)
	}
	if err := unstructured.SetNestedMap(o.Object, pod, path...); err != nil {
		t.Fatal(err)
	}
	return o
}

const threeContainers = `
initContainers: [{name: init, image: a}]
containers: [{name: main, image: b}]
ephemeralContainers: [{name: debug, image: c}]
`

func TestContainers_EveryKindAndField(t *testing.T) {
	t.Parallel()
	for kind := range podKinds {
		o := podKind(t, kind, threeContainers)
		var names []string
		for _, container := range object.Containers(o) {
			names = append(names, object.TextAt(container, "name"))
		}
		if want := []string{"init", "main", "debug"}; !slices.Equal(names, want) {
			t.Errorf("%s: containers are %q, want %q", kind, names, want)
		}
		if images := object.Images(o); !slices.Equal(images, []string{"a", "b", "c"}) {
			t.Errorf("%s: images are %q", kind, images)
		}
	}
}

func TestPodTemplate_OtherKindsHaveNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"{apiVersion: example.com/v1, kind: Deployment, spec: {template: {spec: {containers: [{image: a}]}}}}",
		"{apiVersion: v1, kind: ConfigMap, spec: {containers: [{image: a}]}}",
		"{apiVersion: apps/v1, kind: ControllerRevision}",
	} {
		if o := parse(t, text); object.PodTemplate(o) != nil || len(object.Containers(o)) > 0 {
			t.Errorf("%s has a pod template", text)
		}
	}
}

func TestPodTemplate_ContainsMetadata(t *testing.T) {
	t.Parallel()
	for kind := range podKinds {
		o := podKind(t, kind, threeContainers)
		object.EnsureMap(object.PodTemplate(o), "metadata", "annotations")["a"] = "b"
		path, _ := object.PodTemplatePath(object.GroupKind(o))
		got, _, err := unstructured.NestedString(o.Object, append(path, "metadata", "annotations", "a")...)
		if err != nil || got != "b" {
			t.Errorf("%s: the annotation is %q (%v)", kind, got, err)
		}
	}
}

func TestReplaceImages(t *testing.T) {
	t.Parallel()
	pod := func(old, word string) *unstructured.Unstructured {
		return podKind(t, "PodTemplate", `
initContainers: [{name: init, image: `+old+`}]
containers:
- name: main
  image: `+word+`
  command: [/bin/sh, -c, "run '`+old+`' nginx"]
  args: [`+old+`, --image=`+old+`, "a=`+old+`,b=c", 1, nginx, "x/old:v1", "old:v1-pause", "(old:v1)"]
  env: [{name: IMAGE, value: `+old+`}, {name: NONE}]
`)
	}
	o := pod("old:v1", "nginx")
	replaced := object.ReplaceImages(o, map[string]string{"old:v1": "new@sha256:1f", "nginx": "word", "unused:v1": "x"})
	if !slices.Equal(replaced, []string{"nginx", "old:v1"}) {
		t.Errorf("replaced %q", replaced)
	}
	if diff := cmp.Diff(pod("new@sha256:1f", "word").Object, o.Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	data := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"config": "image: \"old:v1\"\nother: old:v1"}}}
	object.ReplaceImages(data, map[string]string{"old:v1": "new"})
	if got := object.TextAt(data.Object, "data", "config"); got != "image: \"new\"\nother: new" {
		t.Errorf("got %q", got)
	}
}

func TestIsPinned(t *testing.T) {
	t.Parallel()
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for image, want := range map[string]bool{
		"quay.io/x@sha256:" + hash:     true,
		"quay.io/x:v1@sha256:" + hash:  true,
		"quay.io/x:v1":                 false,
		"quay.io/x":                    false,
		"@sha256:" + hash:              false,
		"quay.io/x@sha256:" + hash[1:]: false,
		"quay.io/x@md5:" + hash[:32]:   false,
		"quay.io/x@" + hash:            false,
		"sha256:" + hash:               false,
		"":                             false,
	} {
		if got := object.IsPinned(image); got != want {
			t.Errorf("IsPinned(%q) = %v, want %v", image, got, want)
		}
	}
}

func TestMentionsImage(t *testing.T) {
	t.Parallel()
	const reference = "registry.example.com/openshift:aws"
	for text, want := range map[string]bool{
		reference:                                true,
		"--image=" + reference:                   true,
		"a=" + reference + ",b=c":                true,
		reference + "-pause," + reference:        true,
		"run '" + reference + "'":                true,
		"docker://" + reference:                  true,
		reference + "-pause":                     false,
		reference + "@sha256:0123":               false,
		"mirror.example.com/" + reference:        false,
		reference + reference:                    false,
		"registry.example.com/openshift:azure":   false,
		"":                                       false,
		"x" + reference + " " + reference + "-y": false,
	} {
		if got := object.MentionsImage(text, reference); got != want {
			t.Errorf("MentionsImage(%q) = %v, want %v", text, got, want)
		}
	}
	if object.MentionsImage("text", "") {
		t.Error("an empty reference is mentioned")
	}
}

func TestIdentity_String(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: b}}": "Deployment b/a",
		"{apiVersion: v1, kind: Namespace, metadata: {name: a}}":                     "Namespace a",
		"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: b}}":                "ConfigMap",
		"{apiVersion: a/b/c, kind: Thing, metadata: {name: a}}":                      "Thing a",
		"{metadata: {name: a, namespace: b}}":                                        "b/a",
		"{}":                                                                         "",
	} {
		if got := object.Describe(parse(t, text)); got != want {
			t.Errorf("Describe(%s) = %q, want %q", text, got, want)
		}
	}
}

func TestDuplicates_IgnoreTheAPIVersion(t *testing.T) {
	t.Parallel()
	duplicates := object.Duplicates([]*unstructured.Unstructured{
		parse(t, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, namespace: b}}"),
		parse(t, "{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a, namespace: b}}"),
		parse(t, "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a, namespace: c}}"),
		parse(t, "{apiVersion: example.com/v1, kind: PodDisruptionBudget, metadata: {name: a, namespace: b}}"),
	})
	want := []object.Identity{{GroupKind: schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}, Namespace: "b", Name: "a"}}
	if diff := cmp.Diff(want, duplicates); diff != "" {
		t.Errorf("duplicates (-want +got):\n%s", diff)
	}
}

func TestCompare_ApplyOrder(t *testing.T) {
	t.Parallel()
	want := []string{
		"v1 Namespace", "apiextensions.k8s.io/v1 CustomResourceDefinition", "v1 ServiceAccount",
		"rbac.authorization.k8s.io/v1 ClusterRole", "rbac.authorization.k8s.io/v1 Role",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding", "rbac.authorization.k8s.io/v1 RoleBinding",
		"v1 ConfigMap", "v1 Secret", "v1 Service",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding",
		"example.com/v1 Deployment", "policy/v1 PodDisruptionBudget",
		"v1 Pod", "v1 PodTemplate", "apps/v1 Deployment", "batch/v1 CronJob",
		"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration", "apiregistration.k8s.io/v1 APIService",
	}
	var objects []*unstructured.Unstructured
	for _, name := range slices.Backward(want) {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		version, kind, _ := strings.Cut(name, " ")
		o.SetAPIVersion(version)
		o.SetKind(kind)
		objects = append(objects, o)
	}
	slices.SortFunc(objects, object.Compare)
	var got []string
	for _, o := range objects {
		got = append(got, o.GetAPIVersion()+" "+o.GetKind())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestCompareRank_KeepsTheOrderWithinARank(t *testing.T) {
	t.Parallel()
	objects := []*unstructured.Unstructured{
		parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: b}}"),
		parse(t, "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}}"),
		parse(t, "{apiVersion: v1, kind: Service, metadata: {name: c}}"),
	}
	slices.SortStableFunc(objects, object.CompareRank)
	if got := object.Describe(objects[0]) + object.Describe(objects[1]) + object.Describe(objects[2]); got != "Service cDeployment bDaemonSet a" {
		t.Errorf("order is %s", got)
	}
}

func TestScopes_CRDsBeforeBuiltIn(t *testing.T) {
	t.Parallel()
	scopes := object.DefinedScopes([]*unstructured.Unstructured{
		parse(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: example.com, names: {kind: A}, scope: Cluster}}"),
		parse(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: cert-manager.io, names: {kind: Issuer}, scope: Cluster}}"),
		parse(t, "{apiVersion: v1, kind: ConfigMap, spec: {group: example.com, names: {kind: B}, scope: Cluster}}"),
	})
	for kind, want := range map[schema.GroupKind]object.Scope{
		{Group: "example.com", Kind: "A"}:          object.ScopeCluster,
		{Group: "example.com", Kind: "B"}:          object.ScopeUnknown,
		{Group: "cert-manager.io", Kind: "Issuer"}: object.ScopeCluster,
		object.Deployment:                          object.ScopeNamespaced,
		object.ClusterRole:                         object.ScopeCluster,
	} {
		if got := scopes.Of(kind); got != want {
			t.Errorf("scope of %s is %v, want %v", kind, got, want)
		}
	}
	if got := (object.Scopes)(nil).Of(object.Namespace); got != object.ScopeCluster {
		t.Errorf("scope of a Namespace is %v", got)
	}
}

func TestFields_OtherTypesReadAsEmpty(t *testing.T) {
	t.Parallel()
	o := parse(t, "{a: {text: x, list: [x, {b: c}, 1], number: 1}, s: t}").Object
	if object.TextAt(o, "a", "text") != "x" || object.TextAt(o, "a", "number") != "" || object.TextAt(o, "s", "t", "u") != "" {
		t.Error("TextAt")
	}
	if got := object.TextsAt(o, "a", "list"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("TextsAt returns %q", got)
	}
	if got := object.MapsAt(o, "a", "list"); len(got) != 1 || got[0]["b"] != "c" {
		t.Errorf("MapsAt returns %v", got)
	}
	if object.MapAt(o, "s") != nil || object.ListAt(o, "a", "text") != nil || object.MapAt(nil, "x") != nil {
		t.Error("values of other types are returned")
	}
}

func TestClientConfigs_OfEachKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, webhooks: [{clientConfig: {found: 1}}, {clientConfig: {found: 1}}]}": 2,
		"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, webhooks: [{clientConfig: {found: 1}}]}":                               1,
		"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {conversion: {webhook: {clientConfig: {found: 1}}}}}":                        1,
		"{apiVersion: runtime.cluster.x-k8s.io/v1beta2, kind: ExtensionConfig, spec: {clientConfig: {found: 1}}}":                                                 1,
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: {found: 1}}":                                                                             1,
		"{apiVersion: example.com/v1, kind: APIService, spec: {found: 1}}":                                                                                        0,
		"{apiVersion: v1, kind: ConfigMap, spec: {clientConfig: {found: 1}}}":                                                                                     0,
	} {
		o := parse(t, text)
		found := 0
		for _, config := range object.ClientConfigs(o) {
			if config["found"] != nil {
				config["caBundle"] = "x" // changes the object
				found++
			}
		}
		encoded, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		if found != want || strings.Count(string(encoded), "caBundle") != want {
			t.Errorf("%s: %d client configurations, want %d:\n%s", text, found, want, encoded)
		}
	}
}

func TestScopes_IsNamespaced(t *testing.T) {
	t.Parallel()
	scopes := object.Scopes{{Group: "example.com", Kind: "A"}: object.ScopeNamespaced, {Group: "example.com", Kind: "B"}: object.ScopeCluster}
	for text, want := range map[string]bool{
		"{apiVersion: example.com/v1, kind: A}":                           true,
		"{apiVersion: example.com/v1, kind: B, metadata: {namespace: a}}": false,
		"{apiVersion: example.com/v1, kind: C, metadata: {namespace: a}}": true,
		"{apiVersion: example.com/v1, kind: C}":                           false,
		"{apiVersion: v1, kind: ConfigMap}":                               true,
		"{apiVersion: v1, kind: Namespace, metadata: {namespace: a}}":     false,
	} {
		if got := scopes.IsNamespaced(parse(t, text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

// TestEnsureMap_KeepsValues: SetDefault and EnsureMap change only what is missing.
func TestEnsureMap_KeepsValues(t *testing.T) {
	t.Parallel()
	o := parse(t, "{a: {b: c}, text: x, none: null}").Object
	object.EnsureMap(o, "a", "d")["e"] = "f"
	object.EnsureMap(o, "text", "g")["h"] = "i"
	object.SetDefault(o, "none", "changed")
	object.SetDefault(o, "new", "set")
	if diff := cmp.Diff(parse(t, "{a: {b: c, d: {e: f}}, text: {g: {h: i}}, none: null, new: set}").Object, o); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEqual_OfJSONValues(t *testing.T) {
	t.Parallel()
	values := []string{
		"{}", "{a: null}", "{a: {}}", "{a: []}", "{a: 1}", "{a: 1.5}", `{a: "1"}`, "{a: true}", "{a: [1]}", "{a: [1, 2]}", "{a: [2, 1]}",
		"{a: {b: 1}}", "{a: {b: 1, c: 2}}", "{a: {c: 1}}", "{b: 1}",
	}
	for i, a := range values {
		for j, b := range values {
			if got := object.Equal(parse(t, a).Object, parse(t, b).Object); got != (i == j) {
				t.Errorf("%s and %s: %t", a, b, got)
			}
		}
	}
}
