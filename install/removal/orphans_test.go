// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/internal/object"
)

// writes are the requests of a writer.
type writes struct {
	client.Writer
	made []string
}

func (w *writes) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	made := client.DeleteOptions{}
	made.ApplyOptions(options)
	w.made = append(w.made, fmt.Sprintf("delete %s with UID %s and version %s", o.GetName(), *orEmpty(made.Preconditions.UID), *orEmpty(made.Preconditions.ResourceVersion)))
	return nil
}

func (w *writes) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(o)
	w.made = append(w.made, fmt.Sprintf("patch %s with %s", o.GetName(), data))
	return err
}

func orEmpty[T any](value *T) *T {
	if value == nil {
		return new(T)
	}
	return value
}

// An orphan is deleted only as it was found. One whose deletion would delete other objects loses its owner.
func TestOrphans_Remove(t *testing.T) {
	orphan := func(kind schema.GroupVersionKind, name string) Orphan {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(kind)
		o.Name, o.UID, o.ResourceVersion = name, types.UID("uid-"+name), "7"
		o.Labels = map[string]string{engine.ManagedByLabel: v1alpha1.Prefix}
		if err := owners.Set("4.21.0-7", o); err != nil {
			t.Fatal(err)
		}
		return Orphan{o, "4.21.0-7"}
	}
	deleted := orphan(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "deleted")
	deleted.Object.DeletionTimestamp = new(metav1.Now())
	orphans := []Orphan{
		orphan(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "settings"), deleted,
		orphan(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster"}, "cluster"),
		orphan(schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "AWSMachine"}, "machine"),
		orphan(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "namespace"),
		orphan(object.CRDVersion, "crd"),
	}
	server := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	made := &writes{}
	written, err := Orphans{Live: server, Writer: made, Owners: owners}.Remove(t.Context(), orphans)
	if err != nil || len(written) != len(orphans)-1 {
		t.Errorf("%d written, %v", len(written), err)
	}
	const patch = ` with {"metadata":{"annotations":%s,"labels":null,"resourceVersion":"7"}}`
	want := []string{
		"delete settings with UID uid-settings and version 7", "patch cluster" + fmt.Sprintf(patch, "null"), "patch machine" + fmt.Sprintf(patch, "null"),
		"patch namespace" + fmt.Sprintf(patch, "null"),
		"patch crd" + fmt.Sprintf(patch, fmt.Sprintf("{%q:%q,%q:null}", v1alpha1.AdoptAnnotation, v1alpha1.AdoptAlways, v1alpha1.OwnersAnnotation)),
	}
	if diff := cmp.Diff(want, made.made); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A kind is searched where the installer may list and create it: everywhere, or in namespaces of providers.
func TestSearched(t *testing.T) {
	rules := map[string][]rbacv1.PolicyRule{
		"": {
			{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes", "configmaps"}},
			{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps", "events"}},
		},
		"capi-system": {{Verbs: []string{"*"}, APIGroups: []string{"apps"}, Resources: []string{"deployments", "daemonsets", "clusterwide"}}},
		"capa-system": {{Verbs: []string{"*"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}}},
	}
	searching := Orphans{Namespaces: []string{"capi-system", "capa-system"}}
	for name, test := range map[string]struct {
		version    string
		resource   metav1.APIResource
		namespaces []string
	}{
		"everywhere":                     {"v1", metav1.APIResource{Name: "configmaps", Namespaced: true, Verbs: []string{"list", "delete"}}, []string{""}},
		"in the providers' namespaces":   {"apps/v1", metav1.APIResource{Name: "deployments", Namespaced: true, Verbs: []string{"list", "delete"}}, []string{"capi-system", "capa-system"}},
		"in one namespace":               {"apps/v1", metav1.APIResource{Name: "daemonsets", Namespaced: true, Verbs: []string{"list", "delete"}}, []string{"capi-system"}},
		"a cluster-scoped kind":          {"apps/v1", metav1.APIResource{Name: "clusterwide", Verbs: []string{"list", "delete"}}, nil},
		"without a permission to create": {"v1", metav1.APIResource{Name: "nodes", Verbs: []string{"list", "delete"}}, nil},
		"without a permission to list":   {"v1", metav1.APIResource{Name: "events", Namespaced: true, Verbs: []string{"list", "delete"}}, nil},
		"without permission":             {"v1", metav1.APIResource{Name: "secrets", Namespaced: true, Verbs: []string{"list", "delete"}}, nil},
		"not deletable":                  {"v1", metav1.APIResource{Name: "configmaps", Namespaced: true, Verbs: []string{"list"}}, nil},
		"not listable":                   {"v1", metav1.APIResource{Name: "configmaps", Namespaced: true, Verbs: []string{"delete"}}, nil},
	} {
		if got := searching.searched(rules, test.version, test.resource); !slices.Equal(got, test.namespaces) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// An object counts as ours only if the installer has written it, and not only its status.
func TestIsWritten(t *testing.T) {
	for want, entries := range map[bool][]metav1.ManagedFieldsEntry{
		true:  {{Manager: "kubectl"}, {Manager: v1alpha1.FieldOwner}},
		false: {{Manager: "kubectl"}, {Manager: v1alpha1.FieldOwner, Subresource: "status"}},
	} {
		if got := isWritten(&metav1.ObjectMeta{ManagedFields: entries}); got != want {
			t.Errorf("%v: %t, want %t", entries, got, want)
		}
	}
}

// kinds are the kinds that an API server lists.
type kinds struct {
	discovery.ServerResourcesInterface
	lists []*metav1.APIResourceList
	err   error
}

func (k kinds) ServerPreferredResources() ([]*metav1.APIResourceList, error) { return k.lists, k.err }

// An object is an orphan only if the installer has written it for a version that is not known. A part of the API that does not answer hides its
// own kinds only. The first object of the apply order is the last one.
func TestOrphans_Find(t *testing.T) {
	written := func(name, version, manager string) client.Object {
		obj := controlledBy(t, version, settings(name))
		obj.SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{}}})
		return obj
	}
	free := settings("free")
	free.SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
	free.SetLabels(map[string]string{engine.ManagedByLabel: v1alpha1.Prefix})
	cluster := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithReturnManagedFields().WithObjects(
		written("orphan", "4.21.0-7", v1alpha1.FieldOwner), written("other", "4.21.0-7", v1alpha1.FieldOwner), written("known", "4.22.0-1", v1alpha1.FieldOwner), written("copied", "4.21.0-7", "kubectl"), free,
	).Build()
	down := errors.New("the server is currently unable to handle the request")
	verbs := metav1.Verbs{"list", "delete"}
	served := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: verbs}, {Name: "nodes", Kind: "Node", Verbs: metav1.Verbs{"get"}}}},
	}
	everything := func(context.Context, string) ([]rbacv1.PolicyRule, error) {
		return []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}, nil
	}
	for name, test := range map[string]struct {
		discovery kinds
		live      client.Reader
		want      []string
		unlisted  int
		fails     bool
	}{
		"all kinds":               {kinds{lists: served}, cluster, []string{"other", "orphan"}, 0, false},
		"a group is down":         {kinds{lists: served, err: down}, cluster, []string{"other", "orphan"}, 0, false},
		"all groups are down":     {kinds{err: down}, cluster, nil, 0, true},
		"a list fails":            {kinds{lists: served}, answer{down}, nil, 1, false},
		"a kind that was deleted": {kinds{lists: served}, answer{apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "")}, nil, 0, false},
	} {
		found, unlisted, err := Orphans{Discovery: test.discovery, Rules: everything, Live: test.live, Owners: owners}.Find(t.Context(), sets.New("4.22.0-1"))
		var names []string
		for _, orphan := range found {
			names = append(names, orphan.Object.Name)
		}
		if diff := cmp.Diff(test.want, names); diff != "" || len(unlisted) != test.unlisted || (err != nil) != test.fails {
			t.Errorf("%s: %d kinds are not listed, error %v (-want +got):\n%s", name, len(unlisted), err, diff)
		}
	}
}
