// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the installer: the ClusterAPI object, with its
// configuration and status, and the labels and annotations that the installer
// writes on other objects.
//
// +kubebuilder:object:generate=true
// +groupName=capi-operator.openshift.io
package v1alpha1
