// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the installer: the ClusterAPI object, with its
// configuration and status, and the labels and annotations that the installer
// writes on other objects.
//
// +kubebuilder:object:generate=true
// +groupName=capi-operator.openshift.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: Prefix, Version: "v1alpha1"}

// AddToScheme registers the kinds of this package in a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ClusterAPI{}, &ClusterAPIList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
