// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// runtimeExtensionRules are the rules of the themes "runtime-extension" and "extensionconfig".
var runtimeExtensionRules = []contract.Rule{{
	ID:       "runtime-extension/deployment",
	Severity: contract.Error,
	Source:   runtimeSDK("deploy-runtime-extension", "Deploy Runtime Extensions"),
	Why:      "A Runtime Extension is a server. Without a Deployment, Cluster API's calls fail and block the Clusters.",
	Fix:      "Add the Deployment; correct providerType if this is not a Runtime Extension.",
	Check: ofExtensions(func(b *contract.Bundle) contract.Findings {
		if len(b.OfKind(object.Deployment)) > 0 {
			return nil
		}
		return metadataFinding("providerType", "the Runtime Extension has no Deployment")
	}),
}, {
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
}, {
	ID:       "runtime-extension/rbac-minimal",
	Severity: contract.Warning,
	Source:   runtimeSDK("deploy-runtime-extension", "Deploy Runtime Extensions"),
	Why:      "An extension answers calls of Cluster API. An attacker in its pod has all of its permissions.",
	Fix:      "Use a separate ServiceAccount with the permissions that the extension needs, or none.",
	Check: ofExtensions(func(b *contract.Bundle) contract.Findings {
		if !b.Grants.Allow("", "secrets", "*") && !b.Grants.Allow("*", "*", "*") {
			return nil
		}
		return ofDeployments(b, "the rule allows the extension everything, or everything with Secrets")
	}),
}, {
	ID:       "extensionconfig/service-exists",
	Severity: contract.Error,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Without the Service every call fails, and the Clusters that wait for an answer block.",
	Fix:      "Name the Service of the provider, with its namespace and one of its ports.",
	Check: eachExtensionConfig(func(b *contract.Bundle, o *contract.Object) contract.Findings {
		service := o.At("spec", "clientConfig", "service")
		if !service.Exists() || serviceOf(b, o.At("spec", "clientConfig")) != nil {
			return nil
		}
		return service.At("name").Finding("Service %s/%s not found", service.At("namespace").Text(), service.At("name").Text())
	}),
}, {
	ID:       "extensionconfig/ca",
	Severity: contract.Warning,
	Source:   runtimeSDK("implement-extensions", "Registering Runtime Extensions"),
	Why:      "Cluster API verifies the certificate of an extension with the caBundle only, so a controller has to populate it.",
	Fix:      "Annotate the object with " + injectSecret + ": <namespace>/<Secret with ca.crt>, or write the caBundle.",
	Check: eachExtensionConfig(func(_ *contract.Bundle, o *contract.Object) contract.Findings {
		ca := o.At("spec", "clientConfig", "caBundle")
		if ca.Text() != "" || o.At("metadata", "annotations", injectSecret).Text() != "" {
			return nil
		}
		return ca.Finding("caBundle is not populated")
	}),
}}

func eachExtensionConfig(check func(*contract.Bundle, *contract.Object) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) contract.Findings {
		return each(b.OfKind(extensionConfigKind), func(o *contract.Object) contract.Findings { return check(b, o) })
	}
}

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

const (
	runtimeGroup = "runtime.cluster.x-k8s.io"
	injectSecret = runtimeGroup + "/inject-ca-from-secret"
)

var extensionConfigKind = object.ExtensionConfig
