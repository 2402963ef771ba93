// SPDX-License-Identifier: Apache-2.0

package ownerhandling

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const testKey = "example.com/owners"

// strategy is the common part of both owner strategies.
type strategy interface {
	GetController(obj metav1.Object) (metav1.OwnerReference, bool)
	CopyOwnerReferences(objA, objB metav1.Object)
	SetOwnerReference(owner, obj metav1.Object) error
	SetControllerReference(owner, obj metav1.Object) error
	IsOwner(owner, obj metav1.Object) bool
	IsController(owner, obj metav1.Object) bool
	RemoveOwner(owner, obj metav1.Object)
	ReleaseController(obj metav1.Object)
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, corev1.AddToScheme(scheme))
	return scheme
}

func strategies(t *testing.T) map[string]strategy {
	scheme := testScheme(t)
	return map[string]strategy{
		"native":     NewNative(scheme),
		"annotation": NewAnnotation(scheme, testKey),
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns", UID: types.UID("uid-of-" + name),
	}}
}

// forEachStrategy runs a test with both owner strategies.
func forEachStrategy(t *testing.T, name string, test func(t *testing.T, s strategy)) {
	t.Helper()
	for kind, s := range strategies(t) {
		t.Run(kind+": "+name, func(t *testing.T) { test(t, s) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type standing struct{ Owner, Controller bool }

func standingOf(s strategy, owner, obj metav1.Object) standing {
	return standing{Owner: s.IsOwner(owner, obj), Controller: s.IsController(owner, obj)}
}

func TestOwnerStrategy_Contract(t *testing.T) {
	forEachStrategy(t, "an object without owners has no controller", func(t *testing.T, s strategy) {
		obj, owner := configMap("obj"), configMap("owner")
		if ref, ok := s.GetController(obj); ok {
			t.Errorf("controller: %v, want none", ref)
		}
		if got := standingOf(s, owner, obj); got != (standing{}) {
			t.Errorf("got %+v, want neither owner nor controller", got)
		}
	})

	forEachStrategy(t, "a controller is also an owner", func(t *testing.T, s strategy) {
		obj, owner := configMap("obj"), configMap("owner")
		must(t, s.SetControllerReference(owner, obj))
		if got := standingOf(s, owner, obj); got != (standing{Owner: true, Controller: true}) {
			t.Errorf("got %+v, want owner and controller", got)
		}
		ref, ok := s.GetController(obj)
		if !ok || ref.Kind != "ConfigMap" || ref.APIVersion != "v1" || ref.Name != "owner" || ref.UID != "uid-of-owner" {
			t.Errorf("controller is %+v, %v", ref, ok)
		}
		if ref.Controller == nil || !*ref.Controller {
			t.Error("the controller's reference does not have controller: true")
		}
	})

	forEachStrategy(t, "an owner is not necessarily the controller", func(t *testing.T, s strategy) {
		obj, owner := configMap("obj"), configMap("owner")
		must(t, s.SetOwnerReference(owner, obj))
		if got := standingOf(s, owner, obj); got != (standing{Owner: true}) {
			t.Errorf("got %+v, want owner only", got)
		}
	})

	forEachStrategy(t, "an owner can become the controller", func(t *testing.T, s strategy) {
		obj, owner := configMap("obj"), configMap("owner")
		must(t, s.SetOwnerReference(owner, obj))
		must(t, s.SetControllerReference(owner, obj))
		if got := standingOf(s, owner, obj); got != (standing{Owner: true, Controller: true}) {
			t.Errorf("got %+v, want owner and controller", got)
		}
		s.RemoveOwner(owner, obj)
		if got := standingOf(s, owner, obj); got != (standing{}) {
			t.Errorf("after one removal got %+v, want nothing, because one reference replaced the other", got)
		}
	})

	forEachStrategy(t, "a second controller is rejected and changes nothing", func(t *testing.T, s strategy) {
		obj := configMap("obj")
		must(t, s.SetControllerReference(configMap("first"), obj))
		before := obj.DeepCopy()
		err := s.SetControllerReference(configMap("second"), obj)
		owned, ok := errors.AsType[*controllerutil.AlreadyOwnedError](err)
		if !ok {
			t.Fatalf("got error %v, want *AlreadyOwnedError", err)
		}
		if owned.Owner.Name != "first" || owned.Object != metav1.Object(obj) {
			t.Errorf("the error has owner %q of %v", owned.Owner.Name, owned.Object.GetName())
		}
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Errorf("the object changed (-before +after):\n%s", diff)
		}
	})

	forEachStrategy(t, "a released object retains its owners and can get another controller", func(t *testing.T, s strategy) {
		obj, first, second := configMap("obj"), configMap("first"), configMap("second")
		must(t, s.SetControllerReference(first, obj))
		s.ReleaseController(obj)
		if _, ok := s.GetController(obj); ok {
			t.Error("the object still has a controller")
		}
		must(t, s.SetControllerReference(second, obj))
		if got := standingOf(s, first, obj); got != (standing{Owner: true}) {
			t.Errorf("first: got %+v, want owner only", got)
		}
		if got := standingOf(s, second, obj); got != (standing{Owner: true, Controller: true}) {
			t.Errorf("second: got %+v, want owner and controller", got)
		}
	})

	forEachStrategy(t, "removing one owner leaves the others", func(t *testing.T, s strategy) {
		obj, first, second := configMap("obj"), configMap("first"), configMap("second")
		must(t, s.SetControllerReference(first, obj))
		must(t, s.SetOwnerReference(second, obj))
		s.RemoveOwner(first, obj)
		if got := standingOf(s, first, obj); got != (standing{}) {
			t.Errorf("first: got %+v, want nothing", got)
		}
		if got := standingOf(s, second, obj); got != (standing{Owner: true}) {
			t.Errorf("second: got %+v, want owner only", got)
		}
	})

	forEachStrategy(t, "copied owners replace existing ones, and are independent", func(t *testing.T, s strategy) {
		from, to, first, second := configMap("from"), configMap("to"), configMap("first"), configMap("second")
		must(t, s.SetControllerReference(first, from))
		must(t, s.SetControllerReference(second, to))
		s.CopyOwnerReferences(from, to)
		if got := standingOf(s, first, to); got != (standing{Owner: true, Controller: true}) {
			t.Errorf("first: got %+v, want owner and controller", got)
		}
		if got := standingOf(s, second, to); got != (standing{}) {
			t.Errorf("second: got %+v, want nothing", got)
		}
		s.ReleaseController(to)
		if !s.IsController(first, from) {
			t.Error("the release of the copy changed the original")
		}
	})

	forEachStrategy(t, "a copy from an object without owners removes all owners", func(t *testing.T, s strategy) {
		from, to := configMap("from"), configMap("to")
		must(t, s.SetControllerReference(configMap("owner"), to))
		s.CopyOwnerReferences(from, to)
		if diff := cmp.Diff(configMap("to").OwnerReferences, to.OwnerReferences); diff != "" {
			t.Errorf("remaining owner references:\n%s", diff)
		}
		if _, ok := to.Annotations[testKey]; ok {
			t.Errorf("remaining annotation: %q", to.Annotations[testKey])
		}
	})

	forEachStrategy(t, "an object recreated under the same name is another owner", func(t *testing.T, s strategy) {
		obj, owner := configMap("obj"), configMap("owner")
		must(t, s.SetControllerReference(owner, obj))
		recreated := owner.DeepCopy()
		recreated.UID = "another"
		if got := standingOf(s, recreated, obj); got != (standing{}) {
			t.Errorf("got %+v, want nothing", got)
		}
	})

	forEachStrategy(t, "the version of the owner's kind does not matter", func(t *testing.T, s strategy) {
		obj := configMap("obj")
		old, current := widget("v1beta1"), widget("v1")
		must(t, s.SetControllerReference(old, obj))
		if got := standingOf(s, current, obj); got != (standing{Owner: true, Controller: true}) {
			t.Errorf("got %+v, want owner and controller", got)
		}
		must(t, s.SetControllerReference(current, obj))
		if ref, _ := s.GetController(obj); ref.APIVersion != "example.com/v1" {
			t.Errorf("apiVersion is %q, want the one of the last write", ref.APIVersion)
		}
	})

	forEachStrategy(t, "an owner of another kind with the same name is another owner", func(t *testing.T, s strategy) {
		obj, owner := configMap("obj"), configMap("owner")
		must(t, s.SetControllerReference(owner, obj))
		secret := &corev1.Secret{ObjectMeta: owner.ObjectMeta}
		if got := standingOf(s, secret, obj); got != (standing{}) {
			t.Errorf("got %+v, want nothing", got)
		}
	})

	forEachStrategy(t, "an owner of unknown kind cannot be set but is recognized by its UID", func(t *testing.T, s strategy) {
		obj := configMap("obj")
		must(t, s.SetControllerReference(widget("v1"), obj))
		stranger := &unregistered{ObjectMeta: metav1.ObjectMeta{Name: "widget", Namespace: "ns", UID: "uid-of-widget"}}
		if err := s.SetControllerReference(stranger, obj); err == nil {
			t.Error("the call succeeded")
		}
		if got := standingOf(s, stranger, obj); got != (standing{Owner: true, Controller: true}) {
			t.Errorf("got %+v, want owner and controller", got)
		}
		stranger.UID = ""
		if got := standingOf(s, stranger, obj); got != (standing{}) {
			t.Errorf("without UID got %+v, want nothing", got)
		}
	})
}

// widget is an owner that sets its own kind.
func widget(version string) *metav1.PartialObjectMetadata {
	w := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "widget", Namespace: "ns", UID: "uid-of-widget",
	}}
	w.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"})
	return w
}

// unregistered is a type that is not in any scheme of these tests.
type unregistered struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (u *unregistered) DeepCopyObject() runtime.Object {
	out := *u
	u.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func TestNative_BlocksOwnerDeletion(t *testing.T) {
	obj := configMap("obj")
	must(t, NewNative(testScheme(t)).SetControllerReference(configMap("owner"), obj))
	want := []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "uid-of-owner",
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	equal(t, "owner references", want, obj.OwnerReferences)
}

func TestNative_RejectsOwnerInOtherNamespace(t *testing.T) {
	obj, owner := configMap("obj"), configMap("owner")
	owner.Namespace = "elsewhere"
	if err := NewNative(testScheme(t)).SetControllerReference(owner, obj); err == nil {
		t.Error("the garbage collector would delete the object")
	}
}

func TestAnnotation_Format(t *testing.T) {
	s := NewAnnotation(testScheme(t), testKey)
	obj, owner := configMap("obj"), configMap("controller")
	obj.Annotations = map[string]string{"other": "kept"}
	owner.Namespace = "elsewhere"
	must(t, s.SetOwnerReference(configMap("owner"), obj))
	must(t, s.SetControllerReference(owner, obj))
	want := map[string]string{
		"other": "kept",
		testKey: `[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","namespace":"ns","uid":"uid-of-owner"},` +
			`{"apiVersion":"v1","kind":"ConfigMap","name":"controller","namespace":"elsewhere","uid":"uid-of-controller","controller":true}]`,
	}
	equal(t, "annotations", want, obj.Annotations)
	s.RemoveOwner(owner, obj)
	s.RemoveOwner(configMap("owner"), obj)
	equal(t, "annotations without owners", map[string]string{"other": "kept", testKey: "[]"}, obj.Annotations)
}

func TestAnnotation_CopyDoesNotChangeOriginal(t *testing.T) {
	s := NewAnnotation(testScheme(t), testKey)
	obj := configMap("obj")
	obj.Annotations = map[string]string{"other": "kept"}
	shallow := *obj
	must(t, s.SetControllerReference(configMap("owner"), &shallow))
	equal(t, "annotations of the original", map[string]string{"other": "kept"}, obj.Annotations)
}

func TestAnnotation_Malformed(t *testing.T) {
	for _, value := range []string{"{", `{"kind":"ConfigMap"}`, `["owner"]`, `[{"uid":1}]`, "null null", "\x00"} {
		t.Run(value, func(t *testing.T) {
			s := NewAnnotation(testScheme(t), testKey)
			obj, owner := configMap("obj"), configMap("owner")
			obj.Annotations = map[string]string{testKey: value}

			for name, set := range map[string]func(owner, obj metav1.Object) error{
				"SetOwnerReference": s.SetOwnerReference, "SetControllerReference": s.SetControllerReference,
			} {
				malformed, ok := errors.AsType[*MalformedAnnotationError](set(owner, obj))
				if !ok {
					t.Fatalf("%s: want *MalformedAnnotationError", name)
				}
				if malformed.Key != testKey || malformed.Object.String() != "ns/obj" || malformed.Err == nil {
					t.Errorf("%s: the error does not name the object: %+v", name, malformed)
				}
			}
			if _, ok := s.GetController(obj); ok {
				t.Error("the object has a controller")
			}
			if got := standingOf(s, owner, obj); got != (standing{}) {
				t.Errorf("got %+v, want neither owner nor controller", got)
			}
			s.RemoveOwner(owner, obj)
			s.ReleaseController(obj)
			if got := obj.Annotations[testKey]; got != value {
				t.Errorf("the annotation is %q, want it unchanged", got)
			}
			other := configMap("other")
			s.CopyOwnerReferences(obj, other)
			if got := other.Annotations[testKey]; got != value {
				t.Errorf("the copy is %q, want the original text", got)
			}
		})
	}
}

func FuzzNoAnnotationPanics(f *testing.F) {
	for _, seed := range []string{"", "[]", "null", "[null]", `[{"controller":true}]`, `[{"apiVersion":"a/b/c"}]`, "{"} {
		f.Add(seed)
	}
	scheme := runtime.NewScheme()
	_ = corev1.AddToScheme(scheme)
	s := NewAnnotation(scheme, testKey)
	f.Fuzz(func(t *testing.T, value string) {
		obj, owner := configMap("obj"), configMap("owner")
		obj.Annotations = map[string]string{testKey: value}
		s.IsOwner(owner, obj)
		s.ReleaseController(obj)
		if err := s.SetControllerReference(owner, obj); err == nil && !s.IsController(owner, obj) {
			t.Errorf("%q: set, but not the controller", value)
		}
	})
}

// equal fails the test unless two values are equal.
func equal(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
