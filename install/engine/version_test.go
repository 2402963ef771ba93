// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// Only a version of this installation that controls an object counts.
func TestVersion(t *testing.T) {
	const owner = `{"apiVersion":"v1","kind":%q,"name":"4.22.0-1","namespace":%q,"uid":%q,"controller":%t}`
	for name, test := range map[string]struct{ annotation, want string }{
		"a version":                        {fmt.Sprintf(owner, "ConfigMap", v1alpha1.OperatorNamespace, "revision-4.22.0-1", true), "4.22.0-1"},
		"an owner that is no controller":   {fmt.Sprintf(owner, "ConfigMap", v1alpha1.OperatorNamespace, "revision-4.22.0-1", false), ""},
		"a version in another namespace":   {fmt.Sprintf(owner, "ConfigMap", "elsewhere", "revision-4.22.0-1", true), ""},
		"a ConfigMap that is no version":   {fmt.Sprintf(owner, "ConfigMap", v1alpha1.OperatorNamespace, "1234", true), ""},
		"another kind":                     {fmt.Sprintf(owner, "Secret", v1alpha1.OperatorNamespace, "revision-4.22.0-1", true), ""},
		"an owner that is not the version": {fmt.Sprintf(owner, "ConfigMap", v1alpha1.OperatorNamespace, "revision-4.22.0-2", true), ""},
	} {
		obj := &corev1.ConfigMap{}
		obj.Annotations = map[string]string{v1alpha1.OwnersAnnotation: "[" + test.annotation + "]"}
		if got := Version(obj); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	malformed := &corev1.ConfigMap{}
	malformed.Annotations = map[string]string{v1alpha1.OwnersAnnotation: "x"}
	if got := Version(malformed) + Version(&corev1.ConfigMap{}); got != "" {
		t.Errorf("got %q without owners", got)
	}
}

// Objects are deleted in the opposite order.
func TestReversed(t *testing.T) {
	phase := phaseOfTwo()
	if got := reversed(phase).Objects; got[0].GetName() != "b" || got[1].GetName() != "a" {
		t.Errorf("got %s before %s", got[0].GetName(), got[1].GetName())
	}
	if phase.Objects[0].GetName() != "a" {
		t.Error("the argument is changed")
	}
}

func phaseOfTwo() revision.Phase {
	return revision.Phase{Name: "core", Objects: []*unstructured.Unstructured{settings("a", ""), settings("b", "")}}
}
