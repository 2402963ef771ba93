// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

const webhooksPage = "reference/access-authn-authz/extensible-admission-controllers/"

// webhookRules are about webhooks of admission and of conversion.
var webhookRules = []Rule{{
	ID:       "webhook/service-exists",
	Severity: Error,
	Source:   clusterctl("Components YAML"),
	Why:      "The API server calls a webhook by its Service. Without it, requests for the kinds of the webhook fail, and so does everything that uses them.",
	Fix:      "Add the Service to the manifests, or name the one that is there, with its namespace.",
	Check: eachClient(func(b *Bundle, config, _ Value) []Finding {
		service := config.At("service")
		namespace, name := service.At("namespace").Text(), service.At("name").Text()
		if !service.Exists() || b.has(serviceKind, namespace, name) {
			return nil
		}
		return []Finding{service.At("name").finding("there is no Service %s/%s of the provider", namespace, name)}
	}),
}, {
	ID:       "webhook/ca-injection",
	Severity: Error,
	Source:   kubernetes("Authenticate webhooks", webhooksPage),
	Why:      "The API server trusts the certificate of a Service in the cluster only by the caBundle. Somebody has to fill it in.",
	Fix:      "Annotate the object with service.beta.openshift.io/inject-cabundle: \"true\"; in a release for clusterctl with cert-manager.io/inject-ca-from.",
	Check: eachClient(func(_ *Bundle, config, annotations Value) []Finding {
		injected := annotations.At("service.beta.openshift.io/inject-cabundle").Text() == "true"
		for _, name := range certManagerAnnotations { // they have a rule of their own
			injected = injected || annotations.At(name).Exists()
		}
		if injected || !config.At("service").Exists() || config.At("caBundle").Text() != "" {
			return nil
		}
		return []Finding{config.At("caBundle").finding("nobody fills in the caBundle")}
	}),
}, {
	ID:       "webhook/service-namespace",
	Severity: Error,
	Source:   clusterctl("Components YAML"),
	Why:      "The webhook of a provider runs where the provider does. A Service in another namespace is none of the provider's, and calls to it go to whoever makes one.",
	Fix:      "Set the namespace of the service to the provider's: openshift-cluster-api in a bundle, that of the Namespace in a release.",
	Check: eachClient(func(b *Bundle, config, _ Value) []Finding {
		namespace, target := config.At("service", "namespace"), b.target()
		if !config.At("service").Exists() || namespace.Text() == target || target == "" {
			return nil
		}
		return []Finding{namespace.finding("the namespace is %q, not %s", namespace.Text(), target)}
	}),
}, {
	ID:       "webhook/service-port",
	Severity: Error,
	Source:   kubernetes("Service reference", webhooksPage),
	Why:      "The API server calls port 443 unless another one is named. A Service that does not have the port, or hands it to a port that no container has, answers no call.",
	Fix:      "Name a port of the Service, whose targetPort is a port of the container.",
	Check:    eachClient(checkWebhookPort),
}, {
	ID:       "webhook/service-selects-pods",
	Severity: Error,
	Source:   kubernetes("Service reference", webhooksPage),
	Why:      "A Service without pods answers no call, and with failurePolicy Fail every request for the kinds of the webhook fails.",
	Fix:      "Give the Service the labels of the pod template for a selector.",
	Check: eachClient(func(b *Bundle, config, _ Value) []Finding {
		service := b.serviceOf(config)
		if service == nil || len(b.podsOf(service)) > 0 {
			return nil
		}
		return []Finding{config.At("service", "name").finding("no pods of the provider have the labels that Service %s selects", service.Name)}
	}),
}, {
	ID:       "webhook/rule-resource-in-bundle",
	Severity: Warning,
	Source:   kubernetes("Matching requests: rules", webhooksPage),
	Why:      "A webhook for a resource that there is not is never called: what it should default or refuse stays as it is. A kind in place of its plural is the usual cause.",
	Fix:      "Name the resource by its plural, as the CRD does.",
	Check:    checkWebhookResources,
}, {
	ID:       "webhook/rule-version-served",
	Severity: Warning,
	Source:   kubernetes("Matching requests: rules", webhooksPage),
	Why:      "A webhook for versions that are not served is never called.",
	Fix:      "Name a version that the CRD serves.",
	Check:    checkWebhookVersions,
}, {
	ID:       "webhook/admission-review-known",
	Severity: Error,
	Source:   kubernetes("Webhook request and response", webhooksPage),
	Why:      "The API server sends reviews of the versions v1 and v1beta1, and refuses a webhook that takes neither.",
	Fix:      "Set admissionReviewVersions to [v1].",
	Check: eachWebhook(func(webhook Value) []Finding {
		if versions := webhook.At("admissionReviewVersions"); !contains(versions, "v1") && !contains(versions, "v1beta1") {
			return []Finding{versions.finding("neither v1 nor v1beta1 is among the versions of the review")}
		}
		return nil
	}),
}, {
	ID:       "webhook/admission-review-v1",
	Severity: Warning,
	Source:   kubernetes("Webhook request and response", webhooksPage),
	Why:      "v1beta1 is the review of an API that is gone since Kubernetes 1.22. The API server sends it still, for as long as it does.",
	Fix:      "Set admissionReviewVersions to [v1].",
	Check: eachWebhook(func(webhook Value) []Finding {
		if versions := webhook.At("admissionReviewVersions"); contains(versions, "v1beta1") && !contains(versions, "v1") {
			return []Finding{versions.finding("v1 is not among the versions of the review")}
		}
		return nil
	}),
}, {
	ID:       "webhook/unique-name",
	Severity: Error,
	Source:   kubernetes("Webhook configuration", webhooksPage),
	Why:      "The API server refuses a configuration in which two webhooks have the same name, or one has a name of less than three parts.",
	Fix:      "Name each webhook like a host, such as validation.examplecluster.infrastructure.cluster.x-k8s.io.",
	Check:    checkWebhookNames,
}, {
	ID:       "webhook/failure-policy",
	Severity: Info,
	Source:   kubernetes("Failure policy", webhooksPage),
	Why:      "While a webhook with failurePolicy Ignore does not answer, everything passes that it would refuse or default.",
	Fix:      "Set failurePolicy to Fail, unless that is meant.",
	Check: eachWebhook(func(webhook Value) []Finding {
		if policy := webhook.At("failurePolicy"); policy.Text() == "Ignore" {
			return []Finding{policy.finding("the webhook is passed over when it does not answer")}
		}
		return nil
	}),
}, {
	ID:       "webhook/no-self-lock",
	Severity: Warning,
	Source:   kubernetes("Avoiding operating on the kube-system namespace", webhooksPage),
	Why:      "A webhook that must agree to every pod or Secret keeps its own pods from starting, and the cluster from healing, when it is down.",
	Fix:      "Leave such kinds out, or exclude the provider's namespace by a namespaceSelector or objectSelector.",
	Check:    eachWebhook(checkSelfLock),
}, {
	ID:       "installer/webhook-namespace-selector",
	Severity: Warning,
	Only:     FormBundle,
	Source:   manifestsGen("Webhooks"),
	Why:      "On OpenShift the objects of Cluster API are in " + v1alpha1.OperandNamespace + ". A webhook for every namespace decides on objects of others, who run a Cluster API of their own.",
	Fix:      "Set namespaceSelector to {matchLabels: {kubernetes.io/metadata.name: " + v1alpha1.OperandNamespace + "}}.",
	Check: eachWebhook(func(webhook Value) []Finding {
		if selector := webhook.At("namespaceSelector"); !selector.At("matchLabels").Exists() && !selector.At("matchExpressions").Exists() {
			return []Finding{selector.finding("the webhook is for every namespace")}
		}
		return nil
	}),
}}

// eachClient makes a check of all webhooks out of one of a webhook's clientConfig,
// which is given the annotations of the object too. Of a CRD with a single version
// nothing is ever converted, so its webhook does not matter.
func eachClient(check func(b *Bundle, config, annotations Value) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, o := range b.ofKind(mutatingKind, validatingKind, crdKind) {
			annotations := o.At("metadata", "annotations")
			for _, webhook := range o.At("webhooks").Items() {
				findings = append(findings, check(b, webhook.At("clientConfig"), annotations)...)
			}
			conversion := o.At("spec", "conversion")
			if o.At("spec", "versions").length() > 1 && conversion.At("strategy").Text() == "Webhook" {
				findings = append(findings, check(b, conversion.At("webhook", "clientConfig"), annotations)...)
			}
		}
		return findings
	}
}

// eachWebhook makes a check of all webhooks of admission out of one of one webhook.
func eachWebhook(check func(webhook Value) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, o := range b.ofKind(mutatingKind, validatingKind) {
			for _, webhook := range o.At("webhooks").Items() {
				findings = append(findings, check(webhook)...)
			}
		}
		return findings
	}
}

// serviceOf is the Service that a webhook names, nil if the bundle has none.
func (b *Bundle) serviceOf(config Value) *Object {
	for _, o := range b.ofKind(serviceKind) {
		if o.Name == config.At("service", "name").Text() && o.Namespace == config.At("service", "namespace").Text() {
			return o
		}
	}
	return nil
}

// podsOf are the pod templates that a Service selects.
func (b *Bundle) podsOf(service *Object) (templates []Value) {
	for _, o := range b.Objects {
		path, makesPods := podSpecs[o.Kind]
		if !makesPods || o.Namespace != service.Namespace {
			continue
		}
		template := o.At(path[:len(path)-1]...)
		wanted, found := 0, 0
		for name, value := range service.At("spec", "selector").Fields() {
			wanted++
			if template.At("metadata", "labels", name).Text() == value.Text() {
				found++
			}
		}
		if wanted > 0 && wanted == found {
			templates = append(templates, template)
		}
	}
	return templates
}

func checkWebhookPort(b *Bundle, config, _ Value) []Finding {
	service := b.serviceOf(config)
	if service == nil {
		return nil // another rule
	}
	number := config.At("service", "port")
	wanted := cmp.Or(number.Text(), "443")
	for _, port := range service.At("spec", "ports").Items() {
		if port.At("port").Text() != wanted {
			continue
		}
		target := cmp.Or(port.At("targetPort").Text(), wanted)
		for _, template := range b.podsOf(service) {
			if hasPort(template, target) {
				return nil
			}
		}
		if len(b.podsOf(service)) == 0 {
			return nil // another rule
		}
		return []Finding{number.finding("no container has the port %s, to which Service %s hands port %s", target, service.Name, wanted)}
	}
	return []Finding{number.finding("Service %s has no port %s", service.Name, wanted)}
}

// hasPort says whether a container has a port by name or number. A number need not be declared.
func hasPort(template Value, port string) bool {
	if _, err := strconv.Atoi(port); err == nil {
		return true
	}
	for _, container := range template.At("spec", "containers").Items() {
		for _, declared := range container.At("ports").Items() {
			if declared.At("name").Text() == port {
				return true
			}
		}
	}
	return false
}

// eachWebhookResource checks the resources of webhooks in groups that the bundle defines kinds in.
func eachWebhookResource(b *Bundle, check func(rule, resource Value, group string, of *definition) []Finding) []Finding {
	return eachWebhook(func(webhook Value) (findings []Finding) {
		for _, rule := range webhook.At("rules").Items() {
			for _, group := range rule.At("apiGroups").texts() {
				inGroup := filter(b.definitions, func(d *definition) bool { return d.Group == group })
				for _, resource := range rule.At("resources").Items() {
					plural, _, _ := strings.Cut(resource.Text(), "/")
					if plural == "*" || len(inGroup) == 0 {
						continue
					}
					var of *definition
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

func checkWebhookResources(b *Bundle) []Finding {
	return eachWebhookResource(b, func(_, resource Value, group string, of *definition) []Finding {
		if of != nil {
			return nil
		}
		return []Finding{resource.finding("no CRD of the provider defines %s in %s", resource.Text(), group)}
	})
}

func checkWebhookVersions(b *Bundle) []Finding {
	return eachWebhookResource(b, func(rule, resource Value, _ string, of *definition) []Finding {
		versions := rule.At("apiVersions")
		if of == nil || contains(versions, "*") || slices.ContainsFunc(versions.texts(), func(name string) bool { return served(of.Object, name) }) {
			return nil
		}
		return []Finding{versions.finding("%s is served in none of these versions; there are %s", resource.Text(), servedVersions(of.Object))}
	})
}

func checkWebhookNames(b *Bundle) (findings []Finding) {
	for _, o := range b.ofKind(mutatingKind, validatingKind) {
		seen := map[string]bool{}
		for _, webhook := range o.At("webhooks").Items() {
			name := webhook.At("name")
			if text := name.Text(); seen[text] {
				findings = append(findings, name.finding("a webhook before has the name %s already", text))
			} else if strings.Count(text, ".") < 2 {
				findings = append(findings, name.finding("%q has less than three parts", text))
			}
			seen[name.Text()] = true
		}
	}
	return findings
}

// checkSelfLock looks for webhooks that must agree to what every pod needs.
func checkSelfLock(webhook Value) (findings []Finding) {
	selects := func(field string) bool {
		selector := webhook.At(field)
		return selector.At("matchLabels").Exists() || selector.At("matchExpressions").Exists()
	}
	if webhook.At("failurePolicy").Text() == "Ignore" || selects("namespaceSelector") || selects("objectSelector") {
		return nil
	}
	for _, rule := range webhook.At("rules").Items() {
		for _, resource := range rule.At("resources").Items() {
			inCore := contains(rule.At("apiGroups"), "") || contains(rule.At("apiGroups"), "apps") || contains(rule.At("apiGroups"), "*")
			if inCore && slices.Contains([]string{"*", "*/*", "pods", "secrets", "configmaps", "serviceaccounts", "deployments", "replicasets"}, resource.Text()) {
				findings = append(findings, resource.finding("the webhook must agree to every request for %s", resource.Text()))
			}
		}
	}
	return findings
}
