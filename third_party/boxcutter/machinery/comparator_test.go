// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/ownerhandling"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: example.com/main:1
        ports: [{containerPort: 80}]
      - name: side
        image: example.com/side:1
`

// managedDeployment are the fields of deployment in the form of managedFields.
const managedDeployment = `{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{
	"k:{\"name\":\"main\"}":{".":{},"f:name":{},"f:image":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}},
	"k:{\"name\":\"side\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`

func managed(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	entry := metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
	}
	entry.FieldsV1.SetRawBytes([]byte(fields))
	return entry
}

func ours(fields string) metav1.ManagedFieldsEntry {
	return managed(fieldOwner, metav1.ManagedFieldsOperationApply, fields)
}

// asServed returns the deployment as an API server stores it: with defaults, another order of its containers, a status
// and a container of another field manager.
func asServed(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return object(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web, theirs: x}, uid: u, resourceVersion: "12", generation: 3, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate}
  template:
    metadata: {labels: {app: web}}
    spec:
      restartPolicy: Always
      containers:
      - name: added
        image: example.com/added:1
      - name: side
        image: example.com/side:1
        imagePullPolicy: Always
      - name: main
        image: example.com/main:1
        ports: [{containerPort: 80, protocol: TCP}]
status: {replicas: 1}
`)
}

func set(t *testing.T, obj *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	must(t, unstructured.SetNestedField(obj.Object, value, path...))
}

// container returns a container of a deployment. The test can change it.
func container(t *testing.T, obj *unstructured.Unstructured, name string, change func(map[string]any)) {
	t.Helper()
	path := []string{"spec", "template", "spec", "containers"}
	list, _, err := unstructured.NestedSlice(obj.Object, path...)
	must(t, err)
	for _, item := range list {
		if container, _ := item.(map[string]any); container["name"] == name {
			change(container)
		}
	}
	set(t, obj, list, path...)
}

const mainImage = `.spec.template.spec.containers[name="main"].image`

var (
	theirImage = managed("other", metav1.ManagedFieldsOperationUpdate,
		`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{"f:image":{}}}}}}}`)
	withoutImage = strings.Replace(managedDeployment, `"f:name":{},"f:image":{},"f:ports"`, `"f:name":{},"f:ports"`, 1)
	theirs       = managed("other", metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:labels":{"f:theirs":{}}},"f:spec":{"f:replicas":{}}}`)
	status       = managed("kubelet", metav1.ManagedFieldsOperationUpdate, `{"f:status":{"f:replicas":{}}}`)
)

var comparisons = map[string]struct {
	change    func(t *testing.T, desired, actual *unstructured.Unstructured)
	managers  []metav1.ManagedFieldsEntry
	conflicts []string
	modified  []string
}{
	"no drift: defaults, additions and another order": {
		managers: []metav1.ManagedFieldsEntry{ours(managedDeployment), theirs, status},
	},
	"fields of the engine's own create belong to it": {
		managers: []metav1.ManagedFieldsEntry{managed(fieldOwner, metav1.ManagedFieldsOperationUpdate, managedDeployment)},
	},
	"a changed item of a list with keys conflicts with its manager": {
		change: func(t *testing.T, _, actual *unstructured.Unstructured) {
			container(t, actual, "main", func(c map[string]any) { c["image"] = "example.com/other:1" })
		},
		managers:  []metav1.ManagedFieldsEntry{ours(withoutImage), theirImage},
		conflicts: []string{"other: " + mainImage}, modified: []string{mainImage},
	},
	"no conflict: a field with an additional manager": {
		managers: []metav1.ManagedFieldsEntry{ours(managedDeployment), theirImage},
	},
	"without own fields, every manager of a desired field conflicts": {
		managers:  []metav1.ManagedFieldsEntry{theirImage, theirs},
		conflicts: []string{"other: " + mainImage},
	},
	"a removed field is modified": {
		change: func(t *testing.T, _, actual *unstructured.Unstructured) {
			container(t, actual, "side", func(c map[string]any) { delete(c, "image") })
		},
		managers: []metav1.ManagedFieldsEntry{ours(managedDeployment)},
		modified: []string{`.spec.template.spec.containers[name="side"].image`},
	},
	"another desired value is modified": {
		change: func(t *testing.T, desired, _ *unstructured.Unstructured) {
			set(t, desired, "other", "metadata", "labels", "app")
		},
		managers: []metav1.ManagedFieldsEntry{ours(managedDeployment)},
		modified: []string{".metadata.labels.app"},
	},
	"a status is not compared": {
		change: func(t *testing.T, desired, _ *unstructured.Unstructured) {
			set(t, desired, int64(5), "status", "replicas")
		},
		managers: []metav1.ManagedFieldsEntry{ours(managedDeployment), status},
	},
	"fields of the server are not compared": {
		change: func(t *testing.T, desired, _ *unstructured.Unstructured) {
			set(t, desired, nil, "metadata", "creationTimestamp")
			set(t, desired, "7", "metadata", "resourceVersion")
		},
		managers: []metav1.ManagedFieldsEntry{ours(managedDeployment)},
	},
	"a field outside the schema is modified": {
		change: func(t *testing.T, desired, _ *unstructured.Unstructured) {
			desired.Object["spec"] = map[string]any{"replicas": int64(1), "nonsense": "x"}
		},
		managers: []metav1.ManagedFieldsEntry{ours(managedDeployment)},
		modified: []string{".spec.nonsense"},
	},
}

func TestCompare_Deployment(t *testing.T) {
	for name, test := range comparisons {
		t.Run(name, func(t *testing.T) {
			desired, actual := object(t, deployment), asServed(t)
			if test.change != nil {
				test.change(t, desired, actual)
			}
			actual.SetManagedFields(test.managers)
			result, err := comparator.Compare(desired, actual)
			must(t, err)
			var conflicts []string
			for _, manager := range result.ConflictingMangers {
				conflicts = append(conflicts, manager.Manager+": "+strings.Join(strings.Fields(manager.Fields.String()), " "))
			}
			equal(t, "conflicts", test.conflicts, conflicts)
			equal(t, "modified", test.modified, result.Modified())
			if result.IsConflict() != (len(test.conflicts) > 0) {
				t.Errorf("IsConflict: %t", result.IsConflict())
			}
		})
	}
}

func TestCompare_DescribesDifferences(t *testing.T) {
	desired, actual := object(t, deployment), asServed(t)
	container(t, actual, "main", func(c map[string]any) { c["image"] = "example.com/other:1" })
	container(t, actual, "side", func(c map[string]any) { delete(c, "image") })
	actual.SetManagedFields([]metav1.ManagedFieldsEntry{
		managed("other", metav1.ManagedFieldsOperationUpdate,
			`{"f:metadata":{"f:labels":{"f:theirs":{}}},"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{"f:image":{}}}}}}}`),
	})
	result, err := comparator.Compare(desired, actual)
	must(t, err)
	for _, want := range []string{
		"Conflicts:\n- \"other\":\n  .spec.template.spec.containers[name=\"main\"].image\n",
		"Other:\n- \"other\":\n  .metadata.labels.theirs\n",
		"- Modified:\n  .spec.template.spec.containers[name=\"main\"].image\n",
		"- Removed:\n  .spec.template.spec.containers[name=\"side\"].image\n",
		"  .spec.replicas\n",
	} {
		if !strings.Contains(result.String(), want) {
			t.Errorf("missing\n%s\nin\n%s", want, result)
		}
	}
	if got := (machinery.CompareResult{}); got.String() != "" || got.IsConflict() || got.Modified() != nil {
		t.Errorf("zero result: %s", got)
	}
}

func TestCompare_WithOwner(t *testing.T) {
	desired, actual := configMap(t), configMap(t)
	for name, strategy := range map[string]types.OwnerStrategy{
		"native":     owners,
		"annotation": ownerhandling.NewAnnotation(testScheme, "test.example.com/owners"),
	} {
		t.Run(name, func(t *testing.T) {
			result, err := comparator.Compare(desired, actual, types.WithOwner(owner("one"), strategy))
			if err != nil || len(result.Modified()) == 0 {
				t.Errorf("a missing owner is not detected: %v, %v", result.Modified(), err)
			}
			owned := actual.DeepCopy()
			for _, name := range []string{"zero", "one"} {
				strategy.ReleaseController(owned)
				must(t, strategy.SetControllerReference(owner(name), owned))
			}
			result, err = comparator.Compare(desired, owned, types.WithOwner(owner("one"), strategy))
			if err != nil || len(result.Modified()) > 0 {
				t.Errorf("an additional owner is reported as drift: %v, %v", result.Modified(), err)
			}
		})
	}
}

func TestCompare_Misuse(t *testing.T) {
	tests := map[string]func() error{
		"objects of different kinds": func() error {
			_, err := comparator.Compare(configMap(t), object(t, deployment))
			return err
		},
		"an owner without a strategy": func() error {
			_, err := comparator.Compare(configMap(t), configMap(t), types.WithOwner(owner("one"), nil))
			return err
		},
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			err := call()
			if _, ok := errors.AsType[*machinery.MisuseError](err); !ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCompare_KindFromScheme(t *testing.T) {
	desired := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}, Data: map[string]string{"color": "blue"}}
	result, err := comparator.Compare(desired, configMap(t))
	must(t, err)
	equal(t, "modified", []string{".data.color"}, result.Modified())
}

// gadgets is the schema of a group with two kinds. One has a status subresource.
const gadgets = `{
	"openapi": "3.0.0",
	"paths": {
		"/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}/status": {"get": {"x-kubernetes-group-version-kind": {"group": "example.com", "kind": "Gadget", "version": "v1"}}},
		"/apis/example.com/v1/namespaces/{namespace}/records/{name}": {"get": {"x-kubernetes-group-version-kind": {"group": "example.com", "kind": "Record", "version": "v1"}}}
	},
	"components": {"schemas": {
		"com.example.v1.Gadget": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Gadget", "version": "v1"}], "properties": {
			"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object", "additionalProperties": true, "x-kubernetes-preserve-unknown-fields": true},
			"status": {"type": "object", "additionalProperties": {"type": "string"}}}},
		"com.example.v1.Record": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Record", "version": "v1"}], "properties": {
			"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object", "additionalProperties": true, "x-kubernetes-preserve-unknown-fields": true},
			"items": ITEMS,
			"status": {"type": "object", "additionalProperties": {"type": "string"}}}}
	}}
}`

const itemsByName = `{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}}`

// schemaServer serves the schema of one group version and counts the requests.
type schemaServer struct {
	openapitest.FakeClient
	lists, reads int
}

func (s *schemaServer) OpenAPIV3() openapi.Client { return s }

func (s *schemaServer) Paths() (map[string]openapi.GroupVersion, error) {
	s.lists++
	return s.FakeClient.Paths()
}

// serve makes the server serve a schema at its own URL.
func (s *schemaServer) serve(url, document string) {
	s.PathsMap = map[string]openapi.GroupVersion{"apis/example.com/v1": &servedSchema{
		FakeGroupVersion: openapitest.FakeGroupVersion{GVSpec: []byte(document)}, url: url, reads: &s.reads,
	}}
}

type servedSchema struct {
	openapitest.FakeGroupVersion
	url   string
	reads *int
}

func (s *servedSchema) ServerRelativeURL() string { return s.url }

func (s *servedSchema) Schema(contentType string) ([]byte, error) {
	*s.reads++
	return s.FakeGroupVersion.Schema(contentType)
}

func record(t *testing.T, kind, rest string) *unstructured.Unstructured {
	t.Helper()
	return object(t, "{apiVersion: example.com/v1, kind: "+kind+", metadata: {name: x, namespace: default}, "+rest+"}")
}

func TestCompare_IgnoresStatusOnlyWithSubresource(t *testing.T) {
	server := &schemaServer{}
	server.serve("one", strings.Replace(gadgets, "ITEMS", itemsByName, 1))
	comparator := machinery.NewComparator(server, testScheme, fieldOwner)
	for kind, want := range map[string][]string{"Gadget": nil, "Record": {".status.phase"}} {
		result, err := comparator.Compare(record(t, kind, "status: {phase: good}"), record(t, kind, "status: {phase: bad}"))
		must(t, err)
		if diff := cmp.Diff(want, result.Modified()); diff != "" {
			t.Errorf("%s: modified (-want +got):\n%s", kind, diff)
		}
	}
	if server.reads != 1 || server.lists != 1 {
		t.Errorf("schema read %d times, listed %d times, want once", server.reads, server.lists)
	}
}

func TestCompare_KindWithoutSchema(t *testing.T) {
	server := &schemaServer{}
	comparator := machinery.NewComparator(server, testScheme, fieldOwner)
	tests := map[string][]string{
		"items: [{name: a, value: x}]":               nil,
		"items: [{name: b}, {name: a, value: x}]":    {".items"},
		"items: [{name: a, value: x}], extra: added": nil,
	}
	for actual, want := range tests {
		result, err := comparator.Compare(record(t, "Record", "items: [{name: a, value: x}]"), record(t, "Record", actual))
		must(t, err)
		if diff := cmp.Diff(want, result.Modified()); diff != "" {
			t.Errorf("%s: modified (-want +got):\n%s", actual, diff)
		}
	}
}

func TestCompare_UnreadableSchemaIsError(t *testing.T) {
	server := &schemaServer{FakeClient: openapitest.FakeClient{ForcedErr: errors.New("connection refused")}}
	_, err := machinery.NewComparator(server, testScheme, fieldOwner).Compare(configMap(t), configMap(t))
	if !errors.Is(err, server.ForcedErr) {
		t.Errorf("got %v", err)
	}
}

// A value that the API server stores in another form is no difference; other values are, also of fields that the Go type does not have.
func TestCompare_OtherFormsOfAValue(t *testing.T) {
	for name, test := range map[string]struct {
		desired, actual string // fields of the pod
		want            []string
	}{
		"a quantity":                    {`resources: {requests: {cpu: 1000m}}`, `resources: {requests: {cpu: "1"}}`, nil},
		"another quantity":              {`resources: {requests: {cpu: 1000m}}`, `resources: {requests: {cpu: "2"}}`, []string{`.spec.containers[name="main"].resources.requests.cpu`}},
		"false":                         {`stdin: false`, ``, nil},
		"true":                          {`stdin: true`, ``, []string{`.spec.containers[name="main"].stdin`}},
		"a missing value":               {`workingDir: /`, ``, []string{`.spec.containers[name="main"].workingDir`}},
		"a field that no Go type has":   {`invented: a`, ``, []string{".spec.containers"}},
		"another value of such a field": {`invented: a`, `invented: b`, []string{".spec.containers"}},
	} {
		pod := func(fields string) *unstructured.Unstructured {
			return object(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\nspec:\n  containers:\n  - name: main\n    "+fields+"\n")
		}
		got, err := comparator.Compare(pod(test.desired), pod(test.actual))
		must(t, err)
		if diff := cmp.Diff(test.want, got.Modified()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
