// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apiextensionsv1alpha1 "github.com/openshift/api/apiextensions/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// crdScheme has the kinds of CRDs and CompatibilityRequirements.
func crdScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	out := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, rbacv1.AddToScheme, apiextensionsv1.AddToScheme, apiextensionsv1alpha1.Install)
	if err := builder.AddToScheme(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// customResource returns a CRD with the annotations of an object.
func customResource(name string, annotations map[string]string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

// A CRD that cannot be read is not deleted.
func TestPass_UnreadableCRDs(t *testing.T) {
	crd := controlledBy(t, "4.22.0-1", machines())
	cluster := fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(crd).Build()
	remover := removerOf(t, cluster)
	remover.Live = answer{apierrors.NewServiceUnavailable("down")}
	if _, err := remover.pass(t.Context(), revisionOf(machines())); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v, want the error of the read", err)
	}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
		t.Errorf("the CRD: %v", err)
	}
}

// The cache decides only that a CRD belongs to a newer version.
func TestRetention_OfAnAdoptedCRD(t *testing.T) {
	for owner, reads := range map[string]bool{"4.22.0-3": false, "4.22.0-2": true, "4.22.0-1": true} {
		remover := removerOf(t, fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(controlledBy(t, owner, machines())).Build())
		remover.Live = answer{apierrors.NewServiceUnavailable("down")}
		if got, err := remover.retention(t.Context(), "4.22.0-2", machinesCRD); got != (retainedCRD{}) || (err != nil) != reads {
			t.Errorf("owner %s: %+v, %v; want a read from the API server: %t", owner, got, err, reads)
		}
	}
}

// Adoptable CRDs are those that removed versions have left behind.
func TestRetained_InOrder(t *testing.T) {
	adoptable := map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways}
	terminating := customResource("d.x.io", adoptable)
	terminating.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
	terminating.SetDeletionTimestamp(new(metav1.Now()))
	cluster := fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(
		customResource("c.x.io", adoptable), customResource("b.x.io", adoptable), customResource("a.x.io", nil), terminating,
	).Build()
	names, err := Retained(t.Context(), cluster)
	if err != nil || !slices.Equal(names, []string{"b.x.io", "c.x.io"}) {
		t.Errorf("retained are %v: %v", names, err)
	}
}

// A CRD with instances that another client has deleted does not count as retained, and cannot be adopted.
func TestRetention_OfADeletedCRD(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		crd := controlledBy(t, "4.22.0-1", establishedCRD())
		crd.SetFinalizers([]string{"customresourcecleanup.apiextensions.k8s.io"})
		if deleted {
			crd.SetDeletionTimestamp(new(metav1.Now()))
		}
		cluster := newGuardedCluster(t, crd)
		cluster.instances = func(int) ([]string, error) { return []string{"one"}, nil }
		remover := removerOf(t, cluster)
		got, err := remover.retention(t.Context(), "4.22.0-1", machinesCRD)
		if err != nil || got.deleted != deleted || !strings.Contains(got.reason, "it has instances") {
			t.Errorf("deleted %t: %+v, %v", deleted, got, err)
		}
		now := machines()
		if err := cluster.Get(t.Context(), client.ObjectKey{Name: machinesCRD}, now); err != nil || allowsAdoption(now) == deleted {
			t.Errorf("deleted %t: adoptable %t, %v", deleted, allowsAdoption(now), err)
		}
		progress, err := progressOf(t.Context(), remover.Engine.Reader, engine.Removal{Phases: []engine.RemovedPhase{{Name: "core"}}}, map[string][]retainedCRD{"core": {got}})
		if err != nil || len(progress.Deleted) != map[bool]int{true: 1}[deleted] || len(progress.Retained) != map[bool]int{false: 1}[deleted] {
			t.Errorf("deleted %t: %+v, %v", deleted, progress, err)
		}
	}
}

// A CRD without instances does not stay, nor one that another version controls. If the instances are unknown, nothing is decided.
func TestRetention_WithoutInstances(t *testing.T) {
	down := errors.New("down")
	for name, test := range map[string]struct {
		owner string
		list  error
	}{
		"no instance":     {"4.22.0-1", nil},
		"another version": {"4.22.0-2", down},
		"unknown":         {"4.22.0-1", down},
	} {
		cluster := newGuardedCluster(t, controlledBy(t, "4.22.0-1", establishedCRD()))
		cluster.instances = func(int) ([]string, error) { return nil, test.list }
		remover := removerOf(t, cluster)
		got, err := remover.retention(t.Context(), test.owner, machinesCRD)
		if got != (retainedCRD{}) || (err != nil) != (name == "unknown") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		now := machines()
		if err := cluster.Get(t.Context(), client.ObjectKey{Name: machinesCRD}, now); err != nil || allowsAdoption(now) {
			t.Errorf("%s: adoptable: %t, %v", name, allowsAdoption(now), err)
		}
	}
}

// The progress of a removal tells why an object still exists.
func TestDeletionState(t *testing.T) {
	blocked := settings("blocked")
	blocked.SetFinalizers([]string{"example.com/hold"})
	blocked.SetDeletionTimestamp(new(metav1.Now()))
	remover := removerOf(t, fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(settings("kept"), blocked).Build())
	down := removerOf(t, interceptor.NewClient(fake.NewClientBuilder().WithScheme(crdScheme(t)).Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("down")
		},
	}))
	for name, test := range map[string]struct {
		of    *Remover
		want  string
		fails bool
	}{
		"gone": {remover, "", false}, "kept": {remover, "", false}, "blocked": {remover, "blocked by finalizer example.com/hold", false}, "unknown": {down, "", true},
	} {
		got, err := deletionState(t.Context(), test.of.Engine.Reader, engine.Reference{Identity: object.IdentityOf(settings(name)), APIVersion: "v1"})
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") || (err != nil) != test.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Only a rejection by the policy itself shows that the policy is enforced.
func TestRemover_EnforcesThePolicy(t *testing.T) {
	denied := func(message string) error {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "id", nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: " + message}}
		return err
	}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"accepted":                   {nil, false},
		"rejected by the policy":     {denied("deleting CRDs (id)"), true},
		"rejected by another policy": {denied("no ConfigMaps"), false},
		"rejected by the old policy": {denied("deleting CRDs (old)"), false},
		"forbidden":                  {apierrors.NewForbidden(schema.GroupResource{}, "id", nil), false},
		"no answer":                  {errors.New("timeout"), false},
	} {
		dryRun := false
		writer := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
				dryRun = o.GetName() == "id" && o.GetNamespace() == v1alpha1.OpenShiftNamespaces.Operator && (&client.CreateOptions{}).ApplyOptions(options).DryRun != nil
				return test.err
			},
		}).Build()
		if got := (policy{writer: writer, namespace: v1alpha1.OpenShiftNamespaces.Operator}).enforces(t.Context(), "deleting CRDs (id)", "id"); got != test.want || !dryRun {
			t.Errorf("%s: enforced %t, want %t; dry run %t", name, got, test.want, dryRun)
		}
	}
}

// A retained CRD belongs to no version once its phase is reached. Metadata of other actors stays.
func TestUnmarkRetained_ReachedPhases(t *testing.T) {
	before := []client.Object{customResourceOf(t, "4.22.0-1", "a.x.io"), customResourceOf(t, "4.22.0-2", "adopted.x.io"), customResourceOf(t, "4.22.0-1", "later.x.io")}
	builder := fake.NewClientBuilder().WithScheme(crdScheme(t))
	for _, object := range before {
		builder.WithObjects(object.DeepCopyObject().(client.Object))
	}
	cluster := builder.Build()
	remover, rev := &Remover{Engine: &engine.Engine{Owners: owners}, Live: cluster, Writer: cluster}, engine.Revision{Name: "4.22.0-3"}
	for _, name := range []string{"core-crds", "aws-crds", "aws"} {
		rev.Phases = append(rev.Phases, revision.Phase{Name: name, Part: revision.Part{Owner: "4.22.0-1"}})
	}
	retained := map[string][]retainedCRD{
		"aws-crds":  {{name: "deleted.x.io", reason: "it has instances"}, {name: "adopted.x.io", reason: "it has instances"}, {name: "a.x.io", reason: "it has instances, such as Machine one"}},
		"core-crds": {{name: "later.x.io", reason: "it has instances"}},
	}
	removed := engine.Removal{Phases: []engine.RemovedPhase{{Name: "aws"}, {Name: "aws-crds"}}}
	if err := remover.crds().unmarkRetained(t.Context(), rev, removed, retained); err != nil {
		t.Fatal(err)
	}
	checkReleased(t, cluster, before, []string{"a.x.io"})
	remover.Writer = interceptor.NewClient(cluster, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
		return apierrors.NewNotFound(schema.GroupResource{}, "later.x.io")
	}})
	removed.Phases = append(removed.Phases, engine.RemovedPhase{Name: "core-crds"})
	if err := remover.crds().unmarkRetained(t.Context(), rev, removed, retained); err != nil {
		t.Errorf("got %v after the deletion by another client", err)
	}
	remover.Live = answer{apierrors.NewServiceUnavailable("down")}
	if err := remover.crds().unmarkRetained(t.Context(), rev, removed, retained); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v, want the error of the read", err)
	}
}

// After a pass, users can create instances of all CRDs again.
func TestPass_LiftsTheGuard(t *testing.T) {
	live := fake.NewClientBuilder().WithObjects(
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: deletionPolicyName}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: deletionPolicyName}},
	).Build()
	remover := removerOf(t, live)
	remover.guarded = instance.Temporary{MayExist: true, Checked: true}
	if _, err := remover.pass(t.Context(), revisionOf()); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
		if err := live.Get(t.Context(), client.ObjectKey{Name: deletionPolicyName}, object); !apierrors.IsNotFound(err) {
			t.Errorf("%T exists after the pass: %v", object, err)
		}
	}
	if !remover.guarded.Absent() {
		t.Error("the next reconcile would look for the policy again")
	}
}

// A policy that cannot be deleted is deleted by the next reconcile.
func TestLiftGuard_Retries(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, deletionPolicyName, nil)
	remover := &Remover{Live: answer{forbidden}, Instances: &instance.Access{}}
	if err := remover.policy().lift(t.Context()); err == nil || remover.guarded.Checked {
		t.Errorf("error %v, checked %t", err, remover.guarded.Checked)
	}
	remover.Live = answer{apierrors.NewNotFound(schema.GroupResource{}, deletionPolicyName)}
	if err := remover.policy().lift(t.Context()); err != nil || !remover.guarded.Checked {
		t.Errorf("error %v, checked %t", err, remover.guarded.Checked)
	}
	remover.Live = answer{forbidden} // is not asked again
	if err := remover.policy().lift(t.Context()); err != nil {
		t.Error(err)
	}
}
