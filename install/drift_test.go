// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

const (
	webhookKind     = "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration"
	clusterRoleKind = "rbac.authorization.k8s.io/v1/ClusterRole"
	deploymentKind  = "apps/v1/Deployment"
)

// shared are manifests of objects that other controllers write to as well.
var shared = []string{
	// The service CA operator writes caBundle.
	`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: shared, annotations: {service.beta.openshift.io/inject-cabundle: "true"}}
webhooks:
- name: shared.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: shared, namespace: openshift-cluster-api, path: /validate}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [shareds]}]
`,
	// Only the controller manager writes rules.
	`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shared-aggregate}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {shared.example.com/aggregate: "true"}}]}
rules: []
`,
	`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shared-part, labels: {shared.example.com/aggregate: "true"}}
rules: [{apiGroups: [example.com], resources: [shareds], verbs: [get]}]
`,
	`apiVersion: v1
kind: Service
metadata: {name: shared, namespace: openshift-cluster-api}
spec: {selector: {app: shared}, ports: [{port: 443, targetPort: 9443}]}
`,
	`apiVersion: v1
kind: ServiceAccount
metadata: {name: shared, namespace: openshift-cluster-api}
`,
}

// scaled returns the manifest of a Deployment without replicas.
func scaled(name string) string {
	object := &unstructured.Unstructured{}
	if err := decode(deployment(name, placeholder), object); err != nil {
		return err.Error()
	}
	unstructured.RemoveNestedField(object.Object, "spec", "replicas")
	content, err := object.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(content) + "\n"
}

// patch applies a merge patch with a field manager.
func (h *harness) patch(kind, namespace, name, manager, patch string) {
	h.Helper()
	object := h.object(kind, namespace, name)
	if object == nil {
		h.Fatalf("%s %s not found", kind, name)
	}
	h.must(h.Patch(h.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager)))
}

func TestDrift_KeepsFieldsOfOthersAndIsQuiet(t *testing.T) {
	h := newInstallation(t, core(shared...), aws(scaled("scaled"), crd("machines", "Machine")))

	bundle := base64.StdEncoding.EncodeToString([]byte("certificate"))
	h.serveCA("shared", bundle)
	scale := h.object(deploymentKind, namespace, "scaled")
	replicas := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": int64(3)}}}
	h.must(h.SubResource("scale").Update(t.Context(), scale, client.WithSubResourceBody(replicas), client.FieldOwner("horizontal-pod-autoscaler")))
	h.patch("v1/ServiceAccount", namespace, "shared", "token-controller", `{"metadata": {"annotations": {"example.com/note": "theirs"}}, "imagePullSecrets": [{"name": "theirs"}]}`)
	h.patch(crdKind, "", machines, "storage-migrator", `{"metadata": {"labels": {"example.com/note": "theirs"}}}`)
	h.eventually("the replicas set by another client are available and in the status", func() error {
		before := h.writes.Load()
		h.reconcileTimes(3)
		if available := field(h.object(deploymentKind, namespace, "scaled"), "status", "availableReplicas"); available != int64(3) || h.writes.Load() != before {
			return fmt.Errorf("%v available replicas, %d writes in 3 reconciles", available, h.writes.Load()-before)
		}
		return nil
	})
	h.settled("4.22.0-1")

	h.expectQuiet(func() {
		h.writeImages() // triggers a reconcile of the version controller
		h.reconcileTimes(100)
	})
	got := map[string]any{
		"caBundle":     field(h.object(webhookKind, "", "shared"), "webhooks", 0, "clientConfig", "caBundle"),
		"aggregated":   field(h.object(clusterRoleKind, "", "shared-aggregate"), "rules", 0, "resources", 0),
		"replicas":     field(h.object(deploymentKind, namespace, "scaled"), "spec", "replicas"),
		"pull secrets": field(h.object("v1/ServiceAccount", namespace, "shared"), "imagePullSecrets", 0, "name"),
		"annotation":   field(h.object("v1/ServiceAccount", namespace, "shared"), "metadata", "annotations", "example.com/note"),
		"label":        field(h.object(crdKind, "", machines), "metadata", "labels", "example.com/note"),
	}
	want := map[string]any{"caBundle": bundle, "aggregated": "shareds", "replicas": int64(3), "pull secrets": "theirs", "annotation": "theirs", "label": "theirs"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields of other managers (-want +got):\n%s", diff)
	}
}

// serveCA plays the service CA operator.
func (h *harness) serveCA(webhooks, bundle string) {
	h.Helper()
	configuration := h.object(webhookKind, "", webhooks)
	list, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, webhook := range list {
		h.must(unstructured.SetNestedField(webhook.(map[string]any), bundle, "clientConfig", "caBundle"))
	}
	h.must(unstructured.SetNestedSlice(configuration.Object, list, "webhooks"))
	h.must(h.Update(h.Context(), configuration, client.FieldOwner("service-ca-operator")))
}

// reconcileTimes makes both controllers reconcile a number of times.
func (h *harness) reconcileTimes(times int) {
	h.Helper()
	began := h.reconciles()
	h.eventually(fmt.Sprintf("the installer has reconciled %d times", times), func() error {
		h.touch()
		if now := h.reconciles() - began; now < times {
			return fmt.Errorf("it has reconciled %d times", now)
		}
		return nil
	})
}

// touch triggers a reconcile of both controllers without changing their input.
func (h *harness) touch() {
	h.Helper()
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Name = v1alpha1.ClusterAPIName
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {"touched": "%d"}}}`, time.Now().UnixNano())
	h.must(h.Patch(h.Context(), cluster, client.RawPatch(types.MergePatchType, patch)))
}

// reconciles returns the number of reconciles of the installer controller.
func (h *harness) reconciles() int { return h.finished.read()["installer"] }

// field returns the value at a path of names and indexes; nil if there is none.
func field(object *unstructured.Unstructured, path ...any) any {
	if object == nil {
		return nil
	}
	var node any = object.Object
	for _, step := range path {
		switch parent := node.(type) {
		case map[string]any:
			name, _ := step.(string)
			node = parent[name]
		case []any:
			index, isIndex := step.(int)
			if !isIndex || index >= len(parent) {
				return nil
			}
			node = parent[index]
		default:
			return nil
		}
	}
	return node
}

func TestDrift_RevertsEditsAndDeletionsOfEveryKind(t *testing.T) {
	h := newInstallation(t, core(append(shared, configMap("settings", "1"))...), aws(crd("machines", "Machine")))
	before := h.clusterContent()
	for _, edit := range []struct{ kind, namespace, name, patch string }{
		{"v1/ConfigMap", namespace, "settings", `{"data": {"value": "2"}}`},
		{"v1/Service", namespace, "shared", `{"spec": {"selector": {"app": "other"}}}`},
		{deploymentKind, namespace, "capi", `{"spec": {"template": {"spec": {"containers": [{"name": "manager", "image": "example.com/other", "imagePullPolicy": "IfNotPresent"}]}}}}`},
		{deploymentKind, namespace, "capa", `{"spec": {"replicas": 0}}`},
		{clusterRoleKind, "", "shared-part", `{"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}`},
		{webhookKind, "", "shared", `{"webhooks": []}`},
		{crdKind, "", machines, `{"spec": {"versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`},
	} {
		h.patch(edit.kind, edit.namespace, edit.name, "external", edit.patch)
	}
	h.eventually("every edit is reverted", func() error { return difference(before, h.clusterContent()) })
	h.stop() // the original boxcutter writes some objects twice after an edit, and a third revert would be a contest
	h.start("4.22.0")
	for _, object := range []struct{ kind, namespace, name string }{
		{"v1/ConfigMap", namespace, "settings"}, {"v1/Service", namespace, "shared"}, {"v1/ServiceAccount", namespace, "shared"},
		{deploymentKind, namespace, "capi"}, {clusterRoleKind, "", "shared-part"}, {clusterRoleKind, "", "shared-aggregate"}, {webhookKind, "", "shared"},
	} {
		h.must(h.Delete(t.Context(), h.object(object.kind, object.namespace, object.name)))
	}
	h.eventually("every deleted object is recreated", func() error { return difference(before, h.clusterContent()) })
	h.settled("4.22.0-1")
}

// difference describes how two states of the cluster differ, ignoring addresses of Services.
func difference(before, after map[string]any) error {
	for _, state := range []map[string]any{before, after} {
		for _, object := range state {
			if spec, isMap := object.(map[string]any)["spec"].(map[string]any); isMap {
				delete(spec, "clusterIP")
				delete(spec, "clusterIPs")
			}
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		return fmt.Errorf("(-before +now):\n%s", diff)
	}
	return nil
}
