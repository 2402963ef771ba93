// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// least is a cluster whose installer has, beside what it has for itself, the least
// role for the providers of its release.
type least struct {
	*harness
	objects []*unstructured.Unstructured
	rules   []rbac.Rule
}

// newLeast releases bundles and takes from the installer what it does not need for them.
func newLeast(t *testing.T, bundles ...extractor.Bundle) *least {
	t.Helper()
	l := &least{harness: newHarness(t)}
	l.releaseBundles(bundles)
	own, err := manifests.Objects()
	l.must(err)
	t.Cleanup(func() {
		_, err := fixture.Preparation{}.Apply(context.Background(), controlplane.Shared(t).Config)
		l.must(err)
		for _, object := range rbac.RolesOf(l.rules, leastName, nil).Objects() {
			l.must(client.IgnoreNotFound(l.Delete(context.Background(), object.(client.Object))))
		}
	})
	var held []*unstructured.Unstructured
	for _, object := range own {
		if object.GetName() != manifests.ProvidersRole {
			held = append(held, object)
			continue
		}
		l.must(l.Delete(t.Context(), object))
	}
	options := rbac.Options{}
	options.Held, err = rbac.HeldBy(held)
	l.must(err)
	l.rules = rbac.Least(l.objects, options)
	l.grant(l.rules)
	return l
}

const leastName = "test-least"

// releaseBundles pushes images of bundles and names them in images.json.
func (l *least) releaseBundles(bundles []extractor.Bundle) {
	l.Helper()
	for i := range bundles {
		image, err := build.Pack(nil, bundles[i])
		l.must(err)
		name := bundles[i].Metadata.ProviderName
		bundles[i].Origin.Image, err = l.registry.Push("test/"+name, image)
		l.must(err)
		l.images[name] = bundles[i].Origin.Image
	}
	l.writeImages()
	set, err := operand.Render(bundles, nil)
	l.must(err)
	for _, component := range set.Operands {
		l.objects = append(l.objects, component.Objects...)
	}
}

// grant gives the installer rules, some or all of those of the least role.
func (l *least) grant(rules []rbac.Rule) {
	l.Helper()
	now := map[string][]rbacv1.PolicyRule{}
	for _, rule := range rules {
		now[rule.Namespace] = append(now[rule.Namespace], rule.PolicyRule)
	}
	for _, object := range rbac.RolesOf(l.rules, leastName, nil).Objects() {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			role.Rules = now[""]
		case *rbacv1.Role:
			role.Rules = now[role.Namespace]
		}
		l.eventually("the least role is written", func() error { return l.write1(object) })
	}
}

func (l *least) write1(object runtime.Object) error {
	role := object.(client.Object)
	there := role.DeepCopyObject().(client.Object)
	err := l.Get(context.Background(), key(role), there)
	if err != nil {
		return l.Create(context.Background(), role)
	}
	role.SetResourceVersion(there.GetResourceVersion())
	return l.Update(context.Background(), role)
}

// without are the rules without some verbs of one of them.
func without(rules []rbac.Rule, index int, verbs ...string) []rbac.Rule {
	left := slices.Clone(rules)
	left[index].Verbs = slices.DeleteFunc(slices.Clone(left[index].Verbs), func(verb string) bool { return slices.Contains(verbs, verb) })
	if len(left[index].Verbs) == 0 {
		left = slices.Delete(left, index, index+1)
	}
	return left
}

// realCore is Cluster API's core provider, as its project releases it.
func realCore(t *testing.T) extractor.Bundle { return real(t, "cluster-api") }

// real is a real provider's bundle.
func real(t *testing.T, name string) extractor.Bundle {
	t.Helper()
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range providers {
		if p.Name != name {
			continue
		}
		bundle, _, err := build.Generate(build.GenerateOptions{
			Dir: p.Kustomization, ProviderName: p.Name, ProviderType: p.Type, ProviderVersion: p.Version, OCPPlatform: p.Platform, ImageName: p.ImageName,
		})
		if err != nil {
			t.Fatal(err)
		}
		return bundle
	}
	t.Fatalf("there is no provider %s", name)
	return extractor.Bundle{}
}

func TestTheLeastRoleIsEnough(t *testing.T) {
	l := newLeast(t, realCore(t), fixture.Synthetic{Name: "cluster-api-provider-aws", Platform: "AWS"}.Bundle())
	l.start("4.22.0")
	l.settled("4.22.0-1")
	for i, r := range l.rules {
		fmt.Fprintln(os.Stderr, i, r.Namespace, r.APIGroups, r.Resources, r.ResourceNames, r.Verbs, r.NonResourceURLs)
	}
	_ = cmp.Diff
	_ = strings.Join
}
