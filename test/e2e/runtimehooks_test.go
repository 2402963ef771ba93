// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package e2e

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
)

// A release whose core provider does not call a hook of a registered Runtime Extension is refused before anything is written: by a condition, an event and
// "capi-manifests status". It continues after a corrected release, and after the command of the message.
func TestRuntimeHooks_UpgradeThatCallsThemNoMore(t *testing.T) {
	h := newHarness(t)
	const v1, v2 = "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hooks.runtime.cluster.x-k8s.io/v1beta1"
	kind := strings.NewReplacer("infrastructure.cluster.x-k8s.io", "runtime.cluster.x-k8s.io", "Namespaced", "Cluster", "schema: {openAPIV3Schema: {type: object}}",
		"schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}").Replace(crd("ExtensionConfig"))
	images := func(hooks, settings string) map[string]string {
		serving := strings.Replace(kind, "metadata:\n", "metadata:\n  annotations: {"+v1alpha1.RuntimeHooksAnnotation+": "+hooks+"}\n", 1)
		return h.imagesOf(core("v1.0.0", serving), aws("v1.0.0", configMap(settings)))
	}
	pods := h.deploy("4.22.0", images(v1, "first"))
	release := func(hooks, settings string) {
		t.Helper()
		h.must(h.Update(t.Context(), pods.requested("4.22.0", images(hooks, settings))))
	}
	h.settled("4.22.0-1")
	h.during(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": map[string]any{"name": "site"}, "status": map[string]any{"handlers": []any{map[string]any{
			"name": "create.site", "requestHook": map[string]any{"apiVersion": v1, "hook": "BeforeClusterCreate"},
		}}},
	}})
	before := h.fingerprints()

	refused := []string{"ExtensionConfig site", "create.site (BeforeClusterCreate of " + v1 + ")", "register a server with listed hooks, or delete the ExtensionConfig"}
	refuses := func() string {
		h.reports("InstallerDegraded", "RiskNotAccepted", refused...)
		h.untouched(before)
		return h.statusOf(2, append(refused, "RiskNotAccepted", "Next steps")...)
	}
	release(v2, "second")
	refuses()
	h.eventually("an event names the handler", func() error {
		events, err := h.events("InstallerDegraded")
		if err == nil && !slices.ContainsFunc(events, func(event string) bool {
			return strings.HasPrefix(event, "Warning ") && strings.Contains(event, refused[1])
		}) {
			err = errors.New(strings.Join(events, "\n"))
		}
		return err
	})
	release(v1+" "+v2, "second")
	h.settled("4.22.0-3")
	before = h.fingerprints()

	release(v2, "third")
	h.shell(regexp.MustCompile(`kubectl patch clusterapi [^\n]*acceptedRisks[^\n]*'`).FindString(refuses()))
	h.settled("4.22.0-4")
	h.statusOf(0, "AT REST")
}

// statusOf runs "capi-manifests status" and returns its output, which must have the parts.
func (h *harness) statusOf(want int, parts ...string) string {
	h.Helper()
	var stdout, stderr strings.Builder
	code := command.Run(h.Context(), "", []string{"status", "--kubeconfig", h.Cluster.Kubeconfig}, strings.NewReader(""), &stdout, &stderr)
	for _, part := range parts {
		if !strings.Contains(stdout.String(), part) {
			h.Errorf("status lacks %q", part)
		}
	}
	if code != want || h.Failed() {
		h.Fatalf("exit code %d, want %d\n%s%s", code, want, &stdout, &stderr)
	}
	return stdout.String()
}
