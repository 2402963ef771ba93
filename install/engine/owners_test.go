// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// A version that adopts an object replaces the previous one; other owners stay.
func TestOwners_ReleaseController(t *testing.T) {
	owners := NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}}
	object := &corev1.ConfigMap{}
	for _, err := range []error{owners.SetOwnerReference(other, object), owners.SetControllerReference(owners.ownerOf("4.22.0-1"), object)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	owners.ReleaseController(object)
	if owners.IsOwner(owners.ownerOf("4.22.0-1"), object) || !owners.IsOwner(other, object) {
		t.Errorf("owners are %s, want only other", object.Annotations[v1alpha1.OwnersAnnotation])
	}
	if err := owners.SetControllerReference(other, object); err != nil {
		t.Fatal(err)
	}
	owners.ReleaseController(object)
	if _, found := owners.GetController(object); found || !owners.IsOwner(other, object) {
		t.Errorf("owners are %s, want other, not as the controller", object.Annotations[v1alpha1.OwnersAnnotation])
	}
	if strings.Contains(object.Annotations[v1alpha1.OwnersAnnotation], "controller") {
		t.Errorf("the annotation has a controller: %s", object.Annotations[v1alpha1.OwnersAnnotation])
	}
}

func TestOwners_NoEmptyList(t *testing.T) {
	owners := NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator)
	object := &corev1.ConfigMap{}
	if err := owners.SetControllerReference(owners.ownerOf("4.22.0-1"), object); err != nil {
		t.Fatal(err)
	}
	owners.RemoveOwner(owners.ownerOf("4.22.0-1"), object)
	if value, found := object.Annotations[v1alpha1.OwnersAnnotation]; found {
		t.Errorf("the annotation is %q, want none", value)
	}
}
