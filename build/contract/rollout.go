// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// rolloutRules are about what happens when the installer brings, takes over and keeps the objects.
var rolloutRules = []Rule{{
	ID:       "installer/adopt-annotation",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Rollout"),
	Why:      "An object that is there and is not the installer's stops the release, unless the manifest lets it be taken over. Another value than those that are known means nothing, and the release stops.",
	Fix:      "Write " + v1alpha1.AdoptAnnotation + ": " + v1alpha1.AdoptAlways + ", or leave the annotation out.",
	Check: eachObject(func(o *Object) []Finding {
		annotation := o.At("metadata", "annotations", v1alpha1.AdoptAnnotation)
		if !annotation.Exists() || slices.Contains([]string{v1alpha1.AdoptAlways, "never"}, annotation.Text()) {
			return nil
		}
		return []Finding{annotation.finding("the value %q means nothing", annotation.Text())}
	}),
}, {
	ID:       "installer/protect-infracluster",
	Severity: Info,
	Only:     FormBundle,
	Source:   ours("Rollout"),
	Why:      "With the InfraCluster of the cluster itself go the load balancers, networks and machines that it runs on. An admission policy can keep everybody from deleting it.",
	Fix:      "Add a ValidatingAdmissionPolicy for DELETE of the resource and its binding; the transform \"infra-cluster-protection\" of \"capi-manifests generate\" does it.",
	Check:    checkProtection,
}, {
	ID:       "installer/phase-order",
	Severity: Info,
	Only:     FormBundle,
	Source:   ours("Rollout"),
	Why:      "The objects of a provider besides its CRDs are written in one phase, and nothing in it waits for the provider to run. A webhook that fails closed and is asked about one of them refuses it while the provider is down, also when the installer puts it right.",
	Fix:      "Leave the object or its namespace out of what the webhook is asked about, with objectSelector or namespaceSelector, or have it fail open.",
	Check:    checkPhaseOrder,
}}

func checkProtection(b *Bundle) (findings []Finding) {
	for _, d := range b.definitions {
		if d.Role != infraCluster || d.Template || b.protects(d) {
			continue
		}
		findings = append(findings, d.At("spec", "names", "kind").finding("no admission policy keeps anybody from deleting the %s of the cluster itself", d.Defines))
	}
	return findings
}

// protects says whether a policy of the bundle is asked about the deletion of objects of a kind.
func (b *Bundle) protects(d *definition) bool {
	resource := schema.GroupResource{Group: d.Group, Resource: lowerPlural(d)}
	return slices.ContainsFunc(b.ofKind(validatingPolicyKind), func(policy *Object) bool {
		return asks(policy.At("spec", "matchConstraints", "resourceRules"), resource, "DELETE")
	})
}

func checkPhaseOrder(b *Bundle) []Finding {
	return eachWebhook(func(webhook Value) (findings []Finding) {
		failsOpen := webhook.At("failurePolicy").Text() == "Ignore"
		if failsOpen || narrows(webhook.At("objectSelector")) || narrows(webhook.At("namespaceSelector")) {
			return nil
		}
		for _, o := range b.Objects {
			exempt := o.Kind.Group == admissionGroup || o.Kind == crdKind // no webhook is asked about the one, and the other comes before
			if !exempt && asks(webhook.At("rules"), resourceOf(o), "CREATE", "UPDATE") {
				findings = append(findings, webhook.At("name").finding("the webhook is asked about %s, which comes in the same phase", o))
			}
		}
		return findings
	})(b)
}

// narrows says whether a selector leaves anything out.
func narrows(selector Value) bool {
	return selector.At("matchLabels").Exists() || selector.At("matchExpressions").Exists()
}

// resourceOf guesses the resource of an object's kind.
func resourceOf(o *Object) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(o.Kind.WithVersion(""))
	return plural.GroupResource()
}

// asks says whether one of the rules of a webhook or a policy covers one of the operations on a resource.
func asks(rules Value, resource schema.GroupResource, operations ...string) bool {
	covers := func(list Value, text string) bool { return contains(list, "*") || contains(list, text) }
	for _, rule := range rules.Items() {
		if covers(rule.At("apiGroups"), resource.Group) && covers(rule.At("resources"), resource.Resource) &&
			slices.ContainsFunc(operations, func(operation string) bool { return covers(rule.At("operations"), operation) }) {
			return true
		}
	}
	return false
}

var validatingPolicyKind = schema.GroupKind{Group: admissionGroup, Kind: "ValidatingAdmissionPolicy"}
