// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// runtimeExtensionRules are the rules of the theme "runtime-extension".
var runtimeExtensionRules = []contract.Rule{{
	ID:       "runtime-extension/service",
	Severity: contract.Warning,
	Source:   runtimeSDK("deploy-runtime-extension", "Deploy Runtime Extensions"),
	Why:      "Cluster API calls an extension by a Service inside the cluster. Clients outside the cluster need no access.",
	Fix:      "Add a Service of type ClusterIP that selects the pods.",
	Check:    ofExtensions(checkExtensionService),
}, {
	ID:       "runtime-extension/tls",
	Severity: contract.Warning,
	Source:   runtimeSDK("implement-extensions", "Guidelines"),
	Why:      "Cluster API calls extensions over HTTPS only, with the CA of the ExtensionConfig.",
	Fix:      "Annotate the Service with service.beta.openshift.io/serving-cert-secret-name, or for any Kubernetes cluster with " + v1alpha1.ServingCertAnnotation + ", or in a release for clusterctl add a Certificate, and mount the Secret.",
	Check:    ofExtensions(checkExtensionTLS),
}}

// ofExtensions limits a check to bundles of Runtime Extensions.
func ofExtensions(check func(*contract.Bundle) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) contract.Findings {
		if b.Metadata.ProviderType != extractor.RuntimeExtension {
			return nil
		}
		return check(b)
	}
}

// ofDeployments returns the same finding for all Deployments.
func ofDeployments(b *contract.Bundle, message string) (findings contract.Findings) {
	for _, o := range b.OfKind(object.Deployment) {
		findings = append(findings, o.Finding("%s", message)...)
	}
	return findings
}

func checkExtensionService(b *contract.Bundle) (findings contract.Findings) {
	selecting := 0
	for _, service := range b.OfKind(object.Service) {
		selecting += len(podsOf(b, service))
		if kind := service.At("spec", "type"); kind.Text() != "" && kind.Text() != "ClusterIP" {
			findings = append(findings, kind.Finding("the Service is of type %s", kind.Text())...)
		}
	}
	if selecting == 0 {
		findings = append(findings, ofDeployments(b, "no Service selects the pods of the extension")...)
	}
	return findings
}

func checkExtensionTLS(b *contract.Bundle) contract.Findings {
	for _, o := range b.OfKind(object.Deployment) {
		for _, volume := range contract.PodSpec(o).At("volumes").Items() {
			if volume.At("secret", "secretName").Text() != "" {
				return nil
			}
		}
	}
	return ofDeployments(b, "no certificate is mounted")
}
