// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
)

// definition returns a CRD.
func definition(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"group": "x.io", "names": map[string]any{"kind": "Machine", "plural": "machines"}},
	}}
}

// ofColor returns a ConfigMap.
func ofColor(name, color string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"color": color},
	}}
}

// A component is inherited only with the same objects, as the same provider, and with the same unmanaged CRDs.
func TestInherit_UnchangedComponents(t *testing.T) {
	component := func(name, installedAs string, objects ...*unstructured.Unstructured) operand.Operand {
		return operand.Operand{Name: name, Type: "core", InstalledAs: installedAs, Objects: objects}
	}
	stored := operand.Set{Operands: []operand.Operand{
		component("a", "4.22.0-1", ofColor("a", "red")), component("b", "", ofColor("b", "red")), component("c", "4.22.0-1", definition("machines.x.io")),
	}}
	before := v1alpha1.Version{Name: "4.22.0-2", Revision: 2, UnmanagedCRDs: []string{"clusters.x.io"}}
	for name, test := range map[string]struct {
		before     v1alpha1.Version
		unmanaged  []string
		components []operand.Operand
		want       []string
	}{
		"the same components":       {before, nil, []operand.Operand{component("a", "", ofColor("a", "red")), component("b", "", ofColor("b", "red")), component("c", "", definition("machines.x.io"))}, []string{"4.22.0-1", "4.22.0-2", "4.22.0-1"}},
		"in another order":          {before, nil, []operand.Operand{component("b", "", ofColor("b", "red")), component("a", "", ofColor("a", "red"))}, []string{"4.22.0-2", "4.22.0-1"}},
		"a changed one":             {before, nil, []operand.Operand{component("a", "", ofColor("a", "blue")), component("b", "", ofColor("b", "red"))}, []string{"", "4.22.0-2"}},
		"with another object":       {before, nil, []operand.Operand{component("a", "", ofColor("a", "red"), ofColor("b", "red"))}, []string{""}},
		"of another name":           {before, nil, []operand.Operand{component("d", "", ofColor("a", "red"))}, []string{""}},
		"with an unmanaged CRD":     {before, []string{"machines.x.io"}, []operand.Operand{component("a", "", ofColor("a", "red")), component("c", "", definition("machines.x.io"))}, []string{"4.22.0-1", ""}},
		"of a version that adopted": {v1alpha1.Version{Name: "4.22.0-2", InstalledAs: "4.21.0-1"}, nil, []operand.Operand{component("a", "", ofColor("a", "red")), component("b", "", ofColor("b", "red"))}, []string{"4.22.0-1", "4.21.0-1"}},
	} {
		given := operand.Set{Operands: test.components}
		var got []string
		for _, component := range Inherit(given, test.unmanaged, test.before, stored).Operands {
			got = append(got, component.InstalledAs)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || given.Operands[0].InstalledAs != "" {
			t.Errorf("%s: owners (-want +got), or the argument is changed:\n%s", name, diff)
		}
	}
}

// Components change, exchange objects, appear and disappear: an object of an inherited component has its owner, because no
// version since has written it. Each part keeps its objects, so that a removed version knows them.
func TestInherit_NoObjectHasANewerOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owners, contents := map[string]string{}, map[Part]string{}
		var desired v1alpha1.Version
		var stored operand.Set
		for number := range int64(rapid.IntRange(2, 12).Draw(t, "versions")) {
			version := v1alpha1.Version{Name: fmt.Sprintf("4.22.0-%d", number+1), Revision: number + 1}
			set := Inherit(drawnSet(t), nil, desired, stored)
			version.Components = set.Components()
			phases, err := Phases(version.Name, version.Revision, set, nil)
			if err != nil {
				t.Fatal(err)
			}
			parts := PartsOf(version)
			for _, phase := range phases {
				text := phase.Name
				for _, obj := range phase.Objects {
					text += fmt.Sprint(obj.Object)
				}
				if before, known := contents[phase.Part]; known && before != text || !parts.Has(phase.Part) {
					t.Fatalf("%v has other objects than before, or is not in the status: %s, before %s", phase.Part, text, before)
				}
				contents[phase.Part] = text
				for _, obj := range phase.Objects {
					if name := obj.GetName(); phase.Owner == version.Name {
						owners[name] = version.Name
					} else if owners[name] != phase.Owner {
						t.Fatalf("%s installs %v, but %s belongs to %s", version.Name, phase.Part, name, owners[name])
					}
				}
			}
			desired, stored = version, set
		}
	})
}

// drawnSet returns a set of up to three components that divide up to four objects among them.
func drawnSet(t *rapid.T) operand.Set {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID[string]).Draw(t, "components")
	var set operand.Set
	for _, name := range names {
		set.Operands = append(set.Operands, operand.Operand{Name: name, Type: "core"})
	}
	for _, object := range []string{"w", "x", "y", "z"} {
		at := rapid.IntRange(0, len(names)).Draw(t, "component of "+object)
		if at < len(names) {
			set.Operands[at].Objects = append(set.Operands[at].Objects, ofColor(object, rapid.SampledFrom([]string{"red", "blue"}).Draw(t, "color")))
		}
	}
	return set
}

// The components of versions that an earlier program has stored have the owner of the version.
func TestPartsOf_EarlierPrograms(t *testing.T) {
	components := []v1alpha1.Component{{Name: "cluster-api", Type: "core"}, {Name: "policies"}}
	for owner, version := range map[string]v1alpha1.Version{
		"4.22.0-2": {Name: "4.22.0-2", Components: components},
		"4.22.0-1": {Name: "4.22.0-2", InstalledAs: "4.22.0-1", Components: components},
	} {
		want := sets.New(Part{owner, ""}, Part{owner, "core/cluster-api"}, Part{owner, "/policies"})
		if diff := cmp.Diff(want, PartsOf(version)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// Only a version of this installation that controls an object counts.
func TestOwner(t *testing.T) {
	const owner = `{"apiVersion":"v1","kind":%q,"name":"4.22.0-1","namespace":%q,"uid":%q,"controller":%t}`
	for name, test := range map[string]struct{ annotation, want string }{
		"a version":                        {fmt.Sprintf(owner, "ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "revision-4.22.0-1", true), "4.22.0-1"},
		"an owner that is no controller":   {fmt.Sprintf(owner, "ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "revision-4.22.0-1", false), ""},
		"a version in another namespace":   {fmt.Sprintf(owner, "ConfigMap", "elsewhere", "revision-4.22.0-1", true), ""},
		"a ConfigMap that is no version":   {fmt.Sprintf(owner, "ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "1234", true), ""},
		"another kind":                     {fmt.Sprintf(owner, "Secret", v1alpha1.OpenShiftNamespaces.Operator, "revision-4.22.0-1", true), ""},
		"an owner that is not the version": {fmt.Sprintf(owner, "ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "revision-4.22.0-2", true), ""},
	} {
		obj := &corev1.ConfigMap{}
		obj.Annotations = map[string]string{v1alpha1.OwnersAnnotation: "[" + test.annotation + "]"}
		if got := Owner(v1alpha1.OpenShiftNamespaces.Operator, obj); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	malformed := &corev1.ConfigMap{}
	malformed.Annotations = map[string]string{v1alpha1.OwnersAnnotation: "x"}
	if got := Owner(v1alpha1.OpenShiftNamespaces.Operator, malformed) + Owner(v1alpha1.OpenShiftNamespaces.Operator, &corev1.ConfigMap{}); got != "" {
		t.Errorf("got %q without owners", got)
	}
}
