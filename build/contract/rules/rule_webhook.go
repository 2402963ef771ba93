// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// webhookRules are the rules of the theme "webhook".
var webhookRules = []contract.Rule{{
	ID:       "webhook/ca-ref",
	Severity: contract.Error,
	Only:     contract.FormRelease,
	Source:   clusterctl("Components YAML transformations"),
	Why:      "cert-manager fills in the CA of the Certificate that the annotation names, as <namespace>/<name>. clusterctl fails at any other value, and without the Certificate every call of the webhook fails.",
	Fix:      "Name a Certificate of the components.",
	Check:    checkCARefs,
}, {
	ID:       "webhook/cert-dns",
	Severity: contract.Warning,
	Only:     contract.FormRelease,
	Source:   clusterctl("Components YAML transformations"),
	Why:      "The API server calls a webhook as <service>.<namespace>.svc, and rejects a certificate for another name.",
	Fix:      "Add the name to spec.dnsNames of the Certificate.",
	Check:    checkCertificates,
}, {
	ID:       "webhook/service-exists",
	Severity: contract.Error,
	Source:   clusterctl("Components YAML"),
	Why:      "The API server calls a webhook by its Service, and Cluster API a Runtime Extension. Without it, requests for the kinds of the webhook fail, and Clusters wait for the answer of the extension.",
	Fix:      "Add the Service to the manifests, or correct its name and namespace.",
	Check: eachClient(func(b *contract.Bundle, config, _ contract.Value) contract.Findings {
		service := config.At("service")
		namespace, name := service.At("namespace").Text(), service.At("name").Text()
		if !service.Exists() || b.Has(object.Service, namespace, name) {
			return nil
		}
		return service.At("name").Finding("Service %s/%s not found", namespace, name)
	}),
}, {
	ID:       "webhook/ca-injection",
	Severity: contract.Error,
	Source:   kubernetes("Authenticate webhooks", webhooksPage),
	Why:      "The API server verifies the certificate of a Service in the cluster with the caBundle only, and so does Cluster API for a Runtime Extension: a controller has to populate it.",
	Fix:      "Annotate the object with service.beta.openshift.io/inject-cabundle: \"true\", or for any Kubernetes cluster with " + v1alpha1.InjectCABundleAnnotation + ": \"true\"; in a release for clusterctl with cert-manager.io/inject-ca-from, and an ExtensionConfig with runtime.cluster.x-k8s.io/inject-ca-from-secret: <namespace>/<Secret with ca.crt>.",
	Check: eachClient(func(b *contract.Bundle, config, annotations contract.Value) contract.Findings {
		injected := annotations.At(injectsCABundle(b)).Text() == "true"
		for _, name := range append(object.CertManagerInjectCAs(), "runtime.cluster.x-k8s.io/inject-ca-from-secret") { // other rules check these
			injected = injected || annotations.At(name).Exists()
		}
		if injected || !config.At("service").Exists() || config.At("caBundle").Text() != "" {
			return nil
		}
		return config.At("caBundle").Finding("caBundle is not populated")
	}),
}, {
	ID:       "webhook/service-namespace",
	Severity: contract.Error,
	Source:   clusterctl("Components YAML"),
	Why:      "A Service in another namespace does not belong to the provider, and any user of that namespace can answer its calls.",
	Fix:      "Set the namespace of the service to the provider's: openshift-cluster-api in a bundle, the name of the Namespace in a release.",
	Check: eachClient(func(b *contract.Bundle, config, _ contract.Value) contract.Findings {
		namespace, target := config.At("service", "namespace"), b.Target()
		if !config.At("service").Exists() || namespace.Text() == target || target == "" {
			return nil
		}
		return namespace.Finding("the namespace is %q, not %s", namespace.Text(), target)
	}),
}, {
	ID:       "webhook/service-port",
	Severity: contract.Error,
	Source:   kubernetes("Service reference", webhooksPage),
	Why:      "The API server calls port 443 by default. If the Service lacks the port, or no container has its targetPort, every call fails.",
	Fix:      "Name a port of the Service, whose targetPort is a port of the container.",
	Check:    eachClient(checkWebhookPort),
}, {
	ID:       "webhook/service-selects-pods",
	Severity: contract.Error,
	Source:   kubernetes("Service reference", webhooksPage),
	Why:      "A Service without pods answers no call, and with failurePolicy Fail every request for the kinds of the webhook fails.",
	Fix:      "Set the selector of the Service to labels of the pod template.",
	Check: eachClient(func(b *contract.Bundle, config, _ contract.Value) contract.Findings {
		service := serviceOf(b, config)
		if service == nil || len(podsOf(b, service)) > 0 {
			return nil
		}
		return service.At("spec", "selector").Finding("the Service of a webhook selects no pods of the provider")
	}),
}, {
	ID:       "webhook/rule-resource-in-bundle",
	Severity: contract.Warning,
	Source:   kubernetes("Matching requests: rules", webhooksPage),
	Why:      "A webhook for a resource that does not exist is never called, so its defaults and checks do not apply. Usually, the rule has the kind instead of the plural.",
	Fix:      "Name the resource by its plural, as the CRD does.",
	Check:    checkWebhookResources,
}, {
	ID:       "webhook/rule-group",
	Severity: contract.Warning,
	Source:   kubernetes("Matching requests: rules", webhooksPage),
	Why:      "A webhook for a group that does not exist is never called, so its defaults and checks do not apply. Usually, the group is misspelled.",
	Fix:      "Correct the group. Ignore the finding if another provider has it.",
	Check:    checkWebhookGroups,
}, {
	ID:       "webhook/rule-version-served",
	Severity: contract.Warning,
	Source:   kubernetes("Matching requests: rules", webhooksPage),
	Why:      "A webhook for versions that are not served is never called.",
	Fix:      "Name a version that the CRD serves.",
	Check:    checkWebhookVersions,
}, {
	ID:       "webhook/cert-mounted",
	Severity: contract.Error,
	Source:   clusterctl("Components YAML transformations"),
	Why:      "The server of a webhook presents the certificate in the Secret of the Certificate, or of the Service's annotation. If its pods mount another Secret, every call fails.",
	Fix:      "Mount the Secret, or correct its name.",
	Check:    checkCertificateMounted,
}, {
	ID:       "webhook/path-kind",
	Severity: contract.Error,
	Source:   kubernetes("Service reference", webhooksPage),
	Why:      "The path belongs to another kind than the rules. The controller cannot decode the objects that it gets, and rejects them.",
	Fix:      "Set the path to that of the kind: /validate-GROUP-VERSION-KIND or /mutate-GROUP-VERSION-KIND, with - in place of each dot.",
	Check:    checkWebhookPaths,
}}

func checkCARefs(b *contract.Bundle) (findings contract.Findings) {
	for _, o := range b.OfKind(object.MutatingWebhookConfiguration, object.ValidatingWebhookConfiguration, object.CustomResourceDefinition) {
		if annotation := o.At("metadata", "annotations", object.CertManagerInjectCA); annotation.Exists() && !namesOne(annotation) {
			findings = append(findings, annotation.Finding("invalid value %q: want <namespace>/<name>", annotation.Text())...)
		}
	}
	unknown := eachClient(func(b *contract.Bundle, _, annotations contract.Value) contract.Findings {
		annotation := annotations.At(object.CertManagerInjectCA)
		if !namesOne(annotation) || contract.HasVariable(annotation.Text()) || certificateOf(b, annotations) != nil {
			return nil
		}
		return annotation.Finding("Certificate %s not found in the components", annotation.Text())
	})
	return append(findings, unknown(b)...)
}

// namesOne reports whether an annotation is a namespace and a name.
func namesOne(annotation contract.Value) bool { return strings.Count(annotation.Text(), "/") == 1 }

// certificateOf returns the Certificate in an annotation, in any namespace, because clusterctl sets it; nil if it is
// missing.
func certificateOf(b *contract.Bundle, annotations contract.Value) *contract.Object {
	_, name, _ := strings.Cut(annotations.At(object.CertManagerInjectCA).Text(), "/")
	for _, o := range b.OfKind(object.Certificate) {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// checkCertificates ignores CA certificates: the pods derive their serving certificates from them.
func checkCertificates(b *contract.Bundle) contract.Findings {
	return eachClient(func(b *contract.Bundle, config, annotations contract.Value) (findings contract.Findings) {
		certificate, service := certificateOf(b, annotations), config.At("service")
		if certificate == nil || !service.Exists() || certificate.At("spec", "isCA").Text() == "true" {
			return nil
		}
		host := service.At("name").Text() + "." + service.At("namespace").Text() + ".svc"
		if names := certificate.At("spec", "dnsNames"); !contract.Contains(names, host) {
			findings = append(findings, names.Finding("dnsNames does not include %s", host)...)
		}
		return findings
	})(b)
}

// checkCertificateMounted compares the Secret of the certificate of each webhook with those that pods mount.
func checkCertificateMounted(b *contract.Bundle) (findings contract.Findings) {
	mounted := map[string]bool{}
	for _, o := range b.Objects {
		for _, ref := range references(contract.PodSpec(o)) {
			mounted[ref.kind+" "+ref.name.Text()] = true
		}
	}
	seen := map[*contract.Object]bool{}
	return eachClient(func(b *contract.Bundle, config, annotations contract.Value) contract.Findings {
		secret := contract.Value{}
		if certificate := certificateOf(b, annotations); certificate != nil && certificate.At("spec", "isCA").Text() != "true" {
			secret = certificate.At("spec", "secretName")
		} else if service := serviceOf(b, config); service != nil && len(podsOf(b, service)) > 0 {
			secret = service.At("metadata", "annotations", injectsCertificate(b))
		}
		if !secret.Exists() || seen[secret.Object] || mounted["Secret "+secret.Text()] {
			return nil
		}
		seen[secret.Object] = true
		return secret.Finding("no pod mounts the Secret %s", secret.Text())
	})(b)
}

// checkWebhookGroups compares with the groups of the bundle's CRDs, of Kubernetes, of cert-manager and of Cluster API.
func checkWebhookGroups(b *contract.Bundle) contract.Findings {
	return eachValue("webhooks[].rules[].apiGroups[]", func(group contract.Value) contract.Findings {
		name := group.Text()
		isOwn := slices.ContainsFunc(b.Definitions, func(d *contract.Definition) bool { return d.Group == name })
		if isOwn || name == "*" || isKnownGroup(name) || slices.Contains(knownGroups, name) || contract.HasVariable(name) {
			return nil
		}
		return group.Finding("no CRD of the provider has the group %s", name)
	}, object.MutatingWebhookConfiguration, object.ValidatingWebhookConfiguration)(b)
}

// eachClient returns a check of all clientConfigs of webhooks and of Runtime Extensions, with the annotations of their objects. It skips CRDs
// with a single version: they need no conversion.
func eachClient(check func(b *contract.Bundle, config, annotations contract.Value) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) (findings contract.Findings) {
		for _, o := range b.OfKind(object.MutatingWebhookConfiguration, object.ValidatingWebhookConfiguration, object.CustomResourceDefinition, object.ExtensionConfig) {
			annotations := o.At("metadata", "annotations")
			if o.Kind == object.ExtensionConfig {
				findings = append(findings, check(b, o.At("spec", "clientConfig"), annotations)...)
			}
			for _, webhook := range o.At("webhooks").Items() {
				findings = append(findings, check(b, webhook.At("clientConfig"), annotations)...)
			}
			conversion := o.At("spec", "conversion")
			if o.At("spec", "versions").Length() > 1 && conversion.At("strategy").Text() == "Webhook" {
				findings = append(findings, check(b, conversion.At("webhook", "clientConfig"), annotations)...)
			}
		}
		return findings
	}
}

func checkWebhookPort(b *contract.Bundle, config, _ contract.Value) contract.Findings {
	service := serviceOf(b, config)
	if service == nil {
		return nil // reported by another rule
	}
	number := config.At("service", "port")
	wanted := cmp.Or(number.Text(), "443")
	for _, port := range service.At("spec", "ports").Items() {
		if port.At("port").Text() != wanted {
			continue
		}
		target := cmp.Or(port.At("targetPort").Text(), wanted)
		for _, template := range podsOf(b, service) {
			if hasPort(template, target) {
				return nil
			}
		}
		if len(podsOf(b, service)) == 0 {
			return nil // reported by another rule
		}
		return number.Finding("no container has port %s, to which Service %s forwards port %s", target, service.Name, wanted)
	}
	return number.Finding("Service %s has no port %s", service.Name, wanted)
}

// hasPort reports whether a container has a port by name or number. A numeric port need not be declared.
func hasPort(template contract.Value, port string) bool {
	if _, err := strconv.Atoi(port); err == nil {
		return true
	}
	for _, container := range template.At("spec", "containers").Items() {
		if portNamed(container, port).Exists() {
			return true
		}
	}
	return false
}

// eachWebhookResource checks the resources of webhooks in the groups of the bundle's CRDs.
func eachWebhookResource(b *contract.Bundle, check func(rule, resource contract.Value, group string, of *contract.Definition) contract.Findings) contract.Findings {
	return eachWebhook(func(webhook contract.Value) (findings contract.Findings) {
		for _, rule := range webhook.At("rules").Items() {
			for _, group := range rule.At("apiGroups").Texts() {
				inGroup := contract.Filter(b.Definitions, func(d *contract.Definition) bool { return d.Group == group })
				for _, resource := range rule.At("resources").Items() {
					plural, _, _ := strings.Cut(resource.Text(), "/")
					if plural == "*" || len(inGroup) == 0 {
						continue
					}
					var of *contract.Definition
					for _, d := range inGroup {
						if lowerPlural(d) == plural {
							of = d
						}
					}
					findings = append(findings, check(rule, resource, group, of)...)
				}
			}
		}
		return findings
	})(b)
}

func checkWebhookResources(b *contract.Bundle) contract.Findings {
	return eachWebhookResource(b, func(_, resource contract.Value, group string, of *contract.Definition) contract.Findings {
		if of != nil {
			return nil
		}
		return resource.Finding("no CRD of the provider defines %s in %s", resource.Text(), group)
	})
}

func checkWebhookVersions(b *contract.Bundle) contract.Findings {
	return eachWebhookResource(b, func(rule, resource contract.Value, _ string, of *contract.Definition) contract.Findings {
		versions := rule.At("apiVersions")
		if of == nil || contract.Contains(versions, "*") || slices.ContainsFunc(versions.Texts(), func(name string) bool { return contract.ServesVersion(of.Object, name) }) {
			return nil
		}
		return versions.Finding("no version in the rule serves %s; served: %s", resource.Text(), contract.ServedVersions(of.Object))
	})
}

// checkWebhookPaths compares paths in the form of controller-runtime with the resources of the rules.
func checkWebhookPaths(b *contract.Bundle) contract.Findings {
	return eachWebhook(func(webhook contract.Value) (findings contract.Findings) {
		path, isForKinds := webhook.At("clientConfig", "service", "path"), false
		for _, d := range b.Definitions {
			group, kind := "-"+strings.ReplaceAll(d.Group, ".", "-")+"-", "-"+strings.ToLower(d.DefinedKind)
			action, version, _ := strings.Cut(strings.TrimSuffix(path.Text(), kind), group)
			isPath := (action == "/validate" || action == "/mutate") && strings.HasSuffix(path.Text(), kind) && capicontract.IsVersion(version)
			isAsked := asks(webhook.At("rules"), schema.GroupResource{Group: d.Group, Resource: lowerPlural(d)})
			if isForKinds = isForKinds || isAsked; isPath && !isAsked {
				findings = path.Finding("the path is for the kind %s, which no rule of the webhook matches", d.DefinedKind)
			}
		}
		if !isForKinds && webhook.At("rules").Length() > 0 {
			return nil // reported by another rule
		}
		return findings
	})(b)
}

const webhooksPage = "reference/access-authn-authz/extensible-admission-controllers/"

// serviceOf returns the Service of a webhook; nil if the bundle does not have it.
func serviceOf(b *contract.Bundle, config contract.Value) *contract.Object {
	for _, o := range b.OfKind(object.Service) {
		if o.Name == config.At("service", "name").Text() && o.Namespace == config.At("service", "namespace").Text() {
			return o
		}
	}
	return nil
}

// podsOf returns the pod templates that a Service selects.
func podsOf(b *contract.Bundle, service *contract.Object) (templates []contract.Value) {
	wanted := k8slabels.Set(service.At("spec", "selector").StringMap())
	for _, o := range b.Objects {
		template, makesPods := contract.PodTemplate(o)
		if makesPods && o.Namespace == service.Namespace && len(wanted) > 0 && k8slabels.SelectorFromSet(wanted).Matches(k8slabels.Set(template.At("metadata", "labels").StringMap())) {
			templates = append(templates, template)
		}
	}
	return templates
}

// asks reports whether a rule of a webhook or policy matches one of the operations on a resource; any operation if there are none.
func asks(rules contract.Value, resource schema.GroupResource, operations ...string) bool {
	covers := func(list contract.Value, text string) bool {
		return contract.Contains(list, "*") || contract.Contains(list, text)
	}
	for _, rule := range rules.Items() {
		if covers(rule.At("apiGroups"), resource.Group) && covers(rule.At("resources"), resource.Resource) &&
			(len(operations) == 0 || slices.ContainsFunc(operations, func(operation string) bool { return covers(rule.At("operations"), operation) })) {
			return true
		}
	}
	return false
}
