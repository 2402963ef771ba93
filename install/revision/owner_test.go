// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

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
