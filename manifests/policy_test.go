// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/test/controlplane"
)

// crd returns a CRD with the installer's metadata.
func crd(plural string, managed bool) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".test.cluster.x-k8s.io"},
		"spec": map[string]any{
			"group": "test.cluster.x-k8s.io", "scope": "Namespaced",
			"names": map[string]any{"kind": "T" + plural, "plural": plural},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	if managed {
		object.SetLabels(map[string]string{"app.kubernetes.io/managed-by": v1alpha1.Prefix})
		object.SetAnnotations(map[string]string{v1alpha1.OwnersAnnotation: "[]"})
	}
	return object
}

// denied waits until an attempt is denied: policies take effect with a delay.
func denied(t *testing.T, want string, attempt func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		last = attempt()
		return last != nil, nil
	})
	if err != nil || !strings.Contains(last.Error(), want) {
		t.Errorf("got %v, want it denied with %q", last, want)
	}
}

func TestPolicy_OnlyTheInstallerDeletesManagedCRDs(t *testing.T) {
	admin, installer := install(t)
	managed := crd("keeps", true)
	must(t, installer.Create(t.Context(), managed))
	denied(t, "would delete every Tkeeps in the cluster", func() error { return admin.Delete(t.Context(), managed, client.DryRunAll) })
	other := crd("others", false)
	must(t, admin.Create(t.Context(), other))
	if err := admin.Delete(t.Context(), other); err != nil {
		t.Errorf("a CRD that is not managed cannot be deleted: %v", err)
	}
	if err := installer.Delete(t.Context(), managed); err != nil {
		t.Errorf("the installer cannot delete its own CRD: %v", err)
	}
}

func TestPolicy_OnlyTheInstallerWritesBookkeeping(t *testing.T) {
	admin, installer := install(t)
	managed := crd("books", true)
	must(t, installer.Create(t.Context(), managed))
	t.Cleanup(func() { _ = installer.Delete(context.Background(), managed) })
	const want = "only the Cluster API installer writes"
	edit := func(metadata string, options ...client.PatchOption) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": `+metadata+`}`))
		return admin.Patch(t.Context(), managed.DeepCopy(), patch, options...)
	}
	denied(t, want, func() error {
		return edit(`{"annotations": {"`+v1alpha1.OwnersAnnotation+`": null}}`, client.DryRunAll)
	})
	denied(t, want, func() error { return edit(`{"labels": {"app.kubernetes.io/managed-by": null}}`, client.DryRunAll) })
	denied(t, want, func() error { return admin.Create(t.Context(), crd("forged", true), client.DryRunAll) })
	if err := edit(`{"annotations": {"note": "mine"}}`); err != nil {
		t.Errorf("an administrator cannot write an annotation of their own: %v", err)
	}
}

// as returns a client that impersonates a user with the groups of its kind.
func as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(controlplane.Shared(t).Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	if parts := strings.Split(user, ":"); strings.HasPrefix(user, "system:serviceaccount:") {
		config.Impersonate.Groups = append(config.Impersonate.Groups, "system:serviceaccounts", "system:serviceaccounts:"+parts[2])
	}
	c, err := client.New(config, client.Options{})
	must(t, err)
	return c
}

// Users of the tests. mallory may write all kinds of the tests, and alice may update ClusterAPI "cluster", too.
const (
	installerUser       = "system:serviceaccount:openshift-cluster-api-operator:cluster-api-installer"
	predecessorUser     = "system:serviceaccount:openshift-cluster-api-operator:capi-installer"
	versionOperatorUser = "system:serviceaccount:openshift-cluster-version:default"
	collectorUser       = "system:serviceaccount:kube-system:generic-garbage-collector"
	serviceCAUser       = "system:serviceaccount:openshift-service-ca:service-ca"
	mallory, alice      = "mallory", "alice"
)

// grant lets all users write, without the permission to update ClusterAPI "cluster", except alice.
func grant(t *testing.T, admin client.Client) {
	t.Helper()
	var subjects []rbacv1.Subject
	for _, user := range append([]string{installerUser, predecessorUser}, identities...) {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: user})
	}
	rule := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"create", "update", "patch", "delete"}}
	}
	everything := []rbacv1.PolicyRule{rule("", "configmaps", "secrets", "services"), rule("apps", "deployments", "deployments/status"), rule("networking.k8s.io", "networkpolicies"), rule("policy", "poddisruptionbudgets")}
	own := []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"clusterapis"}, ResourceNames: []string{v1alpha1.ClusterAPIName}, Verbs: []string{"update"}}}
	for name, test := range map[string]struct {
		rules    []rbacv1.PolicyRule
		subjects []rbacv1.Subject
	}{"test-writers": {everything, subjects}, "test-owner": {own, []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: alice}}}} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: test.rules}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: test.subjects}
		for _, object := range []client.Object{role, binding} {
			must(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), object)))
		}
	}
}

var identities = []string{
	versionOperatorUser, collectorUser, serviceCAUser, mallory, alice, "system:kube-controller-manager",
	"system:serviceaccount:openshift-cluster-api:default", "system:serviceaccount:openshift-cluster-api-operator:default",
	"system:serviceaccount:openshift-cluster-version:other", "system:serviceaccount:default:cluster-api-installer", "system:kube-scheduler",
}

// attempts are dry runs of all writes of an existing object and of one that does not exist.
func attempts(t *testing.T, existing client.Object) map[string]func(client.Client) error {
	return map[string]func(client.Client) error{
		"create": func(c client.Client) error {
			created := existing.DeepCopyObject().(client.Object)
			created.SetName(existing.GetName() + "-new")
			created.SetResourceVersion("")
			return c.Create(t.Context(), created, client.DryRunAll)
		},
		"patch": func(c client.Client) error {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"binaryData": {"more": ""}, "data": {"edited": ""}}`))
			return c.Patch(t.Context(), existing.DeepCopyObject().(client.Object), patch, client.DryRunAll)
		},
		"delete": func(c client.Client) error {
			return c.Delete(t.Context(), existing.DeepCopyObject().(client.Object), client.DryRunAll)
		},
	}
}

// expect runs attempts of each user: those in writers are allowed, with all verbs or with one, and all others are denied.
func expect(t *testing.T, existing client.Object, want string, writers ...string) {
	t.Helper()
	for _, user := range append(identities, installerUser) {
		c := as(t, user)
		for verb, attempt := range attempts(t, existing) {
			if !slices.Contains(writers, user) && !slices.Contains(writers, user+" "+verb) {
				denied(t, want, func() error { return attempt(c) })
			} else if err := attempt(c); err != nil {
				t.Errorf("%s may not %s %s: %v", user, verb, existing.GetName(), err)
			}
		}
	}
}

// TestPolicy_InputsOfTheInstaller: SECURITY.md lists these inputs.
func TestPolicy_InputsOfTheInstaller(t *testing.T) {
	admin, _ := install(t)
	grant(t, admin)
	for name, input := range map[string]client.Object{
		"images.json":              &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-api-installer-images"}},
		"history":                  &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "capi-installer-history"}},
		"first start":              &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "capi-installer-first-start"}},
		"registries":               &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "capi-installer-registries"}},
		"name of the next version": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "4.22.0-2"}},
		"version":                  &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "4.22.0-1", Labels: map[string]string{v1alpha1.RevisionLabel: "4.22.0-1"}}},
		"pull secret":              &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "capi-installer-pull-secret"}},
		"CA":                       &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "capi-installer-serving-ca"}},
		"Secret of a variable":     &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "aws"}},
		"values of a version":      &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "4.22.0-1", Labels: map[string]string{v1alpha1.RevisionPartLabel: "4.22.0-1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			input.SetNamespace(v1alpha1.OpenShiftNamespaces.Operator)
			must(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), input)))
			expect(t, input, "the permission to update ClusterAPI", installerUser, alice, collectorUser, serviceCAUser, "system:kube-controller-manager")
		})
	}
	for verb, attempt := range attempts(t, certificateOf(t, admin)) {
		if err := attempt(as(t, mallory)); err != nil {
			t.Errorf("%s of a Secret that the installer does not read: %v", verb, err)
		}
	}
	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cluster-api-installer-images"}}
	if err := as(t, mallory).Create(t.Context(), elsewhere, client.DryRunAll); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
}

// certificateOf creates the Secret of the lifecycle hooks.
func certificateOf(t *testing.T, admin client.Client) client.Object {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: "capi-lifecycle-hooks"}}
	must(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), secret)))
	return secret
}

func TestPolicy_TransportConfigMaps(t *testing.T) {
	admin, _ := install(t)
	grant(t, admin)
	marked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Name: "marked", Labels: map[string]string{configmap.BundleLabel: "aws"}}}
	must(t, as(t, versionOperatorUser).Create(t.Context(), marked))
	t.Cleanup(func() { _ = as(t, versionOperatorUser).Delete(context.Background(), marked) })
	expect(t, marked, "only the cluster version operator writes", versionOperatorUser, collectorUser, "system:kube-controller-manager", alice+" delete")
	plain := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: marked.Namespace, Name: "plain"}}
	must(t, admin.Create(t.Context(), plain))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), plain) })
	for object, label := range map[client.Object]string{plain: `"aws"`, marked: "null"} {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"`+configmap.BundleLabel+`": `+label+`}}}`))
		denied(t, "only the cluster version operator writes", func() error {
			return as(t, alice).Patch(t.Context(), object.DeepCopyObject().(client.Object), patch, client.DryRunAll)
		})
	}
}

// forgeries are patches of metadata that would make the installer delete or overwrite an object of another team.
var forgeries = map[string]string{
	"our marks":            `{"labels": {"app.kubernetes.io/managed-by": "capi-operator.openshift.io"}, "annotations": {"capi-operator.openshift.io/owners": "[{}]"}}`,
	"our owners only":      `{"annotations": {"capi-operator.openshift.io/owners": "[{}]"}}`,
	"our label only":       `{"labels": {"app.kubernetes.io/managed-by": "capi-operator.openshift.io"}}`,
	"predecessor's marks":  `{"labels": {"app.kubernetes.io/managed-by": "boxcutter", "capi-operator.openshift.io/managed-by": "aws"}, "annotations": {"capi-operator.openshift.io/revision": "7"}}`,
	"a handed over object": `{"labels": {"app.kubernetes.io/managed-by": "boxcutter", "capi-operator.openshift.io/managed-by": "aws"}}`,
	"adoption":             `{"annotations": {"capi-operator.openshift.io/adopt-existing": "always"}}`,
}

// TestPolicy_Marks: no kind that the installer may delete can get its marks by other users, also not through the status.
func TestPolicy_Marks(t *testing.T) {
	admin, _ := install(t)
	grant(t, admin)
	meta := metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Name: "tenant"}
	labels := map[string]string{"a": "b"}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}}}
	for kind, object := range map[string]client.Object{
		"NetworkPolicy": &networkingv1.NetworkPolicy{ObjectMeta: meta}, "PodDisruptionBudget": &policyv1.PodDisruptionBudget{ObjectMeta: meta},
		"ConfigMap": &corev1.ConfigMap{ObjectMeta: meta}, "Secret": &corev1.Secret{ObjectMeta: meta}, "Deployment": deployment,
	} {
		must(t, as(t, mallory).Create(t.Context(), object))
		t.Cleanup(func() { _ = admin.Delete(context.Background(), object) })
		for name, forgery := range forgeries {
			t.Run(kind+", "+name, func(t *testing.T) {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": `+forgery+`}`))
				edit := func(c client.Client) error {
					return c.Patch(t.Context(), object.DeepCopyObject().(client.Object), patch, client.DryRunAll, client.FieldOwner(v1alpha1.FieldOwner))
				}
				want := "only the Cluster API installer writes"
				if name == "adoption" {
					want = "requires the permission to update ClusterAPI"
					if err := edit(as(t, alice)); err != nil {
						t.Errorf("who may update ClusterAPI may not allow an adoption: %v", err)
					}
				} else {
					denied(t, want, func() error { return edit(as(t, alice)) })
				}
				denied(t, want, func() error { return edit(as(t, mallory)) })
				if kind == "Deployment" && name != "our label only" && name != "a handed over object" { // the API server ignores labels there
					denied(t, want, func() error {
						return as(t, mallory).Status().Patch(t.Context(), object.DeepCopyObject().(client.Object), patch, client.DryRunAll)
					})
				}
				for _, c := range []client.Client{as(t, predecessorUser), as(t, installerUser)} {
					if err := edit(c); err != nil {
						t.Errorf("an installer may not write its marks: %v", err)
					}
				}
			})
		}
	}
}

// The control plane copies annotations of a Deployment to objects that it creates.
func TestPolicy_MarksDoNotStopTheControlPlane(t *testing.T) {
	admin, installer := install(t)
	marks := metav1.ObjectMeta{
		Namespace: v1alpha1.OpenShiftNamespaces.Operand, Name: "copied", Labels: map[string]string{"app.kubernetes.io/managed-by": v1alpha1.Prefix},
		Annotations: map[string]string{v1alpha1.OwnersAnnotation: "[]", v1alpha1.RevisionAnnotation: "1"},
	}
	labels := map[string]string{"a": "copied"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	for _, object := range []client.Object{
		&appsv1.Deployment{ObjectMeta: marks, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		&appsv1.DaemonSet{ObjectMeta: marks, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
		&corev1.Service{ObjectMeta: marks, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 443}}}},
	} {
		must(t, installer.Create(t.Context(), object))
		t.Cleanup(func() { _ = installer.Delete(context.Background(), object) })
	}
	for _, list := range []client.ObjectList{&appsv1.ReplicaSetList{}, &appsv1.ControllerRevisionList{}} {
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			err := admin.List(ctx, list, client.InNamespace(marks.Namespace), client.MatchingLabels(labels))
			return listLen(list) > 0, err
		})
		if err != nil {
			t.Errorf("%T: %v", list, err)
		}
	}
}

func listLen(list client.ObjectList) int {
	switch list := list.(type) {
	case *appsv1.ReplicaSetList:
		return len(list.Items)
	case *appsv1.ControllerRevisionList:
		return len(list.Items)
	}
	return 0
}
