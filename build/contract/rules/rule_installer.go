// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// installerRules are the rules of the theme "installer".
var installerRules = []contract.Rule{{
	ID:       "installer/probe-crd",
	Severity: contract.Error,
	Source:   ours("Objects"),
	Why:      "Of two kinds of a group with the same plural, singular or short name, the API server accepts one. The other never becomes established, and the installation never completes.",
	Fix:      "Give each kind unique names.",
	Check:    checkNamesUnique,
}, {
	ID:       "installer/other-image-pinned",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Images"),
	Why:      "The installer replaces only the placeholder imageName, by the image of the bundle. Every other image must be named by digest, because a release consists of exact images.",
	Fix:      "Name the image by digest (<repository>@sha256:<digest>), or by imageName if it is the provider's own. \"capi-manifests generate --image old=new\" does it.",
	Check: func(b *contract.Bundle) contract.Findings {
		return eachContainer(func(container contract.Value) contract.Findings { return checkPinned(container, b.Metadata.ImageName) })(b)
	},
}, {
	ID:       "installer/target-namespace",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Objects"),
	Why:      "Every provider is installed in " + v1alpha1.OpenShiftNamespaces.Operand + ", and in any Kubernetes cluster in " + v1alpha1.KubernetesNamespaces.Operand + ", the only namespace where the installer has permissions for namespaced objects. In a bundle for any Kubernetes cluster the finding is a warning: an administrator can create another namespace, and give the installer permissions with \"capi-manifests rbac\".",
	Fix:      "Set metadata.namespace; the transform \"namespace\" of \"capi-manifests generate\" does it, with everything that refers to it.",
	Check: func(b *contract.Bundle) contract.Findings {
		if b.Metadata.ClusterProfile == extractor.Kubernetes {
			return each(b.Objects, checkTargetNamespace(b)).As(contract.Warning)
		}
		return each(b.Objects, checkTargetNamespace(b))
	},
}, {
	ID:       "installer/no-namespace-object",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Objects"),
	Why:      "The release creates the namespace before any provider. The installer has no permission for Namespaces: the removal of a provider would delete all objects in the namespace.",
	Fix:      "Remove the Namespace; \"capi-manifests generate\" drops it.",
	Check:    forbidKind(object.Namespace, "a bundle must not contain a Namespace"),
}, {
	ID:       "installer/no-secret",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Objects"),
	Why:      "Credentials do not belong in a public image, and the installer can neither read nor write Secrets.",
	Fix:      "Remove the Secret, and create it in the cluster: by its administrator, by the cloud credential operator, or by the service CA for certificates.",
	Check:    forbidKind(object.Secret, "a bundle must not contain a Secret"),
}, {
	ID:       "installer/no-cert-manager",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Objects"),
	Why:      "cert-manager is not part of OpenShift: the certificate is not created, the CA is not injected, and webhooks fail. The service CA of OpenShift does both. In a bundle for any Kubernetes cluster the finding is a warning: the installer does both, and an administrator can install cert-manager.",
	Fix:      "Annotate the Service with service.beta.openshift.io/serving-cert-secret-name and the objects that need the CA with service.beta.openshift.io/inject-cabundle, or for any Kubernetes cluster with " + v1alpha1.ServingCertAnnotation + " and " + v1alpha1.InjectCABundleAnnotation + ". The transforms \"cert-manager-to-service-ca\" and \"cert-manager-to-installer-ca\" of \"capi-manifests generate\" do it.",
	Check: func(b *contract.Bundle) contract.Findings {
		if b.Metadata.ClusterProfile == extractor.Kubernetes {
			return each(b.Objects, checkCertManager).As(contract.Warning)
		}
		return each(b.Objects, checkCertManager)
	},
}, {
	ID:       "installer/kind-allowed",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Objects"),
	Why:      "The shipped roles give the installer permissions only for the usual kinds of providers. Without permission to install, revert and remove every object, the installer reports ObjectsForbidden and writes nothing.",
	Fix:      "Remove the object, or let the controller create it. If the administrator of a cluster wants it, \"capi-manifests rbac\" generates the role with the rules that the message names.",
	Check:    checkPermissions,
}, {
	ID:       "installer/probe-deployment",
	Severity: contract.Warning,
	Source:   ours("Objects"),
	Why:      "The installer waits for the replicas of a Deployment. With zero replicas the provider counts as installed, but nothing runs.",
	Fix:      "Set spec.replicas to 1 or more, or remove it.",
	Check: eachObject(func(o *contract.Object) contract.Findings {
		replicas := o.At("spec", "replicas")
		if o.Kind != object.Deployment || replicas.Text() != "0" {
			return nil
		}
		return replicas.Finding("replicas is 0")
	}),
}, {
	ID:        "installer/protect-infracluster",
	Severity:  contract.Info,
	Only:      contract.FormBundle,
	OpenShift: true,
	Source:    ours("Rollout"),
	Why:       "Deleting the InfraCluster of the cluster itself deletes its load balancers, networks and machines. An admission policy can deny the deletion.",
	Fix:       "Add a ValidatingAdmissionPolicy for DELETE of the resource and its binding; the transform \"infra-cluster-protection\" of \"capi-manifests generate\" does it.",
	Check:     checkProtection,
}}

func checkNamesUnique(b *contract.Bundle) (findings contract.Findings) {
	taken := map[string]*contract.Definition{}
	for _, d := range b.Definitions {
		names := []contract.Value{d.At("spec", "names", "plural"), d.At("spec", "names", "singular")}
		for _, short := range d.At("spec", "names", "shortNames").Items() {
			names = append(names, short)
		}
		for _, name := range names {
			key := d.Group + "/" + name.Text()
			other, found := taken[key]
			if found && other != d && name.Text() != "" {
				findings = append(findings, name.Finding("%s already has the name %s", other.Name, name.Text())...)
			}
			taken[key] = d
		}
	}
	return findings
}

func checkPinned(container contract.Value, placeholder string) contract.Findings {
	image := container.At("image")
	switch text := image.Text(); {
	case text == "": // reported by another rule
		return nil
	case text == placeholder, object.IsPinned(text), contract.HasVariable(text):
		return nil
	default:
		return image.Finding("%s: image %s is neither by digest nor the placeholder %q", contract.NameOf(container), text, placeholder)
	}
}

func checkTargetNamespace(b *contract.Bundle) func(*contract.Object) contract.Findings {
	want := b.Metadata.ClusterProfile.Namespaces().Operand
	return func(o *contract.Object) contract.Findings {
		namespace := o.At("metadata", "namespace")
		if !contract.Installable[o.Kind] || o.Namespace == want {
			return nil
		}
		if o.Namespace == "" {
			return namespace.Finding("the namespace is missing: want %s", want)
		}
		return namespace.Finding("the namespace is %s, not %s", o.Namespace, want)
	}
}

func checkProtection(b *contract.Bundle) (findings contract.Findings) {
	for _, d := range b.Definitions {
		if d.Role != contract.InfraCluster || d.Template || protects(b, d) {
			continue
		}
		findings = append(findings, d.At("spec", "names", "kind").Finding("no admission policy denies the deletion of the cluster's own %s", d.DefinedKind)...)
	}
	return findings
}

// protects reports whether a policy of the bundle matches the deletion of objects of a kind.
func protects(b *contract.Bundle, d *contract.Definition) bool {
	resource := schema.GroupResource{Group: d.Group, Resource: lowerPlural(d)}
	return slices.ContainsFunc(b.OfKind(object.ValidatingAdmissionPolicy), func(policy *contract.Object) bool {
		return asks(policy.At("spec", "matchConstraints", "resourceRules"), resource, "DELETE")
	})
}

func checkCertManager(o *contract.Object) (findings contract.Findings) {
	if o.Kind.Group == object.CertManagerGroup {
		findings = append(findings, o.Finding("the kind %s requires cert-manager", o.Kind.Kind)...)
	}
	for _, name := range object.CertManagerInjectCAs() {
		if annotation := o.At("metadata", "annotations", name); annotation.Exists() {
			findings = append(findings, annotation.Finding("the annotation requires cert-manager")...)
		}
	}
	return findings
}

// forbidKind returns a check that a bundle has no object of a kind.
func forbidKind(kind schema.GroupKind, message string) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) (findings contract.Findings) {
		for _, o := range b.OfKind(kind) {
			findings = append(findings, o.Finding("%s", message)...)
		}
		return findings
	}
}
