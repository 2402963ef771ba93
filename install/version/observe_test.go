// SPDX-License-Identifier: Apache-2.0

package version

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
)

// TestObserve_AlsoObjectsThatDoNotExist: they can be created, and then status must not be at rest.
func TestObserve_AlsoObjectsThatDoNotExist(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := configv1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	namespace := v1alpha1.OpenShiftNamespaces.Operator
	own := func(name, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: version}
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Secret{ObjectMeta: own("exists", "7")}, &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: configName, ResourceVersion: "8"}},
	).Build()
	variable := func(secret string) v1alpha1.Variable {
		return v1alpha1.Variable{Name: "V", ValueFrom: &v1alpha1.VariableSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: secret, Key: "k"}}}
	}
	state := &v1alpha1.ClusterAPI{}
	state.Spec.Components = []v1alpha1.ComponentSettings{
		{Name: "a", Variables: []v1alpha1.Variable{variable("exists"), variable("missing")}},
		{Name: "b", Variables: []v1alpha1.Variable{variable("exists")}},
	}
	references := []v1alpha1.ObservedInput{
		{Kind: "Secret", Namespace: namespace, Name: "exists", ResourceVersion: "7"}, {Kind: "Secret", Namespace: namespace, Name: "missing"},
	}
	config := []v1alpha1.ObservedInput{
		{Group: configv1.GroupName, Kind: "APIServer", Name: configName}, {Group: configv1.GroupName, Kind: "FeatureGate", Name: configName},
		{Group: configv1.GroupName, Kind: "Infrastructure", Name: configName, ResourceVersion: "8"}, {Group: configv1.GroupName, Kind: "Proxy", Name: configName},
	}
	for _, test := range []struct {
		platforms operand.Platforms
		want      []v1alpha1.ObservedInput
	}{{nil, append(references[:2:2], config...)}, {operand.Platforms{"Docker"}, references}} {
		r := &Reconciler{Client: client.Client(reader), Namespaces: v1alpha1.OpenShiftNamespaces, Platforms: test.platforms, Identity: "pod_1"}
		var status v1alpha1.ClusterAPIStatus
		r.record(&status, releaseFiles{}, r.readCluster(t.Context(), state.Spec))
		if diff := cmp.Diff(test.want, status.ObservedInputs); diff != "" || status.ObservedBy != "pod_1" || status.ObservedRelease != nil {
			t.Errorf("platforms %v, by %s, release %v (-want +got):\n%s", test.platforms, status.ObservedBy, status.ObservedRelease, diff)
		}
	}
}
