// SPDX-License-Identifier: Apache-2.0

package permission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A missing rule is described as the API server describes a forbidden request, and asked for permission by permission.
func TestRule_StringAndRequests(t *testing.T) {
	rule := Rule{Namespace: "demo", Why: "it is needed", PolicyRule: rbacv1.PolicyRule{
		Verbs: []string{"get", "update"}, APIGroups: []string{"batch"}, Resources: []string{"jobs/status"}, ResourceNames: []string{"one"},
	}}
	if got, want := rule.String(), `cannot get, update resource "jobs/status" in API group "batch" named "one" in namespace "demo" (it is needed)`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	request := func(verb string) authorizationv1.SelfSubjectAccessReviewSpec {
		return authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "demo", Verb: verb, Group: "batch", Resource: "jobs", Subresource: "status", Name: "one",
		}}
	}
	if diff := cmp.Diff([]authorizationv1.SelfSubjectAccessReviewSpec{request("get"), request("update")}, rule.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	urls := Rule{PolicyRule: rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}
	want := []authorizationv1.SelfSubjectAccessReviewSpec{{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}}}
	if diff := cmp.Diff(want, urls.Requests()); diff != "" {
		t.Errorf("requests for a URL (-want +got):\n%s", diff)
	}
}

// The API server knows the resources of the kinds that it serves; their names need not follow the convention.
func TestMinimalRules_ResourceOfServedKinds(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Proxy", "metadata": map[string]any{"name": "one"}}}
	served := func(kind schema.GroupVersionKind) (string, bool) {
		return "proxyconfigs", kind.Kind == "Proxy" && kind.Version == "v1"
	}
	for _, rule := range MinimalRules([]*unstructured.Unstructured{object}, Options{Resource: served}) {
		if diff := cmp.Diff([]string{"proxyconfigs"}, rule.Resources); diff != "" {
			t.Errorf("resources (-want +got):\n%s", diff)
		}
	}
}
