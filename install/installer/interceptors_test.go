// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// webhook returns a webhook configuration.
func webhook(name string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	out.SetName(name)
	return out
}

// Only a version that was superseded before it was complete loses objects that intercept requests: those that the API server shows as its
// own, and that the current version does not have.
func TestDisarm(t *testing.T) {
	var versions []v1alpha1.Version
	var configMaps []corev1.ConfigMap
	store := func(name string, objects ...*unstructured.Unstructured) {
		version, configMap := storedVersion(t, name, objects...)
		versions, configMaps = append(versions, version), append(configMaps, configMap)
	}
	store("4.22.0-2", webhook("shared"))
	store("4.22.0-1", webhook("older"))
	store("4.22.0-3", webhook("shared"), webhook("own"), webhook("adopted"), webhook("absent"), settings("settings", "red"))
	store("4.22.0-4", webhook("desired"))
	own := func(version, name string) client.Object { return controlledBy(t, version, webhook(name)) }
	before := []client.Object{
		own("4.22.0-3", "shared"), own("4.22.0-3", "own"), own("4.22.0-1", "older"), own("4.22.0-4", "desired"), controlledBy(t, "4.22.0-3", settings("settings", "red")),
	}
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(append(before, own("4.22.0-4", "adopted"))...).Build()
	cache := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(append(before, own("4.22.0-3", "adopted"))...).Build()
	r := reconcilerOf(t, cache, live, watches{})
	got, err := disarmer{&r.Applier, r.Live, r.Client}.disarm(t.Context(), stateOf(versions, configMaps...))
	want := disarmed{
		deleted: []string{"ValidatingWebhookConfiguration own of version 4.22.0-3"},
		shared:  []string{"kubectl delete validatingwebhookconfiguration.admissionregistration.k8s.io shared"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(disarmed{})); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	left := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := live.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range left.Items {
		names = append(names, one.Name)
	}
	if want := []string{"adopted", "desired", "older", "shared"}; !slices.Equal(names, want) {
		t.Errorf("webhooks %v are left, want %v", names, want)
	}
}

// A superseded version reverts changes of its objects, but not of those that intercept requests, because an administrator may have disabled one, nor
// of CRDs, because the next version may switch their storage version.
func TestAttempt_LeavesInterceptorsOfASupersededVersion(t *testing.T) {
	hook := func(url string) *unstructured.Unstructured {
		out := webhook("shared")
		out.Object["webhooks"] = []any{map[string]any{
			"name": "a.example.com", "clientConfig": map[string]any{"url": url}, "sideEffects": "None", "admissionReviewVersions": []any{"v1"},
		}}
		return out
	}
	colored := func(color string) *unstructured.Unstructured {
		out := settings("settings", color)
		out.SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
		return out
	}
	switched := machines()
	if err := unstructured.SetNestedField(switched.Object, "Cluster", "spec", "scope"); err != nil { // any change
		t.Fatal(err)
	}
	first, firstMap := storedVersion(t, "4.22.0-1", colored("blue"))
	stuck, stuckMap := storedVersion(t, "4.22.0-2", hook("https://dead.example.com"), colored("red"), machines())
	next, nextMap := storedVersion(t, "4.22.0-3", settings("other", "red"))
	changed := []*unstructured.Unstructured{controlledBy(t, "4.22.0-2", hook("https://sound.example.com")), controlledBy(t, "4.22.0-2", colored("green")), controlledBy(t, "4.22.0-2", switched)}
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(clusterScheme(t))).WithObjects(changed[0], changed[1], changed[2]).Build()
	s := stateOf([]v1alpha1.Version{first, stuck, next}, firstMap, stuckMap, nextMap)
	v, err := s.load(stuck)
	if err != nil {
		t.Fatal(err)
	}
	r := reconcilerOf(t, live, live, watches{})
	if a := r.Applier.attempt(t.Context(), s, v, time.Time{}, time.Now()); a.err != nil {
		t.Fatal(a.err)
	}
	read := func(like *unstructured.Unstructured) *unstructured.Unstructured {
		out := like.DeepCopy()
		if err := live.Get(t.Context(), client.ObjectKeyFromObject(like), out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := object.TextAt(read(changed[1]).Object, "data", "color"); got != "red" {
		t.Errorf("the ConfigMap is %s, want red", got)
	}
	if got := object.TextAt(object.MapsAt(read(changed[0]).Object, "webhooks")[0], "clientConfig", "url"); got != "https://sound.example.com" {
		t.Errorf("the webhook has URL %s, want the change", got)
	}
	if got := object.TextAt(read(changed[2]).Object, "spec", "scope"); got != "Cluster" {
		t.Errorf("the CRD has scope %s, want the change", got)
	}
}

// A version that is being rolled out, and one that is complete, keep everything. Without superseded versions, nothing is read.
func TestDisarm_NothingSuperseded(t *testing.T) {
	for _, names := range [][]string{{"4.22.0-1"}, {"4.22.0-1", "4.22.0-2"}, {"4.22.0-2", "4.22.0-1", "4.22.0-2"}} {
		var versions []v1alpha1.Version
		for _, name := range names {
			version, _ := storedVersion(t, name, webhook("own"))
			versions = append(versions, version)
		}
		got, err := disarmer{}.disarm(t.Context(), stateOf(versions)) // would panic with a read
		if err != nil || got.deleted != nil || got.shared != nil {
			t.Errorf("%v: %v, %v", names, got, err)
		}
	}
}

// The command is added to an error, and to nothing else.
func TestDisarmed_Explain(t *testing.T) {
	found := disarmed{shared: []string{"kubectl delete a"}}
	failed, waits := status.Outcome{Reason: reason.ApplyFailed, Err: errors.New("down")}, status.Outcome{Reason: reason.RollingOut, Message: "waiting"}
	if got := found.explain(failed); got.Err == nil || got.Err.Error() != "down; if a webhook or a policy of a version that was never complete rejects the requests, delete it; the installer creates it again: kubectl delete a" {
		t.Errorf("got %v", got.Err)
	}
	if got := found.explain(waits); got.Err != nil || got.Message != "waiting" {
		t.Errorf("got %v", got)
	}
	if got := (disarmed{}).explain(failed); got.Err.Error() != "down" {
		t.Errorf("got %v", got.Err)
	}
}
