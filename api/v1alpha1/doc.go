// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of the installer: the ClusterAPI object, by which
// an administrator steers it and on which it reports, and the names that it
// writes on other objects.
//
// +kubebuilder:object:generate=true
// +groupName=capi-operator.openshift.io
package v1alpha1
