// SPDX-License-Identifier: Apache-2.0

package fieldset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// deploymentOf returns a Deployment with a spec in YAML.
func deploymentOf(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default}, spec: ` + spec + `}`))
	out := &unstructured.Unstructured{}
	if err == nil {
		err = out.UnmarshalJSON(data) // integers, not floats
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// managedBy returns an entry of managedFields.
func managedBy(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

// A field of the drift policy has the live value while the installer owns it, and is not desired otherwise. Other fields stay.
func TestSchemas_Leave(t *testing.T) {
	const (
		spec      = `{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"manager\"}":{".":{},"f:name":{},"f:image":{},"f:args":{},"f:ports":{"k:{\"containerPort\":1,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}}}}}},"f:selector":{}}}`
		container = `{template: {spec: {containers: [{name: injected, image: i}, {name: manager, image: b, args: [x, z], ports: [{containerPort: 1, name: b}]}]}}}`
	)
	for name, test := range map[string]struct {
		field      string
		owned      string // managedFields of the installer
		live, spec string
		want       string
	}{
		"owned by the installer":   {"/spec/replicas", spec, `{replicas: 5}`, `{replicas: 1}`, `{replicas: 5}`},
		"owned by another actor":   {"/spec/replicas", `{"f:spec":{"f:paused":{}}}`, `{replicas: 5}`, `{replicas: 1, paused: true}`, `{paused: true}`},
		"removed by another actor": {"/spec/replicas", spec, `{}`, `{replicas: 1, paused: true}`, `{paused: true}`},
		"no field of the manifest": {"/spec/paused", spec, `{paused: true}`, `{replicas: 1}`, `{replicas: 1}`},
		"a field of an atomic map": {"/spec/selector/matchLabels/app", spec, `{selector: {matchLabels: {app: b}}}`, `{selector: {matchLabels: {app: a, x: z}}}`, `{selector: {matchLabels: {app: b, x: z}}}`},
		"an escaped name":          {"/spec/template/metadata/annotations/a~1b~0c", spec, `{template: {metadata: {annotations: {"a/b~c": "2", ab: "2"}}}}`, `{template: {metadata: {annotations: {"a/b~c": "1", ab: "1"}}}}`, `{template: {metadata: {annotations: {ab: "1"}}}}`},
		"a missing parent":         {"/spec/strategy/type", spec, `{strategy: {type: Recreate}}`, `{replicas: 1}`, `{replicas: 1}`},
		"an item with a key":       {"/spec/template/spec/containers/0/image", spec, container, `{template: {spec: {containers: [{name: manager, image: a}]}}}`, `{template: {spec: {containers: [{name: manager, image: b}]}}}`},
		"an item of another actor": {"/spec/template/spec/containers/0/image", spec, container, `{template: {spec: {containers: [{name: injected, image: a}]}}}`, `{template: {spec: {containers: [{name: injected}]}}}`},
		"a key with a default":     {"/spec/template/spec/containers/0/ports/0/name", spec, container, `{template: {spec: {containers: [{name: manager, ports: [{containerPort: 1, name: a}]}]}}}`, `{template: {spec: {containers: [{name: manager, ports: [{containerPort: 1, name: b}]}]}}}`},
		"an item that is gone":     {"/spec/template/spec/containers/0/image", spec, container, `{template: {spec: {containers: [{name: new, image: a}]}}}`, `{template: {spec: {containers: [{name: new, image: a}]}}}`},
		"an item of an atomic list": {
			"/spec/template/spec/containers/0/args/1", spec, container,
			`{template: {spec: {containers: [{name: manager, args: [a, b]}]}}}`, `{template: {spec: {containers: [{name: manager, args: [a, b]}]}}}`,
		},
		"the only field of a map":   {"/spec/strategy/type", `{"f:spec":{}}`, `{strategy: {type: Recreate}}`, `{replicas: 2, strategy: {type: RollingUpdate}}`, `{replicas: 2}`},
		"an index out of the range": {"/spec/template/spec/containers/7/image", spec, container, `{replicas: 2}`, `{replicas: 2}`},
		"no index":                  {"/spec/template/spec/containers/x/image", spec, container, `{template: {spec: {containers: [{name: manager, image: a}]}}}`, `{template: {spec: {containers: [{name: manager, image: a}]}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			live, desired, want := deploymentOf(t, test.live), deploymentOf(t, test.spec), deploymentOf(t, test.want)
			status := managedBy(v1alpha1.FieldOwner, metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)
			status.Subresource = "status"
			live.SetManagedFields([]metav1.ManagedFieldsEntry{
				managedBy(v1alpha1.FieldOwner, metav1.ManagedFieldsOperationApply, test.owned), managedBy("other", metav1.ManagedFieldsOperationUpdate, spec), status,
			})
			before := desired.DeepCopy()
			policy := []v1alpha1.IgnoredFields{{Group: "apps", Kind: "Deployment", Name: "web", Fields: []string{test.field}}, {Kind: "Deployment", Name: "web", Fields: []string{"/spec"}}}
			got, err := (&fieldset.Schemas{Discovery: fixture.Schemas{}}).Leave(policy, desired, live)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("desired (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Object, desired.Object); diff != "" {
				t.Errorf("the argument has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// The fields that an upgrade removes become fields of the installer alone. The differential test in test/fields has the other cases.
func TestSchemas_Takeover(t *testing.T) {
	const older = `{"f:spec":{"f:replicas":{},"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{}},"f:type":{}},"f:minReadySeconds":{}}}`
	policy := []v1alpha1.IgnoredFields{{Group: "apps", Kind: "Deployment", Name: "web", Fields: []string{"/spec/minReadySeconds"}}}
	scale := managedBy("hpa", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)
	scale.Subresource = "scale"
	live := deploymentOf(t, `{replicas: 5, minReadySeconds: 1, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 2}}}`)
	before, after := deploymentOf(t, `{replicas: 1, minReadySeconds: 1, strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}`), deploymentOf(t, `{strategy: {type: Recreate}}`)
	for name, test := range map[string]struct {
		managers []metav1.ManagedFieldsEntry
		want     map[string]string // fields by manager
	}{
		"the installer alone": {[]metav1.ManagedFieldsEntry{managedBy(v1alpha1.FieldOwner, metav1.ManagedFieldsOperationApply, older), scale}, nil},
		"a restored object": {[]metav1.ManagedFieldsEntry{managedBy("velero", metav1.ManagedFieldsOperationUpdate, older), scale}, map[string]string{
			v1alpha1.FieldOwner: `{"f:spec":{"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{},"f:maxUnavailable":{}}}}}`,
			"velero":            `{"f:spec":{"f:minReadySeconds":{},"f:replicas":{},"f:strategy":{"f:type":{}}}}`, "hpa": `{"f:spec":{"f:replicas":{}}}`,
		}},
		"an object that was created": {[]metav1.ManagedFieldsEntry{managedBy(v1alpha1.FieldOwner, metav1.ManagedFieldsOperationUpdate, older), scale}, map[string]string{
			v1alpha1.FieldOwner: `{"f:spec":{"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{},"f:maxUnavailable":{}}}}}`, "hpa": `{"f:spec":{"f:replicas":{}}}`,
		}},
		"a part of a structure": {[]metav1.ManagedFieldsEntry{
			managedBy(v1alpha1.FieldOwner, metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{}},"f:type":{}}}}`),
			managedBy("team", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:strategy":{"f:rollingUpdate":{".":{},"f:maxUnavailable":{}}}}}`), scale,
		}, map[string]string{
			v1alpha1.FieldOwner: `{"f:spec":{"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}}}}`, "hpa": `{"f:spec":{"f:replicas":{}}}`,
		}},
	} {
		live.SetManagedFields(test.managers)
		got, err := (&fieldset.Schemas{Discovery: fixture.Schemas{}}).Takeover(live, before, after, policy)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var fields map[string]string
		if got != nil {
			fields = map[string]string{}
			for _, entry := range got.Managed {
				fields[entry.Manager] = string(entry.FieldsV1.GetRawBytes())
			}
			upgraded, err := got.Upgraded()
			if diff := cmp.Diff(deploymentOf(t, `{replicas: 5, minReadySeconds: 1, strategy: {type: Recreate}}`).Object["spec"], upgraded.Object["spec"]); err != nil || diff != "" {
				t.Errorf("%s: %v; after the upgrade (-want +got):\n%s", name, err, diff)
			}
		}
		if diff := cmp.Diff(test.want, fields); diff != "" {
			t.Errorf("%s: managers (-want +got):\n%s", name, diff)
		}
	}
}
