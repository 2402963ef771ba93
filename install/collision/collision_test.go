// SPDX-License-Identifier: Apache-2.0

package collision_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/install/collision"
	"github.com/capi-installer/capi-installer/internal/object"
)

func TestOwnerOf(t *testing.T) {
	for metadata, want := range map[string]string{
		`{}`: "no owner",
		`{ownerReferences: [{kind: Namespace, name: a}]}`:                                                                "owned by Namespace a",
		`{ownerReferences: [{kind: Namespace, name: a}, {kind: CoreProvider, name: capi, controller: true}]}`:            "owned by CoreProvider capi",
		`{ownerReferences: [{kind: Namespace, name: a}], managedFields: [{manager: clusterctl}]}`:                        "owned by Namespace a",
		`{managedFields: [{manager: clusterctl}]}`:                                                                       "written by clusterctl",
		`{managedFields: [{manager: kubectl}, {manager: helm}, {manager: kubectl}, {manager: kube-controller-manager}]}`: "written by helm and kubectl",
		`{managedFields: [{manager: kube-controller-manager, subresource: status}]}`:                                     "no owner",
		`{annotations: {meta.helm.sh/release-name: capi}, labels: {app.kubernetes.io/managed-by: Helm}}`:                 "managed by Helm, Helm release capi",
		`{labels: {kustomize.toolkit.fluxcd.io/name: infra}, managedFields: [{manager: flux}]}`:                          "Flux Kustomization infra, written by flux",
	} {
		found := &corev1.ConfigMap{}
		if err := yaml.Unmarshal([]byte("metadata: "+metadata), found); err != nil {
			t.Fatal(err)
		}
		if got := collision.OwnerOf(found); got != want {
			t.Errorf("%s\n got %q\nwant %q", metadata, got, want)
		}
	}
}

func ExampleMessage() {
	kind := func(group, kind string) schema.GroupKind { return schema.GroupKind{Group: group, Kind: kind} }
	message := collision.Message([]collision.Object{
		{Identity: object.Identity{GroupKind: object.CustomResourceDefinition, Name: "clusters.cluster.x-k8s.io"}, Owner: "written by clusterctl"},
		{Identity: object.Identity{GroupKind: object.CustomResourceDefinition, Name: "machines.cluster.x-k8s.io"}, Owner: "written by clusterctl"},
		{Identity: object.Identity{GroupKind: kind("apps", "Deployment"), Namespace: "capi-system", Name: "capi"}, Owner: "owned by CoreProvider capi"},
		{Identity: object.Identity{GroupKind: kind("", "Service"), Namespace: "kube-system", Name: "webhook"}, Owner: "no owner"},
	})
	fmt.Println(strings.NewReplacer("(", "(\n", "; ", ";\n", "them: ", "them:\n", "&& ", "&&\n").Replace(message))
	// Output:
	// objects already exist and are not managed by the installer (
	// written by clusterctl: CustomResourceDefinition clusters.cluster.x-k8s.io, CustomResourceDefinition machines.cluster.x-k8s.io;
	// owned by CoreProvider capi: Deployment capi-system/capi;
	// no owner: Service kube-system/webhook);
	// to have it adopt all of them:
	// kubectl annotate --overwrite --namespace=capi-system customresourcedefinition.apiextensions.k8s.io/clusters.cluster.x-k8s.io customresourcedefinition.apiextensions.k8s.io/machines.cluster.x-k8s.io deployment.apps/capi capi-operator.openshift.io/adopt-existing=always &&
	// kubectl annotate --overwrite --namespace=kube-system service/webhook capi-operator.openshift.io/adopt-existing=always
}

// There is one command of kubectl for each namespace.
func TestMessage_CommandForEachNamespace(t *testing.T) {
	in := func(namespace, name string) collision.Object {
		return collision.Object{Identity: object.Identity{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespace: namespace, Name: name}, Owner: "no owner"}
	}
	for want, found := range map[string][]collision.Object{
		"kubectl annotate --overwrite secret/a secret/b ":               {in("", "a"), in("", "b")},
		"kubectl annotate --overwrite --namespace=n secret/a ":          {in("n", "a")},
		"kubectl annotate --overwrite --namespace=m secret/b secret/a ": {in("m", "a"), in("", "b")},
		" && kubectl annotate --overwrite --namespace=n secret/a ":      {in("m", "b"), in("n", "a")},
	} {
		if got := collision.Message(found); !strings.Contains(got, want) {
			t.Errorf("%s, want %q", got, want)
		}
	}
}
