// SPDX-License-Identifier: Apache-2.0

package status

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// phased returns an object of a phase.
func phased(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec}}
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

func TestRelatedObjects_CoverTheWholeVersion(t *testing.T) {
	machines := map[string]any{"group": "cluster.x-k8s.io", "names": map[string]any{"plural": "machines"}}
	phases := []revision.Phase{
		{Name: "preflight", Objects: []*unstructured.Unstructured{
			phased("apiextensions.openshift.io/v1alpha1", "CompatibilityRequirement", "", "clusters.cluster.x-k8s.io-1", nil),
		}},
		{Name: "cluster-api-crds", Objects: []*unstructured.Unstructured{
			phased("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "machines.cluster.x-k8s.io", machines),
		}},
		{Name: "cluster-api", Objects: []*unstructured.Unstructured{
			phased("apps/v1", "Deployment", "openshift-cluster-api", "capi", nil),
			phased("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "capi", nil),
			phased("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", "capi", nil),
		}},
	}
	var got []string
	for _, reference := range RelatedObjects(v1alpha1.OpenShiftNamespaces, phases, []string{"clusters.cluster.x-k8s.io"}) {
		got = append(got, strings.TrimRight(reference.Resource+"."+reference.Group+"/"+reference.Name, "/"))
	}
	want := []string{
		"namespaces./openshift-cluster-api-operator", "namespaces./openshift-cluster-api", "namespaces./openshift-compatibility-requirements-operator",
		"clusterapis.capi-operator.openshift.io/cluster", "clusterapis.operator.openshift.io/cluster", "compatibilityrequirements.apiextensions.openshift.io",
		"validatingadmissionpolicies.admissionregistration.k8s.io/capi",
		"customresourcedefinitions.apiextensions.k8s.io/clusters.cluster.x-k8s.io",
		"customresourcedefinitions.apiextensions.k8s.io/machines.cluster.x-k8s.io",
		"compatibilityrequirements.apiextensions.openshift.io/clusters.cluster.x-k8s.io-1",
		"clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io",
		"clusterrolebindings.rbac.authorization.k8s.io/capi",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("related objects (-want +got):\n%s", diff)
	}
}

// Until the installer reports, the ClusterOperator of the release names the same objects.
func TestRelatedObjects_InTheRelease(t *testing.T) {
	content, err := os.ReadFile("../../manifests/0000_30_cluster-api_02_clusterapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := yamldoc.Objects(content)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		operator := &configv1.ClusterOperator{}
		if object.GetKind() != "ClusterOperator" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, operator); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(RelatedObjects(v1alpha1.OpenShiftNamespaces, nil, nil), operator.Status.RelatedObjects); diff != "" {
			t.Errorf("(-installer +release):\n%s", diff)
		}
		return
	}
	t.Error("ClusterOperator not found")
}
