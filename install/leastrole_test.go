// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// least is a cluster whose installer has only its own permissions and the least role
// for the providers of its release.
type least struct {
	*harness
	objects []*unstructured.Unstructured
	rules   []rbac.Rule
}

const leastName = "test-least"

// newLeast releases bundles, and replaces the role for providers with the least role.
func newLeast(t *testing.T, bundles ...extractor.Bundle) *least {
	t.Helper()
	l := &least{harness: newHarness(t)}
	t.Cleanup(l.restore)
	l.releaseBundles(bundles)
	l.rules = rbac.MinimalRules(l.objects, rbac.Options{ExistingRules: l.deleteProvidersRole()})
	l.grant(l.rules)
	return l
}

// deleteProvidersRole deletes the permissions for providers' objects, and returns
// the remaining permissions.
func (l *least) deleteProvidersRole() []rbac.Rule {
	l.Helper()
	objects, err := manifests.Objects()
	l.must(err)
	held, err := rbac.RulesOfInstaller(slices.DeleteFunc(slices.Clone(objects), ofProviders), v1alpha1.OpenShiftNamespaces.Operator)
	l.must(err)
	for _, object := range objects {
		if ofProviders(object) {
			l.must(l.Delete(l.Context(), object))
		}
	}
	return held
}

func ofProviders(o *unstructured.Unstructured) bool { return o.GetName() == manifests.ProvidersRole }

// restore recreates the role for providers, for the uninstall at the end of the test.
func (l *least) restore() {
	objects, err := manifests.Objects()
	l.must(err)
	for _, object := range objects {
		if ofProviders(object) {
			l.must(client.IgnoreAlreadyExists(l.Create(context.Background(), object)))
		}
	}
	for _, object := range rbac.RolesOf(l.rules, leastName, v1alpha1.OpenShiftNamespaces.Operator).Objects() {
		l.must(client.IgnoreNotFound(l.Delete(context.Background(), object)))
	}
}

// releaseBundles pushes images of bundles and names them in images.json.
func (l *least) releaseBundles(bundles []extractor.Bundle) {
	l.Helper()
	for i := range bundles {
		image, err := pack.Pack(nil, bundles[i])
		l.must(err)
		name := bundles[i].Metadata.ProviderName
		l.images[name], err = l.Registry.Push("test/"+name, image)
		l.must(err)
		bundles[i].Origin.Image = l.images[name]
	}
	l.writeImages()
	set, err := operand.Render(operand.Inputs{Bundles: bundles, Variables: nil})
	l.must(err)
	for _, component := range set.Operands {
		l.objects = append(l.objects, component.Objects...)
	}
}

// grant replaces the installer's rules for providers.
func (l *least) grant(rules []rbac.Rule) {
	l.Helper()
	now := map[string][]rbacv1.PolicyRule{}
	for _, rule := range rules {
		now[rule.Namespace] = append(now[rule.Namespace], rule.PolicyRule)
	}
	for _, object := range rbac.RolesOf(l.rules, leastName, v1alpha1.OpenShiftNamespaces.Operator).Objects() {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			role.Rules = now[""]
		case *rbacv1.Role:
			role.Rules = now[role.Namespace]
		}
		err := l.Create(context.Background(), object)
		if err != nil {
			there := object.DeepCopyObject().(client.Object)
			l.must(l.Get(context.Background(), key(object), there))
			object.SetResourceVersion(there.GetResourceVersion())
			l.must(l.Update(context.Background(), object))
		}
	}
}

// complete waits until all objects are installed.
func (l *least) complete() {
	l.Helper()
	l.eventually("all objects are installed", func() error {
		l.touch()
		s := l.clusterAPI().Status
		if s.CurrentVersion == "" || !s.Settled() || len(s.Versions) != 1 || !meta.IsStatusConditionFalse(s.Conditions, "Degraded") {
			return fmt.Errorf("current %q, desired %q", s.CurrentVersion, s.DesiredVersion)
		}
		return l.incomplete()
	})
}

// incomplete returns an error until all objects exist, with the label of their manifest and an owner.
func (l *least) incomplete() error {
	installed, err := fixture.InstalledMetadata(l.Context(), l)
	l.must(err)
	for _, object := range l.objects {
		kind := object.GroupVersionKind()
		if !slices.ContainsFunc(installed, func(there metav1.PartialObjectMetadata) bool {
			return there.GroupVersionKind() == kind && key(&there) == key(object) &&
				there.Labels[edited] == object.GetLabels()[edited] && there.Annotations[v1alpha1.OwnersAnnotation] != ""
		}) {
			return fmt.Errorf("%s %s differs from the manifest or is not ready", kind.Kind, object.GetName())
		}
	}
	return nil
}

// realBundle returns the bundle of a provider from the manifests of its project.
func realBundle(t *testing.T, name string) extractor.Bundle {
	t.Helper()
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(providers, func(p fixture.Provider) bool { return p.Name == name })
	if at < 0 {
		t.Fatalf("provider %s not found", name)
	}
	p := providers[at]
	bundle, _, err := generate.Bundle(generate.Options{
		Dir: p.Kustomization, ProviderName: p.Name, ProviderType: p.Type, ProviderVersion: p.Version, OCPPlatform: p.Platform, Options: transform.Options{ImageName: p.ImageName},
	})
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// edited is the label that the test modifies; every object of Cluster API's providers has it.
const edited = "cluster.x-k8s.io/provider"

// disturb edits all objects, and deletes one of each kind except CRDs, which an admission policy protects.
func (l *least) disturb() {
	l.Helper()
	deleted := map[string]bool{object.CRDVersion.Kind: true}
	for _, o := range l.objects {
		if !deleted[o.GetKind()] {
			deleted[o.GetKind()] = true
			l.must(l.Delete(l.Context(), o.DeepCopy()))
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: "edited"}}}`, edited)
		l.must(l.Patch(l.Context(), o.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
	}
}

// TestLeastRole_Sufficient installs real providers with the least role, repairs and uninstalls them. TestMinimalRules lists the rules of each kind of object,
// and TestPermissions_CheckedBeforeTheFirstWrite shows how a missing rule is reported.
func TestLeastRole_Sufficient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		bundles []extractor.Bundle
	}{
		{"where a ClusterRole gathers others", []extractor.Bundle{
			realBundle(t, "cluster-api"), fixture.Synthetic{Name: "cluster-api-provider-aws", Platform: "AWS"}.Bundle(),
		}},
		{"where every role is known", []extractor.Bundle{
			fixture.Synthetic{Name: "cluster-api", Type: extractor.Core}.Bundle(), realBundle(t, "cluster-api-provider-aws"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLeast(t, c.bundles...)
			l.start("4.22.0")
			l.complete()
			l.disturb()
			l.complete()
			l.must(l.Delete(t.Context(), l.clusterAPI()))
			l.clusterAPIGone()
		})
	}
}
