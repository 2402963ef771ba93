// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
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
	ID:        "installer/deployment-priority-class",
	Severity:  contract.Warning,
	Only:      contract.FormBundle,
	OpenShift: true,
	Source:    openShift("Priority Classes"),
	Why:       "A full node evicts pods without a priority class first.",
	Fix:       "Set priorityClassName to system-cluster-critical.",
	Check: eachPod(func(spec contract.Value) []contract.Finding {
		class := spec.At("priorityClassName")
		if class.Text() != "" {
			return nil
		}
		return []contract.Finding{class.Finding("the pod has no priority class")}
	}),
}, {
	ID:        "installer/deployment-required-scc",
	Severity:  contract.Warning,
	Only:      contract.FormBundle,
	OpenShift: true,
	Source:    manifestsGen("Deployments"),
	Why:       "Without the annotation, a pod is admitted by the first matching security context constraints, perhaps an administrator's own.",
	Fix:       "Annotate the pod template with openshift.io/required-scc: restricted-v2, or the constraints that it needs.",
	Check:     podAnnotation("openshift.io/required-scc"),
}, {
	ID:        "installer/required-scc-consistent",
	Severity:  contract.Warning,
	Only:      contract.FormBundle,
	OpenShift: true,
	Source:    manifestsGen("Deployments"),
	Why:       "SCC restricted-v2 takes user and group IDs from a range of the namespace and rejects a pod that sets others. Such a pod only runs where the label openshift.io/run-level: \"0\" turns SCC admission off, as in OpenShift's own namespace for providers. This is read from OpenShift's documentation and was not verified on an OpenShift cluster.",
	Fix:       "Annotate the pod template with openshift.io/required-scc: nonroot-v2 (it admits every user but root), or set no IDs; the transform \"required-scc\" of \"capi-manifests generate\" writes nonroot-v2.",
	Check:     eachObject(contract.CheckRequiredSCC),
}, {
	ID:        "installer/deployment-workload-annotation",
	Severity:  contract.Warning,
	Only:      contract.FormBundle,
	OpenShift: true,
	Source:    manifestsGen("Deployments"),
	Why:       "In a cluster with CPUs reserved for the platform, pods without the annotation run on the CPUs of users' workloads.",
	Fix:       `Annotate the pod template with target.workload.openshift.io/management: '{"effect": "PreferredDuringScheduling"}'.`,
	Check:     podAnnotation("target.workload.openshift.io/management"),
}, {
	ID:        "installer/container-resources",
	Severity:  contract.Warning,
	Only:      contract.FormBundle,
	OpenShift: true,
	Source:    openShift("Resources and Limits"),
	Why:       "The scheduler places pods by their requests. Limits throttle or kill a controller just when a cluster is large and needs it.",
	Fix:       "Request cpu and memory, and set no limits; the transform \"resource-requests\" of \"capi-manifests generate\" does it.",
	Check:     eachContainer(checkResources),
}, {
	ID:        "installer/container-termination-message",
	Severity:  contract.Warning,
	Only:      contract.FormBundle,
	OpenShift: true,
	Source:    manifestsGen("Deployments"),
	Why:       "With FallbackToLogsOnError the status of a terminated pod has the last lines of its log. must-gather collects the status.",
	Fix:       "Set terminationMessagePolicy to FallbackToLogsOnError.",
	Check:     eachContainer(checkTerminationMessage),
}, {
	ID:       "installer/container-pull-policy",
	Severity: contract.Warning,
	Only:     contract.FormBundle,
	Source:   ours("Images"),
	Why:      "An image by digest never changes. With Always, a pod starts only if the registry is available.",
	Fix:      "Set imagePullPolicy to IfNotPresent.",
	Check:    eachContainer(checkPullPolicy),
}, {
	ID:       "installer/other-image-pinned",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Images"),
	Why:      "The installer replaces only the placeholder imageName, by the image of the bundle. Every other image must be named by digest, because a release consists of exact images.",
	Fix:      "Name the image by digest (<repository>@sha256:<digest>), or by imageName if it is the provider's own. \"capi-manifests generate --image old=new\" does it.",
	Check: func(b *contract.Bundle) []contract.Finding {
		return eachContainer(func(container contract.Value) []contract.Finding { return checkPinned(container, b.Metadata.ImageName) })(b)
	},
}, {
	ID:       "installer/target-namespace",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Objects"),
	Why:      "Every provider is installed in " + v1alpha1.OpenShiftNamespaces.Operand + ", and in any Kubernetes cluster in " + v1alpha1.KubernetesNamespaces.Operand + ", the only namespace where the installer has permissions for namespaced objects. In a bundle for any Kubernetes cluster the finding is a warning: an administrator can create another namespace, and give the installer permissions with \"capi-manifests rbac\".",
	Fix:      "Set metadata.namespace; the transform \"namespace\" of \"capi-manifests generate\" does it, with everything that refers to it.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if b.Metadata.ClusterProfile == extractor.Kubernetes {
			return allAs(contract.Warning, each(b.Objects, checkTargetNamespace(b)))
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
	Check: func(b *contract.Bundle) []contract.Finding {
		if b.Metadata.ClusterProfile == extractor.Kubernetes {
			return allAs(contract.Warning, each(b.Objects, checkCertManager))
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
	ID:       "installer/size-configmap",
	Severity: contract.Warning,
	Only:     contract.FormBundle,
	Source:   ours("Files"),
	Why:      "A ConfigMap can have at most 1 MiB. Larger manifests must be in the image, or be compressed or divided for transport ConfigMaps.",
	Fix:      "No change is needed if the bundle is in an image; \"capi-manifests generate --transport configmap\" divides it.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if b.Size <= maxConfigMap || len(b.Origin.ConfigMaps) > 0 {
			return nil
		}
		return []contract.Finding{{File: contract.ManifestsFile, Line: 1, Message: fmt.Sprintf("the manifests have %d bytes, more than a ConfigMap can hold", b.Size)}}
	},
}, {
	ID:       "installer/probe-deployment",
	Severity: contract.Warning,
	Source:   ours("Objects"),
	Why:      "The installer waits for the replicas of a Deployment. With zero replicas the provider counts as installed, but nothing runs.",
	Fix:      "Set spec.replicas to 1 or more, or remove it.",
	Check: eachObject(func(o *contract.Object) []contract.Finding {
		replicas := o.At("spec", "replicas")
		if o.Kind != object.Deployment || replicas.Text() != "0" {
			return nil
		}
		return []contract.Finding{replicas.Finding("replicas is 0")}
	}),
}, {
	ID:       "installer/adopt-annotation",
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   ours("Rollout"),
	Why:      "An existing object that the installer does not manage blocks the rollout, unless its manifest allows adoption. An unknown value does not allow it.",
	Fix:      "Write " + v1alpha1.AdoptAnnotation + ": " + v1alpha1.AdoptAlways + ", or remove the annotation.",
	Check: eachObject(func(o *contract.Object) []contract.Finding {
		annotation := o.At("metadata", "annotations", v1alpha1.AdoptAnnotation)
		if !annotation.Exists() || slices.Contains([]string{v1alpha1.AdoptAlways, "never"}, annotation.Text()) {
			return nil
		}
		return []contract.Finding{annotation.Finding("unknown value %q", annotation.Text())}
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
}, {
	ID:       "installer/phase-order",
	Severity: contract.Info,
	Only:     contract.FormBundle,
	Source:   ours("Rollout"),
	Why:      "All objects of a provider except its CRDs are applied in one phase, before the provider runs. A webhook with failurePolicy Fail that matches one of them rejects it while the provider is unavailable, also when the installer reverts drift.",
	Fix:      "Exclude the object or its namespace from the webhook with objectSelector or namespaceSelector, or set failurePolicy to Ignore.",
	Check:    checkPhaseOrder,
}, {
	ID:        "installer/webhook-namespace-selector",
	Severity:  contract.Warning,
	Only:      contract.FormBundle,
	OpenShift: true,
	Source:    manifestsGen("Webhooks"),
	Why:       "On OpenShift the objects of Cluster API are in " + v1alpha1.OpenShiftNamespaces.Operand + ". A webhook for all namespaces also validates objects of another Cluster API installation.",
	Fix:       "Set namespaceSelector to {matchLabels: {kubernetes.io/metadata.name: " + v1alpha1.OpenShiftNamespaces.Operand + "}}.",
	Check: eachWebhook(func(webhook contract.Value) []contract.Finding {
		if selector := webhook.At("namespaceSelector"); !narrows(selector) {
			return []contract.Finding{selector.Finding("the webhook matches all namespaces")}
		}
		return nil
	}),
}}

func checkNamesUnique(b *contract.Bundle) (findings []contract.Finding) {
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
				findings = append(findings, name.Finding("%s already has the name %s", other.Name, name.Text()))
			}
			taken[key] = d
		}
	}
	return findings
}

func podAnnotation(name string) func(*contract.Bundle) []contract.Finding {
	return eachObject(func(o *contract.Object) []contract.Finding {
		template, makesPods := contract.PodTemplate(o)
		if !makesPods {
			return nil
		}
		if annotation := template.At("metadata", "annotations", name); !annotation.Exists() {
			return []contract.Finding{annotation.Finding("the pod template has no annotation %s", name)}
		}
		return nil
	})
}

func checkResources(container contract.Value) (findings []contract.Finding) {
	for _, resource := range []string{"cpu", "memory"} {
		if request := container.At("resources", "requests", resource); request.Text() == "" {
			findings = append(findings, request.Finding("%s requests no %s", contract.NameOf(container), resource))
		}
	}
	if limits := container.At("resources", "limits"); limits.Exists() {
		findings = append(findings, limits.Finding("%s has limits", contract.NameOf(container)))
	}
	return findings
}

func checkTerminationMessage(container contract.Value) []contract.Finding {
	policy := container.At("terminationMessagePolicy")
	switch text := policy.Text(); text {
	case "FallbackToLogsOnError":
		return nil
	case "":
		return []contract.Finding{policy.Finding("%s has no terminationMessagePolicy", contract.NameOf(container))}
	default:
		return []contract.Finding{policy.Finding("%s has terminationMessagePolicy %s", contract.NameOf(container), text)}
	}
}

// checkPullPolicy treats a missing policy as IfNotPresent, the default for a digest.
func checkPullPolicy(container contract.Value) []contract.Finding {
	policy := container.At("imagePullPolicy")
	if text := policy.Text(); text != "" && text != "IfNotPresent" {
		return []contract.Finding{policy.Finding("%s has imagePullPolicy %s", contract.NameOf(container), text)}
	}
	return nil
}

func checkPinned(container contract.Value, placeholder string) []contract.Finding {
	image := container.At("image")
	switch text := image.Text(); {
	case text == "": // reported by another rule
		return nil
	case text == placeholder, object.IsPinned(text), contract.HasVariable(text):
		return nil
	default:
		return []contract.Finding{image.Finding("%s: image %s is neither by digest nor the placeholder %q", contract.NameOf(container), text, placeholder)}
	}
}

func checkTargetNamespace(b *contract.Bundle) func(*contract.Object) []contract.Finding {
	want := b.Metadata.ClusterProfile.Namespaces().Operand
	return func(o *contract.Object) []contract.Finding {
		namespace := o.At("metadata", "namespace")
		if !contract.Installable[o.Kind] || o.Namespace == want {
			return nil
		}
		if o.Namespace == "" {
			return []contract.Finding{namespace.Finding("the namespace is missing: want %s", want)}
		}
		return []contract.Finding{namespace.Finding("the namespace is %s, not %s", o.Namespace, want)}
	}
}

func checkCertManager(o *contract.Object) (findings []contract.Finding) {
	if o.Kind.Group == object.CertManagerGroup {
		findings = append(findings, o.Finding("the kind %s requires cert-manager", o.Kind.Kind))
	}
	for _, name := range object.CertManagerInjectCAs() {
		if annotation := o.At("metadata", "annotations", name); annotation.Exists() {
			findings = append(findings, annotation.Finding("the annotation requires cert-manager"))
		}
	}
	return findings
}

// allAs sets the severity of findings; it overrides the rule's.
func allAs(severity contract.Severity, findings []contract.Finding) []contract.Finding {
	for i := range findings {
		findings[i].Severity = severity
	}
	return findings
}

// maxConfigMap is the maximum size of the data of a ConfigMap in bytes.
const maxConfigMap = 1 << 20

func checkProtection(b *contract.Bundle) (findings []contract.Finding) {
	for _, d := range b.Definitions {
		if d.Role != contract.InfraCluster || d.Template || protects(b, d) {
			continue
		}
		findings = append(findings, d.At("spec", "names", "kind").Finding("no admission policy denies the deletion of the cluster's own %s", d.DefinedKind))
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

func checkPhaseOrder(b *contract.Bundle) []contract.Finding {
	return eachWebhook(func(webhook contract.Value) (findings []contract.Finding) {
		failsOpen := webhook.At("failurePolicy").Text() == "Ignore"
		if failsOpen || narrows(webhook.At("objectSelector")) || narrows(webhook.At("namespaceSelector")) {
			return nil
		}
		for _, o := range b.Objects {
			exempt := o.Kind.Group == object.AdmissionGroup || o.Kind == object.CustomResourceDefinition // webhooks are not called for the former; CRDs are applied earlier
			if !exempt && asks(webhook.At("rules"), resourceOf(o), "CREATE", "UPDATE") {
				findings = append(findings, webhook.At("name").Finding("the webhook matches %s, which is applied in the same phase", o))
			}
		}
		return findings
	})(b)
}

// resourceOf guesses the resource of an object's kind.
func resourceOf(o *contract.Object) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(o.Kind.WithVersion(""))
	return plural.GroupResource()
}

// forbidKind returns a check that a bundle has no object of a kind.
func forbidKind(kind schema.GroupKind, message string) func(*contract.Bundle) []contract.Finding {
	return func(b *contract.Bundle) (findings []contract.Finding) {
		for _, o := range b.OfKind(kind) {
			findings = append(findings, o.Finding("%s", message))
		}
		return findings
	}
}
