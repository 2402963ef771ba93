// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/internal/object"
)

// deadWebhook is a webhook for all writes of ConfigMaps in the providers' namespace, whose server does not exist.
const deadWebhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: dead.example.com}
webhooks:
- name: dead.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 1
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: openshift-cluster-api}}
  clientConfig: {service: {name: dead, namespace: openshift-cluster-api, path: /validate}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
`

// denying are an admission policy that rejects all writes of ConfigMaps in the providers' namespace, and its binding.
var denying = []string{`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: denying.example.com}
spec:
  failurePolicy: Fail
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: openshift-cluster-api}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
  validations: [{expression: "false"}]
`, `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: denying.example.com}
spec: {policyName: denying.example.com, validationActions: [Deny]}
`}

// A version that never gets ready has a webhook without a server, or a policy, that rejects the writes of every other version. The way back
// to the installed release stays open, and nothing of the stuck version is left.
func TestVersions_StuckOneInterceptsRequests(t *testing.T) {
	for name, intercepting := range map[string][]string{"webhook": {deadWebhook}, "policy": denying} {
		t.Run(name, func(t *testing.T) {
			h := newInstallation(t, core(configMap("settings", "1")), aws())
			h.release(provider{name: "cluster-api", kind: "core", manifests: append([]string{stuck("capi"), configMap("settings", "2")}, intercepting...)}, aws())
			h.awaitDenied("probe")
			h.release(core(configMap("settings", "3")), aws())
			h.settled("4.22.0-3")
			if names := strings.Join(h.names(), ", "); names != "ConfigMap settings, Deployment capa, Deployment capi" {
				t.Errorf("installed objects are %s", names)
			}
			h.namedInEvents("InterceptorsRemoved", "example.com of version 4.22.0-2")
		})
	}
}

// A webhook that the installed version has too is not changed by a version whose pods never get ready, so the way back needs no command.
func TestVersions_StuckOneLeavesTheInstalledWebhook(t *testing.T) {
	h := newHarness(t)
	sound := strings.Replace(deadWebhook, "failurePolicy: Fail", "failurePolicy: Ignore", 1)
	h.installRelease(core(configMap("settings", "1"), sound), aws())
	h.release(provider{name: "cluster-api", kind: "core", manifests: []string{stuck("capi"), configMap("settings", "2"), deadWebhook}}, aws())
	h.reports("InstallerProgressing", "RollingOut", "4.22.0-2", "Deployment "+namespace+"/capi")
	if policy := object.TextAt(object.MapsAt(h.object(webhookKind, "", "dead.example.com").Object, "webhooks")[0], "failurePolicy"); policy != "Ignore" {
		t.Errorf("the webhook has failure policy %s, want the installed one", policy)
	}
	h.release(core(configMap("settings", "3")), aws())
	h.settled("4.22.0-3")
}

// A webhook that the installed version has too stays, if the pods of its component were ready before another component got stuck. The condition has
// the command that deletes it, and then the way back is open.
func TestVersions_StuckOneHasTheInstalledWebhook(t *testing.T) {
	h := newHarness(t)
	sound := strings.Replace(deadWebhook, "failurePolicy: Fail", "failurePolicy: Ignore", 1)
	h.installRelease(core(configMap("settings", "1"), sound), aws())
	h.release(core(configMap("settings", "2"), deadWebhook), awsWith(stuck("capa")))
	h.awaitDenied("probe")
	h.release(core(configMap("settings", "3")), aws())
	command := "kubectl delete validatingwebhookconfiguration.admissionregistration.k8s.io dead.example.com"
	h.eventually("the condition has the command", func() error {
		for _, condition := range h.clusterAPI().Status.Conditions {
			if condition.Type == "InstallerDegraded" && strings.Contains(condition.Message, command) {
				return nil
			}
		}
		return fmt.Errorf("it has not:\n%s", h.conditions())
	})
	if h.object(webhookKind, "", "dead.example.com") == nil {
		t.Error("the webhook of the installed version was deleted")
	}
	h.must(h.Delete(t.Context(), h.object(webhookKind, "", "dead.example.com")))
	h.settled("4.22.0-3")
}
