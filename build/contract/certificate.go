// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// certificateRules are about the certificates that cert-manager makes for webhooks. In a bundle there are none.
var certificateRules = []Rule{{
	ID:       "webhook/ca-ref",
	Severity: Error,
	Only:     FormRelease,
	Source:   clusterctl("Components YAML transformations"),
	Why:      "cert-manager fills in the CA of the Certificate that the annotation names, as <namespace>/<name>. clusterctl gives up at anything else, and without the Certificate every call of the webhook fails.",
	Fix:      "Name a Certificate of the components.",
	Check:    checkCARefs,
}, {
	ID:       "webhook/cert-dns",
	Severity: Warning,
	Only:     FormRelease,
	Source:   clusterctl("Components YAML transformations"),
	Why:      "The API server calls a webhook as <service>.<namespace>.svc, and refuses a certificate for another name. It is the pods that have to show the certificate.",
	Fix:      "Add the name to spec.dnsNames of the Certificate, and mount its Secret.",
	Check:    checkCertificates,
}}

const injectsFrom = "cert-manager.io/inject-ca-from"

var certificateKind = schema.GroupKind{Group: certManagerGroup, Kind: "Certificate"}

func checkCARefs(b *Bundle) (findings []Finding) {
	for _, o := range b.ofKind(mutatingKind, validatingKind, crdKind) {
		if annotation := o.At("metadata", "annotations", injectsFrom); annotation.Exists() && !namesOne(annotation) {
			findings = append(findings, annotation.finding("%q is not a namespace and a name", annotation.Text()))
		}
	}
	unknown := eachClient(func(b *Bundle, _, annotations Value) []Finding {
		annotation := annotations.At(injectsFrom)
		if !namesOne(annotation) || strings.Contains(annotation.Text(), "${") || b.certificateOf(annotations) != nil {
			return nil
		}
		return []Finding{annotation.finding("there is no Certificate %s in the components", annotation.Text())}
	})
	return append(findings, unknown(b)...)
}

// namesOne says whether an annotation is a namespace and a name.
func namesOne(annotation Value) bool { return strings.Count(annotation.Text(), "/") == 1 }

// certificateOf is the Certificate that an annotation names, in whatever namespace, which clusterctl sets; nil if there is none.
func (b *Bundle) certificateOf(annotations Value) *Object {
	_, name, _ := strings.Cut(annotations.At(injectsFrom).Text(), "/")
	for _, o := range b.ofKind(certificateKind) {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// checkCertificates leaves out what a CA signs: the pods make their certificates of it.
func checkCertificates(b *Bundle) []Finding {
	mounted := map[string]bool{}
	for _, o := range b.Objects {
		for _, ref := range references(podSpec(o)) {
			mounted[ref.kind+" "+ref.name.Text()] = true
		}
	}
	return eachClient(func(b *Bundle, config, annotations Value) (findings []Finding) {
		certificate, service := b.certificateOf(annotations), config.At("service")
		if certificate == nil || !service.Exists() || certificate.At("spec", "isCA").Text() == "true" {
			return nil
		}
		host := service.At("name").Text() + "." + service.At("namespace").Text() + ".svc"
		if names := certificate.At("spec", "dnsNames"); !contains(names, host) {
			findings = append(findings, names.finding("%s is not among the names", host))
		}
		if secret := certificate.At("spec", "secretName"); !mounted["Secret "+secret.Text()] {
			findings = append(findings, secret.finding("no pod mounts the Secret %s", secret.Text()))
		}
		return findings
	})(b)
}
