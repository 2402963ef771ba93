// SPDX-License-Identifier: Apache-2.0

package object

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
