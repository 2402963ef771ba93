// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/internal/object"
)

// storedCRD returns a CRD that may be adopted. A version has the suffix "!" if it is the storage version, and "-" if it is not served.
func storedCRD(stored []string, versions ...string) *unstructured.Unstructured {
	var all []any
	for _, version := range versions {
		name := strings.TrimRight(version, "!-")
		all = append(all, map[string]any{"name": name, "served": !strings.HasSuffix(version, "-"), "storage": strings.HasSuffix(version, "!")})
	}
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "machines.x.io", "annotations": map[string]any{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways}},
		"spec":     map[string]any{"group": "x.io", "names": map[string]any{"kind": "Machine", "plural": "machines"}, "versions": all},
	}}
	if stored != nil {
		out.Object["status"] = map[string]any{
			"storedVersions": anyOf(stored), "conditions": []any{map[string]any{"type": "Established", "status": "True"}},
		}
	}
	return out
}

func anyOf(texts []string) (out []any) {
	for _, text := range texts {
		out = append(out, text)
	}
	return out
}

// storage is a cluster with a CRD and its instances. It records the writes.
type storage struct {
	client.WithWatch
	instances []string
	owned     string // the version in which the instances have owners
	writes    []string
}

func newStorage(t *testing.T, live *unstructured.Unstructured, instances ...string) *storage {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(apiextensionsv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &storage{instances: instances}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(live)
	c.WithWatch = builder.WithObjects(live).WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			return c.list(into.(*metav1.PartialObjectMetadataList), options)
		},
		Patch: func(ctx context.Context, next client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Machine" {
				c.writes = append(c.writes, "instance "+o.GetName()+" in "+o.GetObjectKind().GroupVersionKind().Version)
				return nil
			}
			c.writes = append(c.writes, "versions")
			return next.Patch(ctx, o, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, next client.Client, name string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			c.writes = append(c.writes, name)
			return next.SubResource(name).Patch(ctx, o, patch, options...)
		},
	}).Build()
	return c
}

// list returns instances in pages of two.
func (c *storage) list(into *metav1.PartialObjectMetadataList, options []client.ListOption) error {
	if into.GroupVersionKind().Kind != "MachineList" {
		return fmt.Errorf("a list of %s", into.GroupVersionKind())
	}
	how := client.ListOptions{}
	how.ApplyOptions(options)
	from := 0
	if how.Continue != "" {
		from = len(how.Continue)
	}
	page := c.instances[from:min(from+2, len(c.instances))]
	for _, name := range page {
		into.Items = append(into.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "user", APIVersion: "x.io/" + c.owned}}}})
	}
	if from+2 < len(c.instances) {
		into.Continue = strings.Repeat("x", from+2)
	}
	return nil
}

// now returns the versions and the stored versions of the CRD.
func (c *storage) now(t *testing.T) string {
	t.Helper()
	found := storedCRD(nil)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
		t.Fatal(err)
	}
	storage := 0
	for _, version := range object.MapsAt(found.Object, "spec", "versions") {
		if version["storage"] == true {
			storage++
		}
	}
	if storage != 1 {
		t.Errorf("%d storage versions", storage)
	}
	stored, _, _ := unstructured.NestedStringSlice(found.Object, "status", "storedVersions")
	return fmt.Sprint(object.StorageVersion(found), " of ", object.CRDVersions(found), ", stored ", stored)
}

// Instances are written before a version leaves the list of stored versions. The CRD of another owner, and one that loses no stored version, stay.
func TestDrop_StoredVersions(t *testing.T) {
	foreign := storedCRD([]string{"v1", "v2"}, "v1", "v2!")
	foreign.SetAnnotations(nil)
	for name, test := range map[string]struct {
		cached, live, manifest *unstructured.Unstructured
		ended                  bool   // the pods of the older release
		owned                  string // the version in which the instances have owners
		instances, writes      []string
		now                    string
	}{
		"the old pods have written in a version that is not stored": {
			live: storedCRD([]string{"v1"}, "v1!", "v2"), manifest: storedCRD(nil, "v1!"), ended: true, owned: "v2", instances: []string{"a"},
			writes: []string{"instance a in v1"}, now: "v1 of [v1 v2], stored [v1]",
		},
		"the old pods have written nothing": {
			live: storedCRD([]string{"v1"}, "v1!", "v2"), manifest: storedCRD(nil, "v1!"), ended: true, owned: "v1", instances: []string{"a"}, now: "v1 of [v1 v2], stored [v1]",
		},
		"a stored version is dropped": {
			live: storedCRD([]string{"v1", "v2"}, "v1", "v2!"), manifest: storedCRD(nil, "v2!"), instances: []string{"a", "b", "c"},
			writes: []string{"instance a in v2", "instance b in v2", "instance c in v2", "status"}, now: "v2 of [v1 v2], stored [v2]",
		},
		"without instances": {
			live: storedCRD([]string{"v1", "v2"}, "v1", "v2!"), manifest: storedCRD(nil, "v2!"), writes: []string{"status"}, now: "v2 of [v1 v2], stored [v2]",
		},
		"no stored version is dropped": {
			live: storedCRD([]string{"v2"}, "v1", "v2!"), manifest: storedCRD(nil, "v2!"), instances: []string{"a"}, now: "v2 of [v1 v2], stored [v2]",
		},
		"of another owner": {
			live: foreign, manifest: storedCRD(nil, "v2!"), instances: []string{"a"}, now: "v2 of [v1 v2], stored [v1 v2]",
		},
		"the cache is old": {
			cached: storedCRD([]string{"v1", "v2"}, "v1", "v2!"), live: storedCRD([]string{"v2"}, "v1", "v2!"), manifest: storedCRD(nil, "v2!"), instances: []string{"a"},
			now: "v2 of [v1 v2], stored [v2]",
		},
		"the storage version is dropped, and the next one is served": {
			live: storedCRD([]string{"v2"}, "v1", "v2!"), manifest: storedCRD(nil, "v1!"), instances: []string{"a"},
			writes: []string{"versions", "instance a in v1", "status"}, now: "v1 of [v1 v2], stored [v1]",
		},
		"the storage version is dropped, and the next one is new, without instances": {
			live: storedCRD([]string{"v1"}, "v1!"), manifest: storedCRD(nil, "v2!"), writes: []string{"versions", "status"}, now: "v2 of [v2 v1], stored [v2]",
		},
		"the storage version is dropped, and the next one is new, with instances": {
			live: storedCRD([]string{"v1"}, "v1!"), manifest: storedCRD(nil, "v2!"), instances: []string{"a"}, now: "v1 of [v1], stored [v1]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStorage(t, test.live, test.instances...)
			c.owned = test.owned
			cache := client.Reader(c)
			if test.cached != nil {
				cache = newStorage(t, test.cached)
			}
			g := &Guards{Cache: cache, Live: c, Writer: c, Status: c, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: c, Writer: c}, Delay: 1}
			if err := g.Drop(t.Context(), test.ended, test.manifest); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.writes, c.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if got := c.now(t); got != test.now {
				t.Errorf("the CRD has %s, want %s", got, test.now)
			}
		})
	}
}

// A version stays in the list if an instance could not be written.
func TestDrop_KeepsTheVersionAfterAnError(t *testing.T) {
	c := newStorage(t, storedCRD([]string{"v1", "v2"}, "v1", "v2!"), "a", "b")
	down := errors.New("down")
	writer := interceptor.NewClient(c, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
		return map[string]error{"b": down}[o.GetName()]
	}})
	g := &Guards{Cache: c, Live: c, Writer: writer, Status: c, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: c, Writer: c}, Delay: 1}
	err := g.Drop(t.Context(), false, storedCRD(nil, "v2!"))
	if !errors.Is(err, down) || !strings.Contains(err.Error(), "Machine b") || slices.Contains(c.writes, "status") {
		t.Errorf("error %v, writes %v", err, c.writes)
	}
}

func TestMoveOwners_OfDroppedVersions(t *testing.T) {
	t.Parallel()
	entry := func(manager, version, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	before := []metav1.ManagedFieldsEntry{
		entry("a", "example.com/v1alpha1", `{"f:spec":{"f:x":{}}}`),
		entry("a", "example.com/v1", `{"f:spec":{"f:y":{}}}`),
		entry("b", "example.com/v1alpha1", `{"f:spec":{"f:z":{}}}`),
		entry("c", "other.com/v1alpha1", `{}`),
	}
	want := []metav1.ManagedFieldsEntry{
		entry("a", "example.com/v1", `{"f:spec":{"f:x":{},"f:y":{}}}`),
		entry("b", "example.com/v1", `{"f:spec":{"f:z":{}}}`),
		entry("c", "other.com/v1alpha1", `{}`),
	}
	moved, changed := moveOwners(before, "example.com", []string{"v1alpha1"}, "v1")
	if diff := cmp.Diff(want, moved, cmp.Transformer("fields", func(f metav1.FieldsV1) string { return f.GetRawString() })); diff != "" || !changed {
		t.Errorf("changed: %t, (-want +got):\n%s", changed, diff)
	}
	if _, changed := moveOwners(before, "example.com", []string{"v1beta1"}, "v1"); changed {
		t.Error("changed without an owner in the dropped version")
	}
}

// A list whose token has expired begins again: an instance that was not seen must not keep the dropped version.
func TestDrop_ExpiredListBeginsAgain(t *testing.T) {
	c := newStorage(t, storedCRD([]string{"v1", "v2"}, "v1", "v2!"), "a", "b", "c")
	expired := false
	live := interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if how := (&client.ListOptions{}).ApplyOptions(options); how.Continue != "" && !expired {
			expired = true
			return apierrors.NewResourceExpired("the token is too old")
		}
		return next.List(ctx, list, options...)
	}})
	g := &Guards{Cache: c, Live: live, Writer: c, Status: c, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: c, Writer: c}, Delay: 1}
	if err := g.Drop(t.Context(), false, storedCRD(nil, "v2!")); err != nil {
		t.Fatal(err)
	}
	want := []string{"instance a in v2", "instance b in v2", "instance a in v2", "instance b in v2", "instance c in v2", "status"}
	if diff := cmp.Diff(want, c.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// An instance that another client has changed is read again from its own namespace. One that was deleted is done.
func TestDrop_ReadsAgainAfterAConflict(t *testing.T) {
	for name, test := range map[string]struct {
		deleted bool
		want    []string
	}{
		"changed": {false, []string{"b/x", "b/x"}},
		"deleted": {true, []string{"b/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStorage(t, storedCRD([]string{"v1", "v2"}, "v1", "v2!"))
			live := interceptor.NewClient(c, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
				how := (&client.ListOptions{}).ApplyOptions(options)
				items := []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "x"}}}
				switch {
				case how.FieldSelector != nil && test.deleted:
					items = nil
				case how.FieldSelector != nil && how.Namespace == "":
					items = append([]metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}}, items...)
				}
				into.(*metav1.PartialObjectMetadataList).Items = items
				return nil
			}})
			var writes []string
			writer := interceptor.NewClient(c, interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
				if o.GetName() != "x" {
					return nil // the role that permits the requests
				}
				writes = append(writes, client.ObjectKeyFromObject(o).String())
				if len(writes) == 1 {
					return apierrors.NewConflict(schema.GroupResource{Group: "x.io", Resource: "machines"}, "x", errors.New("changed"))
				}
				return nil
			}})
			g := &Guards{Cache: c, Live: live, Writer: writer, Status: c, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: c, Writer: c}, Delay: 1}
			if err := g.Drop(t.Context(), false, storedCRD(nil, "v2!")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
