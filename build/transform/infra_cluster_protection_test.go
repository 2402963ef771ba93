// SPDX-License-Identifier: Apache-2.0

package transform_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

const demoClusterCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: democlusters.infrastructure.cluster.x-k8s.io}
spec:
  group: infrastructure.cluster.x-k8s.io
  names: {kind: DemoCluster, listKind: DemoClusterList, plural: democlusters, singular: democluster}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

func TestProtectInfraCluster_DeniesDeletionOfOwnCluster(t *testing.T) {
	config := controlplane.Shared(t).Config
	if _, err := (fixture.Preparation{}).Apply(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(client.IgnoreAlreadyExists(admin.Create(t.Context(), objectOf("v1", "Namespace", "", v1alpha1.OpenShiftNamespaces.Operand))))
	objects, err := bundle.Objects(extractor.Bundle{Manifests: []byte(demoClusterCRD)})
	must(err)
	objects, _, err = transform.Apply(transform.All(), objects, transform.Options{Namespace: v1alpha1.OpenShiftNamespaces.Operand})
	must(err)
	must(fixture.InstallCRDs(t.Context(), config, objects[:1]))
	for _, object := range objects[1:] {
		must(admin.Create(t.Context(), object))
	}
	own, other := demoCluster(v1alpha1.OpenShiftNamespaces.Operand, "mine"), demoCluster(v1alpha1.OpenShiftNamespaces.Operand, "other")
	inOtherNamespace := demoCluster("default", "mine")
	for _, object := range []client.Object{own, other, inOtherNamespace} {
		must(admin.Create(t.Context(), object))
	}

	infrastructure := objectOf("config.openshift.io/v1", "Infrastructure", "", "cluster")
	rename := func(name string) {
		t.Helper()
		patch := []byte(`{"status": {"infrastructureName": ` + name + `}}`)
		must(admin.Status().Patch(t.Context(), infrastructure.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
	}
	rename(`"mine"`)
	denied := deletion(t, admin, own, func(err error) bool { return err != nil })
	if !apierrors.IsInvalid(denied) || !strings.Contains(denied.Error(), "corresponding to the cluster infrastructureName cannot be deleted") {
		t.Errorf("denied by: %v", denied)
	}
	must(admin.Delete(t.Context(), other))
	must(admin.Delete(t.Context(), inOtherNamespace))
	rename("null") // without a name, no InfraCluster belongs to the cluster
	deletion(t, admin, own, func(err error) bool { return err == nil })
}

// deletion repeats a dry run of a deletion until it returns the expected result.
func deletion(t *testing.T, admin client.Client, object *unstructured.Unstructured, ends func(error) bool) (last error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = admin.Delete(ctx, object.DeepCopy(), client.DryRunAll)
		return ends(last), nil
	})
	if err != nil {
		t.Fatalf("deleting %s: %v", object.GetName(), last)
	}
	return last
}

func objectOf(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func demoCluster(namespace, name string) *unstructured.Unstructured {
	return objectOf("infrastructure.cluster.x-k8s.io/v1", "DemoCluster", namespace, name)
}
