// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// installerRules are about what the installer may write, and where.
var installerRules = []Rule{{
	ID:       "installer/target-namespace",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Objects"),
	Why:      "Every provider lives in " + v1alpha1.OperandNamespace + ", and the installer may write namespaced objects there and nowhere else.",
	Fix:      "Set metadata.namespace; the transform \"namespace\" of \"capi-manifests generate\" does it, with everything that refers to it.",
	Check:    eachObject(checkTargetNamespace),
}, {
	ID:       "installer/no-namespace-object",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Objects"),
	Why:      "The namespace is there before any provider and belongs to the release. The installer may not write Namespaces: removing a provider would remove all that is in one.",
	Fix:      "Remove the Namespace; \"capi-manifests generate\" drops it.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, o := range b.ofKind(namespaceKind) {
			findings = append(findings, o.finding("a bundle brings no Namespace"))
		}
		return findings
	},
}, {
	ID:       "installer/no-secret",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Objects"),
	Why:      "Credentials do not belong into an image that anybody may pull, and the installer may neither read nor write Secrets.",
	Fix:      "Remove the Secret, and have it made in the cluster: by its administrator, by the cloud credential operator, or by the service CA for certificates.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, o := range b.ofKind(secretKind) {
			findings = append(findings, o.finding("a bundle brings no Secret"))
		}
		return findings
	},
}, {
	ID:       "installer/no-cert-manager",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Objects"),
	Why:      "cert-manager is no part of OpenShift, so nobody would make the certificate or fill in the CA, and webhooks would fail. The service CA of OpenShift does both.",
	Fix:      "Annotate the Service with service.beta.openshift.io/serving-cert-secret-name and what needs the CA with service.beta.openshift.io/inject-cabundle; the transform \"cert-manager-to-service-ca\" of \"capi-manifests generate\" does it.",
	Check:    eachObject(checkCertManager),
}, {
	ID:       "installer/kind-allowed",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Objects"),
	Why:      "The installer may write the kinds that providers consist of, and no others. Of a bundle with another kind, that object is refused by the API server and the release does not become installed.",
	Fix:      "Leave the object out, or have the controller make it. Where a cluster's administrator wants the kind, \"capi-manifests rbac\" writes the role that lets the installer bring it.",
	Check:    eachObject(checkKind),
}}

func checkTargetNamespace(o *Object) []Finding {
	namespace := o.At("metadata", "namespace")
	if !installable[o.Kind] || o.Namespace == v1alpha1.OperandNamespace {
		return nil
	}
	if o.Namespace == "" {
		return []Finding{namespace.finding("the namespace is missing; it is %s", v1alpha1.OperandNamespace)}
	}
	return []Finding{namespace.finding("the namespace is %s, not %s", o.Namespace, v1alpha1.OperandNamespace)}
}

// certManagerAnnotations ask cert-manager to fill in a CA.
var certManagerAnnotations = []string{"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret"}

func checkCertManager(o *Object) (findings []Finding) {
	if o.Kind.Group == certManagerGroup {
		findings = append(findings, o.finding("a cluster without cert-manager does not know the kind %s", o.Kind.Kind))
	}
	for _, name := range certManagerAnnotations {
		if annotation := o.At("metadata", "annotations", name); annotation.Exists() {
			findings = append(findings, annotation.finding("nobody fills in the CA that the annotation asks for"))
		}
	}
	return findings
}

func checkKind(o *Object) []Finding {
	_, allowed := installable[o.Kind]
	hasOwnRule := o.Kind == namespaceKind || o.Kind == secretKind || o.Kind.Group == certManagerGroup
	if allowed || hasOwnRule || o.Kind.Kind == "" {
		return nil
	}
	return []Finding{o.At("kind").finding("the installer may not write the kind %s", o.Kind)}
}
