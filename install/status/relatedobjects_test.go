// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/install/revision"
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
	for _, reference := range RelatedObjects(phases, []string{"clusters.cluster.x-k8s.io"}) {
		got = append(got, strings.TrimRight(reference.Resource+"."+reference.Group+"/"+reference.Name, "/"))
	}
	want := []string{
		"namespaces./openshift-cluster-api-operator", "namespaces./openshift-cluster-api",
		"clusterapis.capi-operator.openshift.io/cluster",
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
