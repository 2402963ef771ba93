// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"errors"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// A reporter whose outcome changes nothing in the ClusterAPI object that it has read must not write the ClusterOperator from it: another
// process may have written both since.
func TestReport_OlderReadOfTheClusterAPI(t *testing.T) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, configv1.Install, v1alpha1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster, operator := &v1alpha1.ClusterAPI{ObjectMeta: named(v1alpha1.ClusterAPIName)}, &configv1.ClusterOperator{ObjectMeta: named(v1alpha1.ClusterOperatorName)}
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, operator).WithStatusSubresource(cluster, operator).Build()
	first, second := &status.Reporter{Client: server, Live: server}, &status.Reporter{Client: server, Live: server}
	report := func(by *status.Reporter, read *v1alpha1.ClusterAPI, controller status.Controller, outcome status.Outcome) {
		t.Helper()
		if _, err := by.Report(t.Context(), read, controller, outcome, nil); err != nil {
			t.Fatal(err)
		}
	}
	installed := status.Outcome{Reason: reason.AsExpected, Installed: new(true)}
	report(first, nil, status.Installer, installed)
	read := &v1alpha1.ClusterAPI{}
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(cluster), read); err != nil {
		t.Fatal(err)
	}
	report(second, nil, status.Version, status.Outcome{Reason: reason.ImagesInvalid, Err: errors.New("no image")})
	report(first, read, status.Installer, installed)
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(operator), operator); err != nil {
		t.Fatal(err)
	}
	for _, condition := range operator.Status.Conditions {
		if condition.Type == configv1.OperatorDegraded && condition.Status == configv1.ConditionTrue {
			return
		}
	}
	t.Errorf("the ClusterOperator has the conditions of the older read: %+v", operator.Status.Conditions)
}
