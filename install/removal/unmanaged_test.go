// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"testing"

	apiextensionsv1alpha1 "github.com/openshift/api/apiextensions/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
)

// customResourceOf returns a CRD that a version controls.
func customResourceOf(t *testing.T, version, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	source := controlledBy(t, version, settings(name))
	crd := customResource(name, source.GetAnnotations())
	crd.Annotations[v1alpha1.RevisionAnnotation], crd.Annotations["theirs"] = "1", "yes"
	crd.Labels = map[string]string{engine.ManagedByLabel: v1alpha1.Prefix, "theirs": "yes"}
	return crd
}

// changedBeforePatches returns a cluster where another actor changes each object right before it is patched.
func changedBeforePatches(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			changed := &unstructured.Unstructured{}
			changed.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), changed); err != nil {
				return err
			}
			changed.SetFinalizers([]string{"x.io/theirs"})
			if err := c.Update(ctx, changed); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, options...)
		},
	}).Build()
}

// The metadata is removed from the CRD as it was read. A change of another actor in between, such as an adoption, is a
// conflict.
func TestReleaseCRD_ChangedSinceRead(t *testing.T) {
	cluster := changedBeforePatches(t, customResourceOf(t, "4.22.0-1", machinesCRD))
	remover := &Remover{Engine: &engine.Engine{Owners: owners, Reader: cluster}, Live: cluster, Writer: cluster}
	if err := remover.ReleaseCRDs(t.Context(), []string{machinesCRD}, nil); !apierrors.IsConflict(err) {
		t.Errorf("releasing a CRD that has changed: %v, want a conflict", err)
	}
	if err := remover.crds().unmark(t.Context(), machinesCRD, "4.22.0-1"); !apierrors.IsConflict(err) {
		t.Errorf("removing the owner from a CRD that has changed: %v, want a conflict", err)
	}
}

// A CRD is released if the API server has it with the label of the installer, and it is covered.
func TestReleaseCRDs_OfTheInstaller(t *testing.T) {
	of := func(name, label string) *apiextensionsv1.CustomResourceDefinition {
		crd := customResourceOf(t, "4.22.0-1", name)
		crd.Labels[engine.ManagedByLabel] = label
		return crd
	}
	live := []client.Object{
		of("ours.x.io", v1alpha1.Prefix), of("uncached.x.io", v1alpha1.Prefix), of("released.x.io", "Helm"), customResourceOf(t, "4.22.0-2", "adopted.x.io"),
	}
	for name, test := range map[string]struct {
		cached   []string
		all      bool
		released []string
	}{
		"those of a version": {[]string{"ours.x.io", "released.x.io", "adopted.x.io", "deleted.x.io"}, false, []string{"ours.x.io"}},
		"all":                {[]string{"ours.x.io", "released.x.io", "adopted.x.io", "deleted.x.io"}, true, []string{"ours.x.io", "adopted.x.io"}},
		"an empty cache":     {nil, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cache := fake.NewClientBuilder().WithScheme(crdScheme(t))
			for _, cached := range test.cached { // an outdated cache: all belong to the version
				cache.WithObjects(of(cached, v1alpha1.Prefix))
			}
			builder := fake.NewClientBuilder().WithScheme(crdScheme(t))
			for _, object := range live {
				builder.WithObjects(object.DeepCopyObject().(client.Object))
			}
			cluster := builder.Build()
			remover := &Remover{Engine: &engine.Engine{Owners: owners, Reader: cache.Build()}, Live: cluster, Writer: cluster}
			ours := func(crd *unstructured.Unstructured) bool { return owners.Controls("4.22.0-1", crd) }
			if test.all {
				ours = nil
			}
			names := []string{"deleted.x.io", "uncached.x.io", "released.x.io", "adopted.x.io", "ours.x.io"}
			if err := remover.ReleaseCRDs(t.Context(), names, ours); err != nil {
				t.Fatal(err)
			}
			checkReleased(t, cluster, live, test.released)
		})
	}
}

// checkReleased checks that the named CRDs have only the metadata of other actors, and that the others are unchanged.
func checkReleased(t *testing.T, cluster client.Reader, before []client.Object, released []string) {
	t.Helper()
	want := map[string]bool{}
	for _, name := range released {
		want[name] = true
	}
	for _, object := range before {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(object), crd); err != nil {
			t.Fatal(err)
		}
		labels, annotations := len(object.GetLabels()), len(object.GetAnnotations())
		if want[crd.Name] {
			labels, annotations = 1, 1
		}
		if len(crd.Labels) != labels || len(crd.Annotations) != annotations || crd.Labels["theirs"] != "yes" || crd.Annotations["theirs"] != "yes" {
			t.Errorf("%s has labels %v and annotations %v, released: %t", crd.Name, crd.Labels, crd.Annotations, want[crd.Name])
		}
	}
}

// An error of one CRD does not keep the installer from releasing the others.
func TestReleaseCRDs_AfterAnError(t *testing.T) {
	live := []client.Object{customResourceOf(t, "4.22.0-1", "a.x.io"), customResourceOf(t, "4.22.0-1", "b.x.io")}
	cluster := fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(live[0].DeepCopyObject().(client.Object), live[1].DeepCopyObject().(client.Object)).Build()
	failing := interceptor.NewClient(cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if key.Name == "a.x.io" {
				return apierrors.NewServiceUnavailable("down")
			}
			return c.Get(ctx, key, o, options...)
		},
	})
	for name, remover := range map[string]*Remover{
		"a failed read of the cache":      {Engine: &engine.Engine{Reader: failing, Owners: owners}, Live: cluster, Writer: cluster},
		"a failed read of the API server": {Engine: &engine.Engine{Reader: cluster, Owners: owners}, Live: failing, Writer: cluster},
	} {
		if err := remover.ReleaseCRDs(t.Context(), []string{"a.x.io", "b.x.io"}, nil); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: got %v, want its error", name, err)
		}
		checkReleased(t, cluster, live, []string{"b.x.io"})
	}
}

// The metadata of an unmanaged CRD includes the field ownership of the installer, except for its status.
func TestReleaseCRD_FieldOwnership(t *testing.T) {
	var fields []metav1.ManagedFieldsEntry
	writer := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			fields = o.GetManagedFields()
			return nil
		},
	}).Build()
	crd := machines()
	crd.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldOwner}, {Manager: v1alpha1.FieldOwner, Subresource: "status"}, {Manager: "theirs"}})
	if err := (crds{writer: writer}).release(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	if len(fields) != 2 || fields[0].Subresource != "status" || fields[1].Manager != "theirs" {
		t.Errorf("managed fields are %v", fields)
	}
}

// The requirements of a version are deleted; the next version has others for the same CRDs. One that is already deleted is not an error. The API of
// the checker is optional.
func TestRemoveRequirements(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("down")
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "x")
	for name, test := range map[string]struct {
		list, deletion error
		failed         bool
		deletions      int
	}{
		"none":                       {nil, nil, false, 2},
		"the list fails":             {unavailable, nil, true, 0},
		"the API is not found":       {notFound, nil, false, 0},
		"the API is not served":      {&meta.NoKindMatchError{}, nil, false, 0},
		"the requirements are gone":  {nil, notFound, false, 2},
		"the deletions are rejected": {nil, unavailable, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			deletions := 0
			builder := fake.NewClientBuilder().WithScheme(crdScheme(t))
			for name, version := range map[string]string{"a": "4.22.0-1", "b": "4.22.0-1", "of-the-next-version": "4.22.0-2", "unlabelled": "4.22.0-1"} {
				source := controlledBy(t, version, settings(name))
				if name == "unlabelled" {
					source.SetLabels(nil)
				}
				builder.WithObjects(&apiextensionsv1alpha1.CompatibilityRequirement{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: source.GetLabels(), Annotations: source.GetAnnotations()}})
			}
			cluster := builder.WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if test.list != nil {
						return test.list
					}
					return c.List(ctx, list, options...)
				},
				Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
					if deletions++; len(o.GetName()) > 1 {
						t.Errorf("%s is deleted", o.GetName())
					}
					return test.deletion
				},
			}).Build()
			remover := &Remover{Engine: &engine.Engine{Owners: owners}, Live: cluster, Writer: cluster}
			err := remover.RemoveRequirements(t.Context(), "4.22.0-1")
			if (err != nil) != test.failed || deletions != test.deletions {
				t.Errorf("got %v and %d deletions, want an error: %t and %d deletions", err, deletions, test.failed, test.deletions)
			}
		})
	}
}

// The objects of an older version are not deleted before its unmanaged CRDs are released.
func TestRemove_UnmanagedCRDNotReleased(t *testing.T) {
	object := controlledBy(t, "4.22.0-1", settings("a"))
	cluster := fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(object).Build()
	remover := removerOf(t, cluster)
	remover.Engine.Reader = answer{apierrors.NewServiceUnavailable("down")}
	if _, err := remover.Remove(t.Context(), revisionOf(settings("a")), []string{machinesCRD}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v, want the error of the read", err)
	}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Errorf("the object of the version: %v", err)
	}
}

// aggregatedRole returns a ClusterRole that aggregates others, or not.
func aggregatedRole(name string, aggregated bool) *unstructured.Unstructured {
	role := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}}}
	if aggregated {
		role.Object["aggregationRule"] = map[string]any{}
	}
	return role
}

func TestDeleteRecreatedRoles(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "recreated"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "used", Labels: map[string]string{"mine": "yes"}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "not-aggregated"}},
	).Build()
	rev := revisionOf(aggregatedRole("recreated", true), aggregatedRole("used", true), aggregatedRole("gone", true), aggregatedRole("not-aggregated", false))
	if err := (&Remover{Live: cluster, Writer: cluster}).DeleteRecreatedRoles(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"recreated": false, "used": true, "not-aggregated": true} {
		err := cluster.Get(t.Context(), client.ObjectKey{Name: name}, &rbacv1.ClusterRole{})
		if got := !apierrors.IsNotFound(err); got != want {
			t.Errorf("ClusterRole %s exists: %t, want %t", name, got, want)
		}
	}
	unavailable := answer{apierrors.NewServiceUnavailable("down")}
	if err := (&Remover{Live: unavailable, Writer: cluster}).DeleteRecreatedRoles(t.Context(), rev); err == nil {
		t.Error("a failed read is not an error")
	}
}
