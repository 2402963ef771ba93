// SPDX-License-Identifier: Apache-2.0

// Package object holds the facts about Kubernetes objects that several packages
// need: kinds, scopes, names and identity, pod specs, images, and the apply
// order. It works on unstructured objects and does not validate them: a field
// that is missing or has another type reads as empty.
package object

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Groups of the kinds below.
const (
	AdmissionGroup     = "admissionregistration.k8s.io"
	APIExtensionsGroup = "apiextensions.k8s.io"
	CertManagerGroup   = "cert-manager.io"
	RBACGroup          = "rbac.authorization.k8s.io"
)

// Kinds that the installer and the build tool treat specially.
var (
	Namespace      = schema.GroupKind{Kind: "Namespace"}
	ConfigMap      = schema.GroupKind{Kind: "ConfigMap"}
	Secret         = schema.GroupKind{Kind: "Secret"}
	Service        = schema.GroupKind{Kind: "Service"}
	ServiceAccount = schema.GroupKind{Kind: "ServiceAccount"}
	Pod            = schema.GroupKind{Kind: "Pod"}

	Deployment  = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	DaemonSet   = schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	StatefulSet = schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	ReplicaSet  = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	Job         = schema.GroupKind{Group: "batch", Kind: "Job"}
	CronJob     = schema.GroupKind{Group: "batch", Kind: "CronJob"}

	Role               = schema.GroupKind{Group: RBACGroup, Kind: "Role"}
	RoleBinding        = schema.GroupKind{Group: RBACGroup, Kind: "RoleBinding"}
	ClusterRole        = schema.GroupKind{Group: RBACGroup, Kind: "ClusterRole"}
	ClusterRoleBinding = schema.GroupKind{Group: RBACGroup, Kind: "ClusterRoleBinding"}

	CustomResourceDefinition         = schema.GroupKind{Group: APIExtensionsGroup, Kind: "CustomResourceDefinition"}
	APIService                       = schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}
	MutatingWebhookConfiguration     = schema.GroupKind{Group: AdmissionGroup, Kind: "MutatingWebhookConfiguration"}
	ValidatingWebhookConfiguration   = schema.GroupKind{Group: AdmissionGroup, Kind: "ValidatingWebhookConfiguration"}
	MutatingAdmissionPolicy          = schema.GroupKind{Group: AdmissionGroup, Kind: "MutatingAdmissionPolicy"}
	MutatingAdmissionPolicyBinding   = schema.GroupKind{Group: AdmissionGroup, Kind: "MutatingAdmissionPolicyBinding"}
	ValidatingAdmissionPolicy        = schema.GroupKind{Group: AdmissionGroup, Kind: "ValidatingAdmissionPolicy"}
	ValidatingAdmissionPolicyBinding = schema.GroupKind{Group: AdmissionGroup, Kind: "ValidatingAdmissionPolicyBinding"}

	Certificate = schema.GroupKind{Group: CertManagerGroup, Kind: "Certificate"}

	ExtensionConfig = schema.GroupKind{Group: "runtime.cluster.x-k8s.io", Kind: "ExtensionConfig"}

	CompatibilityRequirement = schema.GroupKind{Group: "apiextensions.openshift.io", Kind: "CompatibilityRequirement"}
)

// Version and resource of CustomResourceDefinitions.
var (
	CRDVersion  = CustomResourceDefinition.WithVersion("v1")
	CRDResource = CRDVersion.GroupVersion().WithResource("customresourcedefinitions")
)

// CRDMetadata returns an empty object for reading and watching the metadata of CustomResourceDefinitions.
func CRDMetadata() *metav1.PartialObjectMetadata {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(CRDVersion)
	return crd
}

// Object is a typed or unstructured Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// GroupKind returns the group and kind of an object. A typed object must have
// its TypeMeta set.
func GroupKind(o Object) schema.GroupKind {
	return o.GetObjectKind().GroupVersionKind().GroupKind()
}

// IsCRD reports whether an object is a CustomResourceDefinition.
func IsCRD(o Object) bool { return GroupKind(o) == CustomResourceDefinition }

// DeletesOthers reports whether the deletion of an object of a kind deletes objects of others, or machines: a CRD, a namespace, and an instance
// of Cluster API.
func DeletesOthers(kind schema.GroupKind) bool {
	return kind == CustomResourceDefinition || kind == Namespace || kind.Group == "cluster.x-k8s.io" || strings.HasSuffix(kind.Group, ".cluster.x-k8s.io")
}

// Annotations of cert-manager: it injects the CA of a Certificate or of a Secret,
// "<namespace>/<name>", into client configurations.
const (
	CertManagerInjectCA           = "cert-manager.io/inject-ca-from"
	CertManagerInjectCAFromSecret = "cert-manager.io/inject-ca-from-secret"
)

// Annotations of OpenShift's service-ca operator
// (https://docs.openshift.com, "Securing service traffic using service serving certificate secrets").
const (
	// ServiceCAServingCert, on a Service, is the name of the Secret with its certificate.
	ServiceCAServingCert = "service.beta.openshift.io/serving-cert-secret-name"
	// ServiceCAInject is "true" on an object into whose client configurations the CA is injected.
	ServiceCAInject = "service.beta.openshift.io/inject-cabundle"
)

// RequiredSCC is the annotation of a pod with the name of its security context
// constraints in OpenShift.
const RequiredSCC = "openshift.io/required-scc"

// CertManagerInjectCAs returns the annotations that make cert-manager inject a CA.
func CertManagerInjectCAs() []string {
	return []string{CertManagerInjectCA, CertManagerInjectCAFromSecret}
}
