// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// specimens are the contents of one object of each kind that the installer may write, without metadata.
var specimens = map[schema.GroupVersionKind]string{
	{Version: "v1", Kind: "ServiceAccount"}:                                                          ``,
	{Version: "v1", Kind: "Service"}:                                                                 `spec: {ports: [{port: 1}]}`,
	{Version: "v1", Kind: "ConfigMap"}:                                                               ``,
	{Group: "apps", Version: "v1", Kind: "Deployment"}:                                               workload(`replicas: 0, `),
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}:                                              workload(`replicas: 0, serviceName: a, `),
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}:                                                workload(``),
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}:                               `spec: {podSelector: {}}`,
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}:                                    `spec: {minAvailable: 0}`,
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}:                                ``,
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}:                         `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}`,
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}:                         ``,
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}:                  `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: a}`,
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}:     ``,
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}:   ``,
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"}:        `spec: {matchConstraints: {resourceRules: [{apiGroups: [none], apiVersions: [v1], operations: [CREATE], resources: [none]}]}, validations: [{expression: "true"}]}`,
	{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"}: `spec: {policyName: none, validationActions: [Audit]}`,
	{Group: "apiextensions.openshift.io", Version: "v1alpha1", Kind: "CompatibilityRequirement"}:     `spec: {compatibilitySchema: {customResourceDefinition: {type: YAML, data: "kind: CustomResourceDefinition"}, requiredVersions: {defaultSelection: AllServed}}, customResourceDefinitionSchemaValidation: {action: Warn}}`,
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: object.CRDVersion.Kind}:                     strings.SplitN(crd("orphans", "Orphan"), "\n", 4)[3],
}

func workload(fields string) string {
	return `spec: {` + fields + `selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: "example.com/a@sha256:` + strings.Repeat("0", 64) + `"}]}}}`
}

// specimen returns an object that names a version as its owner.
func specimen(t *testing.T, kind schema.GroupVersionKind, name, version, operatorNamespace string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := decode(specimens[kind]+"\n", out); err != nil {
		t.Fatal(err)
	}
	if out.Object == nil {
		out.Object = map[string]any{}
	}
	out.SetGroupVersionKind(kind)
	out.SetName(name)
	if object.IsCRD(out) {
		out.SetName("orphans.infrastructure.cluster.x-k8s.io")
	}
	switch kind.Kind {
	case "Role", "RoleBinding", "ServiceAccount", "Service", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Deployment", "StatefulSet", "DaemonSet":
		out.SetNamespace(namespace)
	}
	out.SetLabels(map[string]string{"app.kubernetes.io/managed-by": v1alpha1.Prefix})
	out.SetAnnotations(map[string]string{
		v1alpha1.RevisionAnnotation: "7",
		v1alpha1.OwnersAnnotation: fmt.Sprintf(`[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"namespace":%q,"uid":%q,"controller":true}]`,
			version, operatorNamespace, "revision-"+version),
	})
	return out
}

// plant creates an object as the installer writes it, and returns it.
func (h *harness) plant(o *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	h.Helper()
	h.must(h.asInstaller().Create(h.Context(), o, client.FieldOwner(manager)))
	h.Cleanup(func() { h.must(client.IgnoreNotFound(h.Delete(context.Background(), o))) })
	return o
}

// asInstaller returns a client with the rights of the installer: an admission policy rejects the marks of the installer from others.
func (h *harness) asInstaller() client.Client {
	h.Helper()
	out, err := client.New(h.config, client.Options{Scheme: h.Scheme()})
	h.must(err)
	return out
}

// gone returns an error while an object exists.
func (h *harness) gone(o *unstructured.Unstructured) error {
	h.Helper()
	if left := h.object(apiKind(o), o.GetNamespace(), o.GetName()); left != nil && left.GetUID() == o.GetUID() {
		return fmt.Errorf("%s exists", object.Describe(o))
	}
	return nil
}

func apiKind(o *unstructured.Unstructured) string {
	return o.GetAPIVersion() + "/" + o.GetKind()
}

// Objects of every kind whose version does not exist are removed at the start of a process, and while it runs; a CRD is retained. Objects
// that are not certainly the installer's stay.
func TestOrphans_OfEveryKind(t *testing.T) {
	h := newInstallation(t, core(configMap("kept", "1")), aws())
	h.stop()
	h.coversEveryKind()
	var orphans []*unstructured.Unstructured
	var crd *unstructured.Unstructured
	for kind := range specimens {
		planted := h.plant(specimen(t, kind, "orphan", "4.21.0-7", v1alpha1.OpenShiftNamespaces.Operator), v1alpha1.FieldOwner)
		if object.IsCRD(planted) {
			crd = planted
		} else {
			orphans = append(orphans, planted)
		}
	}
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	unlabelled := specimen(t, kind, "unlabelled", "4.21.0-7", v1alpha1.OpenShiftNamespaces.Operator)
	unlabelled.SetLabels(nil)
	foreign := specimen(t, kind, "other-owner", "4.21.0-7", v1alpha1.OpenShiftNamespaces.Operator)
	foreign.SetAnnotations(map[string]string{v1alpha1.OwnersAnnotation: strings.ReplaceAll(foreign.GetAnnotations()[v1alpha1.OwnersAnnotation], "revision-4", "other-4")})
	dependent := specimen(t, kind, "not-controlled", "4.21.0-7", v1alpha1.OpenShiftNamespaces.Operator)
	dependent.SetAnnotations(map[string]string{v1alpha1.OwnersAnnotation: strings.ReplaceAll(dependent.GetAnnotations()[v1alpha1.OwnersAnnotation], "true", "false")})
	others := []*unstructured.Unstructured{
		h.plant(unlabelled, v1alpha1.FieldOwner), h.plant(foreign, v1alpha1.FieldOwner), h.plant(dependent, v1alpha1.FieldOwner),
		h.plant(specimen(t, kind, "other-installation", "4.21.0-7", "elsewhere"), v1alpha1.FieldOwner),
		h.plant(specimen(t, kind, "written-by-others", "4.21.0-7", v1alpha1.OpenShiftNamespaces.Operator), "kubectl"),
		h.plant(specimen(t, kind, "known-version", "4.22.0-1", v1alpha1.OpenShiftNamespaces.Operator), v1alpha1.FieldOwner),
	}
	h.start("4.22.0")
	h.eventually("the orphans are gone", func() error {
		for _, orphan := range orphans {
			if err := h.gone(orphan); err != nil {
				return err
			}
		}
		return nil
	})
	h.eventually("the CRD has no owner", func() error {
		found := h.object(crdKind, "", crd.GetName())
		if found == nil {
			t.Fatal("the CRD was deleted")
		}
		if found.GetLabels()["app.kubernetes.io/managed-by"] != "" || found.GetAnnotations()[v1alpha1.OwnersAnnotation] != "" || !v1alpha1.AllowsAdoption(found.GetAnnotations()) {
			return fmt.Errorf("labels %v, annotations %v", found.GetLabels(), found.GetAnnotations())
		}
		return nil
	})
	h.settled("4.22.0-1")
	h.namedInEvents("OrphansRemoved", "ConfigMap openshift-cluster-api/orphan of version 4.21.0-7", "retained without owner: CustomResourceDefinition "+crd.GetName())
	late := h.plant(specimen(t, kind, "late", "4.22.0-9", v1alpha1.OpenShiftNamespaces.Operator), v1alpha1.FieldOwner)
	h.eventually("a later orphan is gone", func() error { return h.gone(late) })
	h.namedInEvents("OrphansRemoved", "late")
	h.settled("4.22.0-1")
	for _, other := range others {
		if h.gone(other) == nil {
			t.Errorf("%s was removed", object.Describe(other))
		}
	}
	h.expectQuiet(func() { h.reconcileTimes(2) })
}

// An orphan that is created while its version is being removed does not survive an uninstall.
func TestOrphans_BeforeTheEndOfAnUninstall(t *testing.T) {
	h := newInstallation(t, core(configMap("kept", "1")), aws())
	orphan := specimen(t, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "orphan", "4.22.0-1", v1alpha1.OpenShiftNamespaces.Operator)
	orphan.SetFinalizers([]string{"example.com/wait"})
	h.plant(orphan, v1alpha1.FieldOwner)
	h.must(h.Delete(t.Context(), h.clusterAPI()))
	h.reports("InstallerProgressing", "Uninstalling", "ConfigMap openshift-cluster-api/orphan of version 4.22.0-1", "example.com/wait")
	h.must(h.Patch(t.Context(), orphan, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))))
	h.clusterAPIGone()
	h.reapply()
}

// coversEveryKind fails the test if the installer may write a built-in kind without a specimen.
func (h *harness) coversEveryKind() {
	h.Helper()
	served, err := discovery.NewDiscoveryClientForConfig(h.config)
	h.must(err)
	lists, err := served.ServerPreferredResources()
	h.must(err)
	installer := h.asInstaller()
	for _, list := range lists {
		for _, resource := range list.APIResources {
			kind := schema.FromAPIVersionAndKind(list.GroupVersion, resource.Kind)
			if _, found := specimens[kind]; found || !slices.Contains(resource.Verbs, "delete") || resource.Kind == "ClusterOperator" || strings.HasSuffix(kind.Group, "x-k8s.io") {
				continue
			}
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: kind.Group, Resource: resource.Name},
			}}
			h.must(installer.Create(h.Context(), review))
			if review.Status.Allowed {
				h.Errorf("no specimen of %s, of which the installer may create objects", kind)
			}
		}
	}
}
