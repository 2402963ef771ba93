// SPDX-License-Identifier: Apache-2.0

package contract

// webhookRules are about webhooks of admission and of conversion.
var webhookRules = []Rule{{
	ID:       "webhook/service-exists",
	Severity: Error,
	Source:   clusterctl("Components YAML"),
	Why:      "The API server calls a webhook by its Service. Without it, requests for the kinds of the webhook fail, and so does everything that uses them.",
	Fix:      "Add the Service to the bundle, or name the one that is there, with its namespace.",
	Check: eachClient(func(b *Bundle, config, _ Value) []Finding {
		service := config.At("service")
		namespace, name := service.At("namespace").Text(), service.At("name").Text()
		if !service.Exists() || b.has(serviceKind, namespace, name) {
			return nil
		}
		return []Finding{service.At("name").finding("there is no Service %s/%s in the bundle", namespace, name)}
	}),
}, {
	ID:       "webhook/ca-injection",
	Severity: Error,
	Source:   kubernetes("Authenticate webhooks", "reference/access-authn-authz/extensible-admission-controllers/"),
	Why:      "The API server trusts the certificate of a Service in the cluster only by the caBundle. Somebody has to fill it in.",
	Fix:      "Annotate the object with service.beta.openshift.io/inject-cabundle: \"true\".",
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
