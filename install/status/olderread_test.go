// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// The ClusterOperator is not written from an outdated ClusterAPI object of the cache: another process may have written both since, or the
// ClusterAPI object is deleted and the installer has reported the end of the uninstallation.
func TestOperatorReconciler_OutdatedCache(t *testing.T) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, configv1.Install, v1alpha1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reporting := func(message string) *v1alpha1.ClusterAPI {
		cluster := &v1alpha1.ClusterAPI{ObjectMeta: named(v1alpha1.ClusterAPIName)}
		cluster.Status.Conditions = []metav1.Condition{{Type: "Available", Status: metav1.ConditionTrue, Message: message}}
		cluster.Status.InstalledRelease = message
		return cluster
	}
	operator := &configv1.ClusterOperator{ObjectMeta: named(v1alpha1.ClusterOperatorName)}
	with := func(objects ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(operator).Build()
	}
	newer := reporting("now")
	newer.ResourceVersion = "1000"
	for name, test := range map[string]struct {
		live client.Reader
		want string
	}{"the same": {with(reporting("old")), "old"}, "a newer object": {with(newer), ""}, "a deleted object": {with(), ""}} {
		cache := with(operator.DeepCopy(), reporting("old"))
		if _, err := (&status.OperatorReconciler{Client: cache, Live: test.live}).Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		written, got := &configv1.ClusterOperator{}, ""
		if err := cache.Get(t.Context(), client.ObjectKeyFromObject(operator), written); err != nil {
			t.Fatal(err)
		}
		for _, version := range written.Status.Versions {
			got = version.Name + version.Version
		}
		if got != "" && got != "operator"+test.want || (got == "") != (test.want == "") {
			t.Errorf("%s: the ClusterOperator has version %q, want %q", name, got, test.want)
		}
	}
}
