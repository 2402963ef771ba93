// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
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
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// least is a cluster whose installer has only its own permissions and the least role
// for the providers of its release.
type least struct {
	*harness
	objects []*unstructured.Unstructured
	rules   []rbac.Rule
	self    client.Client // the installer's
}

const leastName = "test-least"

// newLeast releases bundles, and replaces the role for providers with the least role.
func newLeast(t *testing.T, bundles ...extractor.Bundle) *least {
	t.Helper()
	l := &least{harness: newHarness(t)}
	t.Cleanup(l.restore)
	l.self = l.asInstaller()
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
	for _, object := range rbac.RolesOf(l.rules, leastName, nil, v1alpha1.OpenShiftNamespaces.Operator).Objects() {
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
	for _, object := range rbac.RolesOf(l.rules, leastName, nil, v1alpha1.OpenShiftNamespaces.Operator).Objects() {
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

// trial removes one permission from the role and triggers the request that needs it.
type trial struct {
	rbac.Rule
	verbs []string
	left  []rbac.Rule
}

// trials returns one trial for each verb of each rule. "list" and "watch" are removed
// together: a client can read a kind with either of them.
func trials(rules []rbac.Rule) (all []trial) {
	for i, rule := range rules {
		reads := slices.Contains(rule.Verbs, "list") && slices.Contains(rule.Verbs, "watch")
		for _, verb := range rule.Verbs {
			verbs := []string{verb}
			switch {
			case reads && verb == "watch":
				continue
			case reads && verb == "list":
				verbs = append(verbs, "watch")
			}
			left := slices.Clone(rules)
			left[i].Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return slices.Contains(verbs, v) })
			if len(left[i].Verbs) == 0 {
				left = slices.Delete(left, i, i+1)
			}
			all = append(all, trial{rule, verbs, left})
		}
	}
	return all
}

func (t trial) String() string {
	return strings.Join([]string{strings.Join(t.verbs, "+"), strings.Join(t.Resources, "+"), t.Why}, " ")
}

// grantedByRoles reports whether the installer needs the rule only because the providers' roles grant it.
func (t trial) grantedByRoles() bool { return strings.HasPrefix(t.Why, "roles of the set grant it") }

// trigger is the operation that needs a permission of the installer.
type trigger int

const (
	repairing trigger = iota
	installing
	removing
)

// trigger returns the operation of a trial. An admission policy allows only the installer
// to delete a CRD that it manages.
func (t trial) trigger() trigger {
	ofCRDs := slices.Contains(t.Resources, "customresourcedefinitions")
	switch verb := t.verbs[0]; {
	case t.grantedByRoles():
		return repairing
	case verb == "delete", verb == "list" && len(t.verbs) == 1, verb == "get" && ofCRDs:
		return removing
	case verb == "create" && ofCRDs:
		return installing
	default:
		return repairing
	}
}

// wantMessages returns regular expressions for the expected messages.
func (t trial) wantMessages() []string {
	resources := `resource "(` + strings.Join(t.Resources, "|") + `)"`
	switch verb := t.verbs[0]; {
	case t.grantedByRoles():
		return []string{"is forbidden", "attempting to grant RBAC permissions not currently held"}
	case verb == "escalate":
		return []string{"is forbidden", "must have cluster-admin privileges to use the aggregationRule"}
	case verb == "bind":
		return []string{t.ResourceNames[0], "was rejected"}
	case len(t.verbs) > 1:
		return []string{"is forbidden", resources}
	default:
		return []string{"is forbidden", "cannot " + verb + " " + resources}
	}
}

// try revokes a permission, waits for the report, and grants the permission again.
func (l *least) try(t trial) {
	l.Helper()
	if t.trigger() == installing {
		l.uninstallAndWait()
	}
	l.revoke(t)
	l.grant(l.rules)
	if t.trigger() == removing {
		l.uninstallAndWait()
		l.recreateClusterAPI()
	}
	l.complete()
}

// revoke removes a permission and waits until the missing permission is reported.
func (l *least) revoke(t trial) {
	l.Helper()
	l.stop()
	l.grant(t.left)
	l.eventually("the permission is revoked", func() error { return l.allowed(t) })
	if reads := len(t.verbs) > 1; t.trigger() == repairing && (t.grantedByRoles() || !reads) { // a new process reads in any case
		l.causeDrift(t)
	}
	mark := len(l.log.lines())
	l.start("4.22.0")
	switch t.trigger() {
	case installing:
		l.recreateClusterAPI()
	case removing:
		l.uninstallNow()
	}
	l.eventually(fmt.Sprintf("the status has the messages %q", t.wantMessages()), func() error { return l.reported(t, mark) })
}

// recreateClusterAPI creates the ClusterAPI object, and no other object of the release.
func (l *least) recreateClusterAPI() {
	l.Helper()
	objects, err := manifests.Objects()
	l.must(err)
	for _, object := range objects {
		if object.GetKind() == "ClusterAPI" {
			l.must(l.Create(l.Context(), object))
		}
	}
}

func (l *least) uninstallNow() {
	l.Helper()
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Name = v1alpha1.ClusterAPIName
	l.must(client.IgnoreNotFound(l.Delete(l.Context(), cluster)))
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

// uninstallAndWait uninstalls all versions and waits until no object exists.
func (l *least) uninstallAndWait() {
	l.Helper()
	l.uninstallNow()
	l.clusterAPIGone()
}

// allowed returns an error while the installer has the permission of the trial.
func (l *least) allowed(t trial) error {
	attributes := &authorizationv1.ResourceAttributes{Namespace: t.Namespace, Group: t.APIGroups[0], Resource: t.Resources[0], Verb: t.verbs[0]}
	attributes.Resource, attributes.Subresource, _ = strings.Cut(attributes.Resource, "/")
	if len(t.ResourceNames) > 0 {
		attributes.Name = t.ResourceNames[0]
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	if err := l.self.Create(l.Context(), review); err != nil || review.Status.Allowed {
		return fmt.Errorf("%+v is allowed: %w", attributes, err)
	}
	return nil
}

// reported returns an error until the missing permission is reported: in a condition, or
// in the log if the ClusterAPI object is deleted.
func (l *least) reported(t trial, mark int) error {
	texts := l.log.lines()[mark:]
	if t.trigger() != removing {
		l.touch()
		texts = []string{l.conditions()}
	}
	for _, text := range texts {
		plain := strings.ReplaceAll(text, `\`, "") // the log escapes quotation marks
		if !slices.ContainsFunc(t.wantMessages(), func(part string) bool { return !regexp.MustCompile(part).MatchString(plain) }) {
			return nil
		}
	}
	return fmt.Errorf("not found in %d texts", len(texts))
}

// edited is the label that the trials modify; every object of Cluster API's providers has it.
const edited = "cluster.x-k8s.io/provider"

// causeDrift modifies or deletes installed objects, so that the installer needs the
// permission to revert it.
func (l *least) causeDrift(t trial) {
	l.Helper()
	disturbed := 0
	for _, object := range l.objects {
		if !t.disturbs(object) {
			continue
		}
		disturbed++
		switch verb := t.verbs[0]; {
		case t.grantedByRoles():
			l.must(l.Delete(l.Context(), object.DeepCopy()))
		case verb == "patch":
			patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: "edited"}}}`, edited)
			l.must(l.Patch(l.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
		case verb == "get": // a colliding object with the annotation for adoption
			l.must(l.Delete(l.Context(), object.DeepCopy()))
			offered := object.DeepCopy()
			offered.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
			l.eventually("the object is recreated", func() error { return l.Create(l.Context(), offered) })
		default:
			l.must(l.Delete(l.Context(), object.DeepCopy()))
		}
	}
	if disturbed == 0 {
		l.Fatalf("no object found to modify for %s", t)
	}
}

// disturbs reports whether a trial modifies or deletes an object.
func (t trial) disturbs(object *unstructured.Unstructured) bool {
	guessed, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	ofKind := guessed.Group == t.APIGroups[0] && guessed.Resource == t.Resources[0]
	switch {
	case object.GetNamespace() != t.Namespace && (t.verbs[0] != "bind" || object.GetNamespace() != ""):
		return false
	case t.grantedByRoles():
		return object.GetKind() == map[bool]string{true: "ClusterRole", false: "Role"}[t.Namespace == ""]
	case t.verbs[0] == "escalate":
		return object.Object["aggregationRule"] != nil
	case t.verbs[0] == "bind": // both, else the installer has the role's rules
		bound, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		return bound == t.ResourceNames[0] || ofKind && object.GetName() == t.ResourceNames[0]
	case len(t.ResourceNames) > 0:
		return ofKind && object.GetName() == t.ResourceNames[0]
	default:
		return ofKind
	}
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

// sample returns one trial of each sort that is not in seen: first repairs (they
// revert drift), then removals. Removals run last because they block the
// uninstall.
func sample(all []trial, seen map[string]bool) (repairs, removals []trial) {
	for _, t := range all {
		sort := fmt.Sprint(t.Why, t.Namespace == "")
		if !t.grantedByRoles() {
			sort = fmt.Sprint(t.Why, t.verbs)
		}
		switch {
		case seen[sort]:
		case t.trigger() == repairing:
			repairs = append(repairs, t)
		case t.trigger() == removing && t.verbs[0] != "get":
			removals = append([]trial{t}, removals...) // reads precede deletions
		default:
			continue
		}
		seen[sort] = true
	}
	return repairs, removals
}

// TestLeastRole_SufficientAndMinimal installs real providers with the least role.
// Then it revokes one permission at a time and expects a report when objects are
// installed, reverted or removed. With E2E=full, it tries each verb of each rule,
// otherwise one of each sort.
func TestLeastRole_SufficientAndMinimal(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	var mutex sync.Mutex // guards seen
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
			mutex.Lock()
			tried, last := sample(trials(l.rules), seen)
			mutex.Unlock()
			if os.Getenv("E2E") == "full" {
				tried, last = trials(l.rules), nil
			}
			for _, trial := range tried {
				t.Log("TRIAL", trial)
				l.try(trial)
			}
			for _, trial := range last {
				t.Log("last trial", trial)
				l.revoke(trial)
			}
			l.grant(l.rules)
			l.uninstallAndWait()
		})
	}
}
