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

// Prefix is the prefix of all labels, annotations, field owners and finalizers of
// the installer, and its API group.
const Prefix = "capi-operator.openshift.io"

// Names of the installer's objects, and of the objects that have its status.
const (
	// ClusterAPIName is the name of the only ClusterAPI object.
	ClusterAPIName = "cluster"
	// ClusterOperatorName is the name of the ClusterOperator.
	ClusterOperatorName = "cluster-api"
	// ServiceAccountName is the installer's ServiceAccount in its own namespace.
	ServiceAccountName = "cluster-api-installer"
)

// Namespaces are the namespaces of an installation.
type Namespaces struct {
	// Operator is the namespace of the installer and of its revision ConfigMaps.
	Operator string
	// Operand is the namespace of the providers and of the transport ConfigMaps.
	Operand string
	// Others are further namespaces, for providers with a namespace of their own. In OpenShift there are none.
	Others []string
}

// Providers returns all namespaces of providers: first the default one.
func (n Namespaces) Providers() []string { return append([]string{n.Operand}, n.Others...) }

// The namespaces in OpenShift, and the default ones of deploy/kubernetes in any other cluster.
var (
	OpenShiftNamespaces  = Namespaces{Operator: "openshift-cluster-api-operator", Operand: "openshift-cluster-api"}
	KubernetesNamespaces = Namespaces{Operator: "capi-installer-system", Operand: "capi-system"}
)

// Labels, annotations and other metadata that the installer writes on objects.
const (
	// FieldOwner is the field manager of all fields that the installer applies.
	FieldOwner = Prefix
	// OwnersAnnotation lists the revision ConfigMaps that own an object.
	OwnersAnnotation = Prefix + "/owners"
	// RevisionLabel marks a revision ConfigMap; its value is the version's name.
	RevisionLabel = Prefix + "/revision"
	// RevisionAnnotation, on an installed object, is the number of the revision that applied it last.
	RevisionAnnotation = Prefix + "/revision"
	// RevisionPartLabel marks a ConfigMap that continues a revision ConfigMap; its value is the version's name.
	RevisionPartLabel = Prefix + "/revision-part"
	// ManifestsDigestAnnotation, on a revision ConfigMap, is the digest of the rendered objects
	// that it stores.
	ManifestsDigestAnnotation = Prefix + "/manifests-digest"
	// PartsAnnotation, on a revision ConfigMap, is the number of ConfigMaps that store the rendered
	// objects, including this one.
	PartsAnnotation = Prefix + "/parts"
	// InstalledAsAnnotation, on a revision ConfigMap, is the version that owns its objects, if that is
	// another version.
	InstalledAsAnnotation = Prefix + "/installed-as"
	// ElsewhereAnnotation, on a revision ConfigMap, lists the images, by digest, that have no bundle
	// for the cluster's platform, with the platforms of their bundles.
	ElsewhereAnnotation = Prefix + "/elsewhere"
	// TeardownFinalizer blocks the deletion of a revision ConfigMap until its objects are deleted.
	TeardownFinalizer = Prefix + "/teardown"
	// UninstallFinalizer, on the ClusterAPI object, preserves the object, with its spec and its conditions, until
	// everything that it installed is removed.
	UninstallFinalizer = Prefix + "/uninstall"
	// AdoptAnnotation, with the value AdoptAlways, lets the installer adopt an
	// existing object. In a provider's manifest it applies even if the object has a
	// controller; on the object in the cluster it applies only if the object has
	// none. The installer sets it on CRDs that it retains because they have
	// instances.
	AdoptAnnotation = Prefix + "/adopt-existing"
	// AdoptAlways is the only valid value of AdoptAnnotation.
	AdoptAlways = "always"
	// ServingCertAnnotation, on a Service, is the name of the Secret with the serving certificate that the installer
	// issues for it.
	ServingCertAnnotation = Prefix + "/serving-cert-secret-name"
	// ServingCertLabel marks the Secret of such a certificate; its value is the name of the Service.
	ServingCertLabel = Prefix + "/serving-cert-of"
	// InjectCABundleAnnotation, with the value "true", has the installer write its CA into the client configurations of
	// a webhook configuration, a CRD, an APIService or an ExtensionConfig.
	InjectCABundleAnnotation = Prefix + "/inject-cabundle"
	// RuntimeHooksAnnotation, on the CRD of ExtensionConfigs, lists the hooks that the core provider calls, separated by spaces: each is a version
	// of hooks, such as hooks.runtime.cluster.x-k8s.io/v1alpha1, or one hook, such as hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate.
	RuntimeHooksAnnotation = Prefix + "/runtime-hooks"
)

// AllowsAdoption reports whether the annotations of an object let the installer adopt it.
func AllowsAdoption(annotations map[string]string) bool {
	return annotations[AdoptAnnotation] == AdoptAlways
}
