// SPDX-License-Identifier: Apache-2.0

package officialapi

import (
	"context"
	"errors"
	"testing"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// reconcileOnce reconciles a cluster with these objects, and returns the number of writes.
func reconcileOnce(t *testing.T, objects ...client.Object) (writes int) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), operatorv1alpha1.Install(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(append(objects, crd)...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			writes++
			return nil
		},
	}).Build()
	r := &Reconciler{Client: cluster, Source: &Source{Reader: cluster}}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	return writes
}

// Before the installer has installed anything, the status belongs to cluster-capi-operator. After an
// uninstallation, and during one, no version is current.
func TestReconcile_WritesTheStatusIfItIsOurs(t *testing.T) {
	ours := []metav1.ManagedFieldsEntry{{
		Manager: FieldOwner, Operation: metav1.ManagedFieldsOperationApply, APIVersion: operatorv1alpha1.GroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:currentRevision":{}}}`), Subresource: "status",
	}}
	official := func(current string, managers []metav1.ManagedFieldsEntry) *operatorv1alpha1.ClusterAPI {
		return &operatorv1alpha1.ClusterAPI{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName, ManagedFields: managers},
			Status:     operatorv1alpha1.ClusterAPIStatus{CurrentRevision: operatorv1alpha1.RevisionName(current), Revisions: []operatorv1alpha1.ClusterAPIInstallerRevision{entry("4.22.0-1", 1)}},
		}
	}
	installed := clusterAPI("4.22.0-1", version("4.22.0-1", 1))
	installed.Name = v1alpha1.ClusterAPIName
	deleted := installed.DeepCopy()
	now := metav1.Now()
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"example.com/a"}
	empty := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	upToDate := official("4.22.0-1", ours)
	upToDate.Status.DesiredRevision = "4.22.0-1"
	for name, test := range map[string]struct {
		objects []client.Object
		want    int
	}{
		"no official object":                           {[]client.Object{installed}, 0},
		"installed, and not reported yet":              {[]client.Object{installed, official("", nil)}, 1},
		"installed and reported":                       {[]client.Object{installed, upToDate}, 0},
		"being uninstalled":                            {[]client.Object{deleted, upToDate}, 1},
		"being uninstalled, and reported":              {[]client.Object{deleted, official("", ours)}, 0},
		"uninstalled":                                  {[]client.Object{upToDate}, 1},
		"the status of cluster-capi-operator":          {[]client.Object{official("4.22.0-1", nil)}, 0},
		"nothing installed yet beside its status":      {[]client.Object{empty, official("4.22.0-1", nil)}, 0},
		"nothing installed yet, after an installation": {[]client.Object{empty, upToDate}, 0},
	} {
		if got := reconcileOnce(t, test.objects...); got != test.want {
			t.Errorf("%s: %d writes, want %d", name, got, test.want)
		}
	}
}
