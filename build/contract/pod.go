// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// podRules are about the workloads of a bundle and what they refer to.
var podRules = []Rule{{
	ID:       "bundle/deployment-selector",
	Severity: Error,
	Source:   kubernetes("Selector", "concepts/workloads/controllers/deployment/"),
	Why:      "The API server refuses a Deployment whose selector does not take the pods of its own template.",
	Fix:      "Give the pod template the labels of spec.selector.",
	Check:    func(b *Bundle) []Finding { return each(b.ofKind(deploymentKind), checkSelector) },
}, {
	ID:       "bundle/serviceaccount-explicit",
	Severity: Warning,
	Only:     FormBundle,
	Source:   kubernetes("Configure Service Accounts for Pods", "tasks/configure-pod-container/configure-service-account/"),
	Why:      "Providers share a namespace. Under the default service account each would have what any of them is granted.",
	Fix:      "Add a ServiceAccount and name it in spec.template.spec.serviceAccountName.",
	Check: eachPod(func(spec Value) []Finding {
		account := spec.At("serviceAccountName")
		if text := account.Text(); text != "" && text != "default" {
			return nil
		}
		return []Finding{account.finding("the pods run under the default service account")}
	}),
}, {
	ID:       "bundle/volume-ref-exists",
	Severity: Warning,
	Source:   clusterctl("Components YAML"),
	Why:      "A pod does not start before its Secrets and ConfigMaps are there. One that nobody makes keeps it from ever starting.",
	Fix:      "Add the ConfigMap to the manifests; have the Secret made by the service CA, by an annotation of a Service; or make the reference optional. What somebody else in the cluster makes is all right.",
	Check:    checkVolumes,
}, {
	ID:       "bundle/image-valid",
	Severity: Error,
	Source:   kubernetes("Image names", "concepts/containers/images/"),
	Why:      "A node cannot pull an image whose name is none.",
	Fix:      "Write <registry>/<repository>@sha256:<digest>, with a repository in lower case.",
	Check: eachContainer(func(container Value) []Finding {
		image := container.At("image")
		if image.Text() == "" || strings.Contains(image.Text(), "${") {
			return nil // other rules
		}
		if _, err := name.ParseReference(image.Text()); err != nil {
			return []Finding{image.finding("%q is no image", image.Text())}
		}
		return nil
	}),
}, {
	ID:       "clusterctl/image-canonical",
	Severity: Warning,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "An image without a registry comes from wherever the node's configuration says, and image overrides and mirrors do not know it.",
	Fix:      "Name the registry, docker.io too.",
	Check: eachContainer(func(container Value) []Finding {
		image := container.At("image")
		host, _, found := strings.Cut(image.Text(), "/")
		if image.Text() == "" || strings.Contains(image.Text(), "${") || found && (strings.ContainsAny(host, ".:") || host == "localhost") {
			return nil
		}
		return []Finding{image.finding("image %s names no registry", image.Text())}
	}),
}, {
	ID:       "bundle/pod-security",
	Severity: Warning,
	Source:   kubernetes("Restricted", "concepts/security/pod-security-standards/"),
	Why:      "A controller needs none of the host. A pod that is not restricted needs security context constraints that let it do more, and so does whoever takes it over.",
	Fix:      "Set runAsNonRoot, seccompProfile RuntimeDefault, allowPrivilegeEscalation: false and capabilities.drop: [ALL], and use nothing of the host.",
	Check:    eachPod(checkPodSecurity),
}, {
	ID:       "installer/probe-deployment",
	Severity: Warning,
	Source:   ours("Objects"),
	Why:      "The installer waits until the replicas of a Deployment are available, and so does clusterctl if it is told to. With none the provider is installed at once, and does nothing.",
	Fix:      "Set spec.replicas to 1 or more, or leave it out.",
	Check: eachObject(func(o *Object) []Finding {
		replicas := o.At("spec", "replicas")
		if o.Kind != deploymentKind || replicas.Text() != "0" {
			return nil
		}
		return []Finding{replicas.finding("there are no replicas")}
	}),
}, {
	ID:       "clusterctl/deployment-present",
	Severity: Error,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "The controllers of a provider MUST be deployed by a Deployment: the installer and clusterctl wait for it, and upgrade by it.",
	Fix:      "Run the controllers by a Deployment.",
	Check: func(b *Bundle) (findings []Finding) {
		if len(b.ofKind(deploymentKind)) > 0 {
			return nil
		}
		for _, o := range b.Objects {
			if podSpec(o).Exists() {
				findings = append(findings, o.At("kind").finding("the controllers are deployed by a %s", o.Kind.Kind))
			}
		}
		return findings
	},
}, {
	ID:       "clusterctl/manager-container-each",
	Severity: Warning,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "Of a Deployment without a container named manager tools do not find the image and the flags.",
	Fix:      "Name the container of the controllers manager.",
	Check: func(b *Bundle) []Finding {
		if len(checkManager(b)) > 0 {
			return nil // another rule
		}
		return each(b.ofKind(deploymentKind), func(o *Object) []Finding {
			for container := range containers(o) {
				if container.At("name").Text() == "manager" {
					return nil
				}
			}
			return []Finding{podSpec(o).At("containers").finding("no container is named manager")}
		})
	},
}, {
	ID:       "clusterctl/multiple-deployments",
	Severity: Info,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "A provider is one controller as a rule. More of them are upgraded and fail one by one.",
	Fix:      "Nothing, if that is meant.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, o := range b.ofKind(deploymentKind)[min(1, len(b.ofKind(deploymentKind))):] {
			findings = append(findings, o.finding("there is another Deployment before"))
		}
		return findings
	},
}, {
	ID:       "clusterctl/namespace-flag",
	Severity: Warning,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "A controller that watches one namespace does not see Clusters in another.",
	Fix:      "Leave --namespace out, or let it be openshift-cluster-api in a bundle, where OpenShift has its own Cluster.",
	Check: func(b *Bundle) []Finding {
		return eachContainer(func(container Value) (findings []Finding) {
			for _, argument := range container.At("args").Items() {
				value, pins := strings.CutPrefix(argument.Text(), "--namespace=")
				isClusters := b.release == nil && value == v1alpha1.OperandNamespace
				if pins && value != "" && !isClusters {
					findings = append(findings, argument.finding("the controller watches the namespace %s only", value))
				}
			}
			return findings
		})(b)
	},
}}

func checkSelector(o *Object) []Finding {
	selector, labels := o.At("spec", "selector", "matchLabels"), o.At("spec", "template", "metadata", "labels")
	wanted := 0
	for key, value := range selector.Fields() {
		wanted++
		if labels.At(key).Text() != value.Text() {
			return []Finding{value.finding("the pod template has no label %s: %s", key, value.Text())}
		}
	}
	if wanted == 0 && !o.At("spec", "selector", "matchExpressions").Exists() {
		return []Finding{selector.finding("the selector is empty")}
	}
	return nil
}

func checkVolumes(b *Bundle) []Finding {
	return eachPod(func(spec Value) (findings []Finding) {
		for _, ref := range references(spec) {
			if !ref.optional && !b.makes(ref, spec.object.Namespace) {
				findings = append(findings, ref.name.finding("nothing of the provider makes the %s %s", ref.kind, ref.name.Text()))
			}
		}
		return findings
	})(b)
}

// reference is a Secret or ConfigMap that a pod names.
type reference struct {
	kind     string
	name     Value
	optional bool
}

// references are those of the volumes and the environment of a pod.
func references(spec Value) (all []reference) {
	add := func(kind string, name, of Value) {
		if name.Text() != "" {
			all = append(all, reference{kind, name, of.At("optional").Text() == "true"})
		}
	}
	for _, volume := range spec.At("volumes").Items() {
		sources := []Value{volume}
		for _, source := range volume.At("projected", "sources").Items() {
			sources = append(sources, source)
		}
		for _, source := range sources {
			add("Secret", source.At("secret", cmp.Or(nameIfThere(source.At("secret"), "secretName"), "name")), source.At("secret"))
			add("ConfigMap", source.At("configMap", "name"), source.At("configMap"))
		}
	}
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range spec.At(list).Items() {
			for _, from := range container.At("envFrom").Items() {
				add("Secret", from.At("secretRef", "name"), from.At("secretRef"))
				add("ConfigMap", from.At("configMapRef", "name"), from.At("configMapRef"))
			}
			for _, variable := range container.At("env").Items() {
				from := variable.At("valueFrom")
				add("Secret", from.At("secretKeyRef", "name"), from.At("secretKeyRef"))
				add("ConfigMap", from.At("configMapKeyRef", "name"), from.At("configMapKeyRef"))
			}
		}
	}
	return all
}

// nameIfThere returns field if the value has it.
func nameIfThere(v Value, field string) string {
	if v.At(field).Exists() {
		return field
	}
	return ""
}

// injectsCABundle and injectsCertificate ask OpenShift's service CA for a ConfigMap's contents, and for a Secret.
const (
	injectsCABundle    = "service.beta.openshift.io/inject-cabundle"
	injectsCertificate = "service.beta.openshift.io/serving-cert-secret-name"
)

// makes says whether an object of the bundle is what is named, or has it made.
func (b *Bundle) makes(ref reference, namespace string) bool {
	text := ref.name.Text()
	return slices.ContainsFunc(b.Objects, func(o *Object) bool {
		if o.Namespace != namespace {
			return false
		}
		switch {
		case o.Kind.Group == "" && o.Kind.Kind == ref.kind:
			return o.Name == text
		case o.Kind == serviceKind && ref.kind == "Secret":
			return o.At("metadata", "annotations", injectsCertificate).Text() == text
		case o.Kind.Group == certManagerGroup && ref.kind == "Secret":
			return o.At("spec", "secretName").Text() == text
		}
		// Every namespace of OpenShift has these.
		return ref.kind == "ConfigMap" && (text == "openshift-service-ca.crt" || text == "kube-root-ca.crt")
	})
}

func checkPodSecurity(spec Value) (findings []Finding) {
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if host := spec.At(field); host.Text() == "true" {
			findings = append(findings, host.finding("the pods share the host's: %s", field))
		}
	}
	for _, volume := range spec.At("volumes").Items() {
		if path := volume.At("hostPath"); path.Exists() {
			findings = append(findings, path.finding("the pods see the host's %s", path.At("path").Text()))
		}
	}
	for _, list := range []string{"initContainers", "containers"} {
		for _, container := range spec.At(list).Items() {
			findings = append(findings, checkSecurityContext(spec, container)...)
		}
	}
	return findings
}

// checkSecurityContext tells once of a container what keeps it from being restricted.
func checkSecurityContext(spec, container Value) []Finding {
	own, pods := container.At("securityContext"), spec.At("securityContext")
	var open []string
	if own.At("privileged").Text() == "true" {
		open = append(open, "is privileged")
	}
	if cmp.Or(own.At("runAsNonRoot").Text(), pods.At("runAsNonRoot").Text()) != "true" {
		open = append(open, "may run as root")
	}
	if !own.At("seccompProfile", "type").Exists() && !pods.At("seccompProfile", "type").Exists() {
		open = append(open, "has no seccomp profile")
	}
	if own.At("allowPrivilegeEscalation").Text() != "false" {
		open = append(open, "may gain privileges")
	}
	if !contains(own.At("capabilities", "drop"), "ALL") {
		open = append(open, "keeps capabilities")
	}
	if len(open) == 0 {
		return nil
	}
	return []Finding{own.finding("%s %s", nameOf(container), strings.Join(open, ", "))}
}
