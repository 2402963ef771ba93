// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// least is a cluster whose installer has, beside what it has for itself, the least
// role for the providers of its release, and nothing else.
type least struct {
	*harness
	objects []*unstructured.Unstructured
	rules   []rbac.Rule
	self    client.Client // the installer's
}

const leastName = "test-least"

// newLeast releases bundles, and puts the least role in the place of the manifests' one.
func newLeast(t *testing.T, bundles ...extractor.Bundle) *least {
	t.Helper()
	l := &least{harness: newHarness(t)}
	t.Cleanup(l.restore)
	var err error
	l.self, err = client.New(l.config, client.Options{Scheme: l.Scheme()})
	l.must(err)
	l.releaseBundles(bundles)
	l.rules = rbac.Least(l.objects, rbac.Options{Held: l.takeProvidersRole()})
	l.grant(l.rules)
	return l
}

// takeProvidersRole deletes what lets the installer install whatever there is, and
// returns what it may do all the same.
func (l *least) takeProvidersRole() []rbac.Rule {
	l.Helper()
	objects, err := manifests.Objects()
	l.must(err)
	held, err := rbac.HeldBy(slices.DeleteFunc(slices.Clone(objects), ofProviders))
	l.must(err)
	for _, object := range objects {
		if ofProviders(object) {
			l.must(l.Delete(l.Context(), object))
		}
	}
	return held
}

func ofProviders(o *unstructured.Unstructured) bool { return o.GetName() == manifests.ProvidersRole }

// restore gives the installer its role back, with which the test's end uninstalls.
func (l *least) restore() {
	objects, err := manifests.Objects()
	l.must(err)
	for _, object := range objects {
		if ofProviders(object) {
			l.must(client.IgnoreAlreadyExists(l.Create(context.Background(), object)))
		}
	}
	for _, object := range rbac.RolesOf(l.rules, leastName, nil).Objects() {
		l.must(client.IgnoreNotFound(l.Delete(context.Background(), object)))
	}
}

// releaseBundles pushes images of bundles and names them in images.json.
func (l *least) releaseBundles(bundles []extractor.Bundle) {
	l.Helper()
	for i := range bundles {
		image, err := build.Pack(nil, bundles[i])
		l.must(err)
		name := bundles[i].Metadata.ProviderName
		l.images[name], err = l.registry.Push("test/"+name, image)
		l.must(err)
		bundles[i].Origin.Image = l.images[name]
	}
	l.writeImages()
	set, err := operand.Render(bundles, nil)
	l.must(err)
	for _, component := range set.Operands {
		l.objects = append(l.objects, component.Objects...)
	}
}

// grant gives the installer rules: all of those of the least role, or all but some.
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
		err := l.Create(context.Background(), object)
		if err != nil {
			there := object.DeepCopyObject().(client.Object)
			l.must(l.Get(context.Background(), key(object), there))
			object.SetResourceVersion(there.GetResourceVersion())
			l.must(l.Update(context.Background(), object))
		}
	}
}

// trial takes one thing from the role, and has the installer do what it needs that for.
type trial struct {
	rbac.Rule
	verbs []string
	left  []rbac.Rule
}

// trials are one for each verb of each rule. "list" and "watch" go together: with
// either of them a client finds a way to read a kind, if not a good one.
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

// held says whether the rule is there because roles grant it.
func (t trial) held() bool { return strings.HasPrefix(t.Why, "roles of the set grant it") }

// way is what makes the installer need a permission.
type way int

const (
	repairing way = iota
	installing
	removing
)

// way tells it of a trial. Nobody but the installer may delete a CRD that it manages.
func (t trial) way() way {
	ofCRDs := slices.Contains(t.Resources, "customresourcedefinitions")
	switch verb := t.verbs[0]; {
	case t.held():
		return repairing
	case verb == "delete", verb == "list" && len(t.verbs) == 1, verb == "get" && ofCRDs:
		return removing
	case verb == "create" && ofCRDs:
		return installing
	default:
		return repairing
	}
}

// refusal is what must be told: regular expressions.
func (t trial) refusal() []string {
	resources := `resource "(` + strings.Join(t.Resources, "|") + `)"`
	switch verb := t.verbs[0]; {
	case t.held():
		return []string{"is forbidden", "attempting to grant RBAC permissions not currently held"}
	case verb == "escalate":
		return []string{"is forbidden", "must have cluster-admin privileges to use the aggregationRule"}
	case verb == "bind":
		return []string{t.ResourceNames[0], "cannot be written"}
	case len(t.verbs) > 1:
		return []string{"is forbidden", resources}
	default:
		return []string{"is forbidden", "cannot " + verb + " " + resources}
	}
}

// try takes a permission away, sees the refusal, and gives the permission back.
func (l *least) try(t trial) {
	l.Helper()
	if t.way() == installing {
		l.gone()
	}
	l.refuse(t)
	l.grant(l.rules)
	if t.way() == removing {
		l.gone()
		l.installAgain()
	}
	l.complete()
}

// refuse takes a permission away, and waits until it is told that it is missing.
func (l *least) refuse(t trial) {
	l.Helper()
	l.stop()
	l.grant(t.left)
	l.eventually("the permission is taken away", func() error { return l.allowed(t) })
	if reads := len(t.verbs) > 1; t.way() == repairing && (t.held() || !reads) { // a new installer reads anyway
		l.disturb(t)
	}
	mark := len(l.log.lines())
	l.start("4.22.0")
	switch t.way() {
	case installing:
		l.installAgain()
	case removing:
		l.uninstallNow()
	}
	l.eventually(fmt.Sprintf("this is told: %q", t.refusal()), func() error { return l.told(t, mark) })
}

// installAgain makes the ClusterAPI object anew, and nothing else of the release.
func (l *least) installAgain() {
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

// complete waits until all is installed.
func (l *least) complete() {
	l.Helper()
	l.eventually("everything is installed", func() error {
		l.touch()
		s := l.clusterAPI().Status
		if s.CurrentVersion == "" || !s.Settled() || len(s.Versions) != 1 || !meta.IsStatusConditionFalse(s.Conditions, "Degraded") {
			return fmt.Errorf("current %q, desired %q", s.CurrentVersion, s.DesiredVersion)
		}
		for _, object := range l.objects {
			kind := object.GroupVersionKind()
			there := l.object(kind.GroupVersion().String()+"/"+kind.Kind, object.GetNamespace(), object.GetName())
			if there == nil || there.GetLabels()[edited] != object.GetLabels()[edited] || there.GetAnnotations()[v1alpha1.OwnersAnnotation] == "" {
				return fmt.Errorf("%s %s is not as it should be", kind.Kind, object.GetName())
			}
		}
		return nil
	})
}

// gone has everything uninstalled, and waits for it.
func (l *least) gone() {
	l.Helper()
	l.uninstallNow()
	l.eventually("everything is uninstalled", func() error {
		if names := l.names(); len(names) > 0 {
			return fmt.Errorf("left: %v", names)
		}
		if l.object("v1/ConfigMap", v1alpha1.OperatorNamespace, "4.22.0-1") != nil {
			return fmt.Errorf("the version is left")
		}
		return nil
	})
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

// told returns an error until the refusal is told: in a condition, or in the log where
// the object goes that has the conditions.
func (l *least) told(t trial, mark int) error {
	texts := l.log.lines()[mark:]
	if t.way() != removing {
		l.touch()
		texts = []string{l.conditions()}
	}
	for _, text := range texts {
		plain := strings.ReplaceAll(text, `\`, "") // the log quotes quotes
		if !slices.ContainsFunc(t.refusal(), func(part string) bool { return !regexp.MustCompile(part).MatchString(plain) }) {
			return nil
		}
	}
	return fmt.Errorf("it is not in %d texts", len(texts))
}

// edited is the label that the trials edit; every object of Cluster API's providers has it.
const edited = "cluster.x-k8s.io/provider"

// disturb does to installed objects what the installer needs the permission to put right.
func (l *least) disturb(t trial) {
	l.Helper()
	disturbed := 0
	for _, object := range l.objects {
		if !t.concerns(object) {
			continue
		}
		disturbed++
		switch verb := t.verbs[0]; {
		case t.held():
			l.must(l.Delete(l.Context(), object.DeepCopy()))
		case verb == "patch":
			patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: "edited"}}}`, edited)
			l.must(l.Patch(l.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, patch)))
		case verb == "get": // it is in the way, and offered
			l.must(l.Delete(l.Context(), object.DeepCopy()))
			offered := object.DeepCopy()
			offered.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
			l.eventually("the object is there again", func() error { return l.Create(l.Context(), offered) })
		default:
			l.must(l.Delete(l.Context(), object.DeepCopy()))
		}
	}
	if disturbed == 0 {
		l.Fatalf("no object is there to disturb for %s", t)
	}
}

// concerns says whether a trial disturbs an object.
func (t trial) concerns(object *unstructured.Unstructured) bool {
	guessed, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	ofKind := guessed.Group == t.APIGroups[0] && guessed.Resource == t.Resources[0]
	switch {
	case object.GetNamespace() != t.Namespace && (t.verbs[0] != "bind" || object.GetNamespace() != ""):
		return false
	case t.held():
		return object.GetKind() == map[bool]string{true: "ClusterRole", false: "Role"}[t.Namespace == ""]
	case t.verbs[0] == "escalate":
		return object.Object["aggregationRule"] != nil
	case t.verbs[0] == "bind": // both, or else the role's rules are held
		bound, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
		return bound == t.ResourceNames[0] || ofKind && object.GetName() == t.ResourceNames[0]
	case len(t.ResourceNames) > 0:
		return ofKind && object.GetName() == t.ResourceNames[0]
	default:
		return ofKind
	}
}

// realBundle is the bundle of a provider as its project releases it.
func realBundle(t *testing.T, name string) extractor.Bundle {
	t.Helper()
	providers, err := fixture.Providers(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(providers, func(p fixture.Provider) bool { return p.Name == name })
	if at < 0 {
		t.Fatalf("there is no provider %s", name)
	}
	p := providers[at]
	bundle, _, err := build.Generate(build.GenerateOptions{
		Dir: p.Kustomization, ProviderName: p.Name, ProviderType: p.Type, ProviderVersion: p.Version, OCPPlatform: p.Platform, ImageName: p.ImageName,
	})
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// sample are trials of each sort that is not among seen: those that put something
// right, and those that keep the removal from going on, which are for the end.
func sample(all []trial, seen map[string]bool) (repairs, removals []trial) {
	for _, t := range all {
		sort := fmt.Sprint(t.Why, t.Namespace == "")
		if !t.held() {
			sort = fmt.Sprint(t.Why, t.verbs)
		}
		switch {
		case seen[sort]:
		case t.way() == repairing:
			repairs = append(repairs, t)
		case t.way() == removing && t.verbs[0] != "get":
			removals = append([]trial{t}, removals...) // what is looked at before anything is deleted comes first
		default:
			continue
		}
		seen[sort] = true
	}
	return repairs, removals
}

// TestTheLeastRoleIsEnoughAndNothingInItIsTooMuch installs real providers with the
// least role. Then one permission after the other is taken away, and is missing: when
// something is installed, was edited or deleted, or is removed. With E2E=full it is each
// verb of each rule, else one of every sort.
func TestTheLeastRoleIsEnoughAndNothingInItIsTooMuch(t *testing.T) {
	seen := map[string]bool{}
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
			tried, last := sample(trials(l.rules), seen)
			if os.Getenv("E2E") == "full" {
				tried, last = trials(l.rules), nil
			}
			for _, trial := range tried {
				t.Log("TRIAL", trial)
				l.try(trial)
			}
			for _, trial := range last {
				t.Log("LAST TRIAL", trial)
				l.refuse(trial)
			}
			l.grant(l.rules)
			l.gone()
		})
	}
}
