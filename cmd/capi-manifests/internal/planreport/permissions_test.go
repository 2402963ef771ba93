// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// missingFor returns the rules that the shipped roles lack for objects.
func missingFor(t *testing.T, objects []*unstructured.Unstructured) []rbac.Rule {
	t.Helper()
	roles, err := manifests.Objects()
	if err != nil {
		t.Fatal(err)
	}
	missing, err := MissingPermissions([]revision.Phase{{Name: "all", Objects: objects}}, nil, roles, v1alpha1.OpenShiftNamespaces)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(missing, rbac.Rule.ForCertificates)
}

// The shipped roles suffice to install and remove every real provider.
func TestMissingPermissions_RealProviders(t *testing.T) {
	all, err := bundles.Four(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	more, err := bundles.Sixteen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, bundle := range slices.Concat(all, more, openShiftBundles(t)) {
		objects, err := yamldoc.Objects(bundle.Manifests)
		if err != nil {
			t.Fatalf("%s: %v", bundle.Metadata.ProviderName, err)
		}
		for _, rule := range missingFor(t, objects) {
			t.Errorf("%s: the installer %s", bundle.Metadata.ProviderName, rule)
		}
	}
}

// openShiftBundles returns OpenShift's own bundles in the folder PROVIDERS, such as Metal3's with CRDs of group ipam.metal3.io.
func openShiftBundles(t *testing.T) (all []extractor.Bundle) {
	t.Helper()
	folder := os.Getenv("PROVIDERS")
	if folder == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "openshift-*", "components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, extractor.Bundle{Metadata: extractor.Metadata{ProviderName: filepath.Base(filepath.Dir(file))}, Manifests: content})
	}
	return all
}

// Validation of a bundle names the rules that the plan of its release names.
func TestMissingPermissions_SameAsValidation(t *testing.T) {
	for name, c := range map[string]struct{ manifests, want string }{
		"another kind": {
			manifests: `{apiVersion: batch/v1, kind: CronJob, metadata: {name: backup, namespace: openshift-cluster-api}}`,
			want:      `cannot create, list, watch resource "cronjobs" in API group "batch" in namespace "openshift-cluster-api"`,
		},
		"cluster-scoped kind": {
			manifests: `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 1}`,
			want:      `cannot delete, get, patch resource "priorityclasses" in API group "scheduling.k8s.io" named "urgent"`,
		},
		"policy with parameters of another kind": {
			manifests: `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: quotas}
spec:
  paramKind: {apiVersion: quota.example.com/v1, kind: Limit}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
`,
			want: `cannot get resource "limits" in API group "quota.example.com"`,
		},
		"object of a kind that the bundle defines": {
			manifests: `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: policies.quota.example.com}
spec:
  group: quota.example.com
  scope: Cluster
  names: {kind: Limit, plural: policies}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
{apiVersion: quota.example.com/v1, kind: Limit, metadata: {name: small}}
`,
			want: `cannot delete, get, patch resource "policies" in API group "quota.example.com" named "small"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := yamldoc.Objects([]byte(c.manifests))
			if err != nil {
				t.Fatal(err)
			}
			var planned []string
			for _, rule := range missingFor(t, objects) {
				planned = append(planned, rule.String())
			}
			var validated string
			bundle := extractor.Bundle{Metadata: extractor.Metadata{ProviderName: "quota"}, Manifests: []byte(c.manifests)}
			for _, finding := range contract.Check(bundle, rules.All()) {
				if finding.Rule == "installer/kind-allowed" {
					validated += finding.Message
				}
			}
			if want := "the installer " + strings.Join(planned, "; "); validated != want || !strings.Contains(want, c.want) {
				t.Errorf("validation: %q, plan: %q, want %q in both", validated, want, c.want)
			}
		})
	}
}

// A kind that the shipped roles lack is in the plan, with its rule.
func TestMissingPermissions_OtherKind(t *testing.T) {
	objects, err := yamldoc.Objects([]byte(`{apiVersion: batch/v1, kind: CronJob, metadata: {name: backup, namespace: openshift-cluster-api}}`))
	if err != nil {
		t.Fatal(err)
	}
	p := plannedRelease(t)
	p.MissingPermissions = missingFor(t, objects)
	var out bytes.Buffer
	p.Table(&out)
	for _, part := range []string{"MISSING PERMISSION", `cannot create, list, watch resource "cronjobs" in API group "batch" in namespace "openshift-cluster-api"`, "capi-manifests rbac"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q not found in:\n%s", part, &out)
		}
	}
	p.MissingPermissions = nil
	out.Reset()
	if p.Table(&out); strings.Contains(out.String(), "MISSING") {
		t.Errorf("a release without missing permissions has some:\n%s", &out)
	}
}

func TestNamespaces(t *testing.T) {
	settings := []v1alpha1.ComponentSettings{{Name: "a", Namespace: "capa-system"}, {Name: "b"}, {Name: "c", Namespace: "capi-system"}, {Name: "d", Namespace: "capa-system"}}
	found := Namespaces(extractor.Kubernetes, nil, settings)
	if got := found.Providers(); !slices.Equal(got, []string{"capi-system", "capa-system"}) {
		t.Errorf("from the settings: %v", got)
	}
	if got := Namespaces(extractor.Kubernetes, []string{"x", "y"}, settings); !slices.Equal(got.Providers(), []string{"x", "y"}) || got.Operator != "capi-installer-system" {
		t.Errorf("given: %v", got)
	}
	role := func(namespace string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "Role", "metadata": map[string]any{"name": "a", "namespace": namespace}}}
	}
	var names []string
	for _, o := range inAll([]*unstructured.Unstructured{role("capi-installer-system"), role("capi-system")}, found, "capi-system") {
		names = append(names, o.GetNamespace())
	}
	if want := []string{"capi-installer-system", "capi-system", "capa-system"}; !slices.Equal(names, want) {
		t.Errorf("roles in %v, want %v", names, want)
	}
}
