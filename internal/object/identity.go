// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Identity identifies an object in a cluster. It has no API version, because the
// API server serves the same object in several versions.
type Identity struct {
	schema.GroupKind
	Namespace, Name string
}

// IdentityOf returns the identity of an object.
func IdentityOf(o Object) Identity {
	kind := GroupKind(o)
	if unstructured, ok := o.(interface{ GetKind() string }); ok {
		kind.Kind = unstructured.GetKind() // also if apiVersion is invalid
	}
	return Identity{GroupKind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// String returns the kind, namespace and name as messages show them:
// "Deployment openshift-cluster-api/capa-controller-manager".
func (i Identity) String() string {
	name := i.Name
	if name != "" && i.Namespace != "" {
		name = i.Namespace + "/" + name
	}
	switch {
	case i.Kind == "":
		return name
	case name == "":
		return i.Kind
	default:
		return i.Kind + " " + name
	}
}

// Describe returns the kind, namespace and name of an object for messages.
func Describe(o Object) string { return IdentityOf(o).String() }

// AsRead returns the preconditions that reject the deletion of an object that was replaced or changed since it was read.
func AsRead(o metav1.Object) metav1.Preconditions {
	return metav1.Preconditions{UID: new(o.GetUID()), ResourceVersion: new(o.GetResourceVersion())}
}

// Duplicates returns an identity for each object whose identity an earlier object
// has, in order.
func Duplicates[O Object](objects []O) []Identity {
	var duplicates []Identity
	seen := map[Identity]bool{}
	for _, o := range objects {
		identity := IdentityOf(o)
		if seen[identity] {
			duplicates = append(duplicates, identity)
		}
		seen[identity] = true
	}
	return duplicates
}

// CheckUnique returns an error for each object whose identity an earlier object
// has.
func CheckUnique[O Object](objects []O) []error {
	var errs []error
	for _, duplicate := range Duplicates(objects) {
		errs = append(errs, fmt.Errorf("%s is defined more than once", duplicate))
	}
	return errs
}
