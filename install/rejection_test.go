// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusals are causes of the API server to reject an object of the last component of a release.
var refusals = []struct {
	name string
	// arrange prepares the cluster, and returns a function that removes the cause;
	// nil if the cause is in the release.
	arrange func(h *harness) (undo func())
	// denied is the name of a ConfigMap that cannot be created once the cause is in
	// effect.
	denied  string
	refused string
	names   []string
	// reason is the expected reason; empty means ObjectsRefused.
	reason string
	// missing is set if a permission is missing.
	missing bool
}{
	{name: "a field that cannot be changed", refused: `apiVersion: v1
kind: Service
metadata: {name: fixed, namespace: openshift-cluster-api}
spec: {clusterIP: None, selector: {app: x}, ports: [{port: 1}]}
`, names: []string{"Service openshift-cluster-api/fixed", "clusterIP", "may not change once set"}},
	{name: "a kind without CRD", refused: `apiVersion: example.com/v1
kind: Unheard
metadata: {name: of, namespace: openshift-cluster-api}
`, names: []string{"Unheard openshift-cluster-api/of", "no matches for kind"}},
	{name: "a CRD that is not valid", refused: strings.Replace(crd("machines", "Machine"), "type: object", "type: thing", 1), names: []string{"CustomResourceDefinition " + machines, "spec.validation.openAPIV3Schema.type"}},
	{name: "a policy with a parameter of no kind", refused: `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: parameters.example.com}
spec:
  paramKind: {apiVersion: parameters.example.com/v1, kind: Limit}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations: [{expression: "false"}]
`, names: []string{"get", `resource "limits"`, "parameters.example.com"}, reason: "ObjectsForbidden", missing: true},
	{name: "a missing namespace", refused: `apiVersion: v1
kind: ServiceAccount
metadata: {name: lost, namespace: kube-nowhere}
`, names: []string{"serviceaccounts", "lost", "kube-nowhere"}, reason: "ObjectsForbidden", missing: true},
	{name: "a value that is not valid", refused: `apiVersion: v1
kind: Service
metadata: {name: invalid, namespace: openshift-cluster-api}
spec: {ports: [{port: 0}]}
`, names: []string{"Service openshift-cluster-api/invalid", "spec.ports[0].port", "between 1 and 65535"}},
	{name: "a right that is missing", refused: `apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: forbidden, namespace: openshift-cluster-api}
spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}
`, arrange: func(h *harness) func() { return h.without("poddisruptionbudgets") },
		names: []string{"is forbidden", "poddisruptionbudgets"}, reason: "ObjectsForbidden", missing: true},
	{name: "a quota that is used up", refused: configMap("counted", ""), arrange: func(h *harness) func() {
		return h.exhaust("count/configmaps", "1")
	}, denied: "probe", names: []string{"exceeded quota: test", "count/configmaps=1"}, reason: "ObjectsForbidden"},
	{name: "an admission policy that denies", refused: configMap("denied", "by policy"), arrange: (*harness).deny,
		denied: "denied", names: []string{"ConfigMap openshift-cluster-api/denied", "test.example.com", "no object of this name"}},
}

// deny creates an admission policy that rejects the objects denied and capa.
func (h *harness) deny() (undo func()) {
	h.Helper()
	undoBinding := h.add(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: test.example.com}
spec: {policyName: test.example.com, validationActions: [Deny]}
`)
	undoPolicy := h.add(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: test.example.com}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["", apps], apiVersions: [v1], operations: [CREATE], resources: [configmaps, deployments]}]}
  validations: [{expression: "!(object.metadata.name in ['denied', 'capa'])", message: "no object of this name"}]
`)
	return func() { undoBinding(); undoPolicy() }
}

// exhaust creates a quota for a resource that is used up.
func (h *harness) exhaust(resource, count string) (undo func()) {
	h.Helper()
	undo = h.add(fmt.Sprintf("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: test, namespace: %s}\nspec: {hard: {%s: %q}}\n", namespace, resource, count))
	counted := h.object("v1/ResourceQuota", namespace, "test") // plays the quota controller, which this cluster lacks
	counted.Object["status"] = map[string]any{"hard": map[string]any{resource: count}, "used": map[string]any{resource: count}}
	h.must(h.Status().Update(h.Context(), counted))
	return undo
}

// Nothing of a release is written if the API server rejects an object of its last component.
func TestRejection_BeforeTheFirstWrite(t *testing.T) {
	h := newHarness(t)
	fixed := strings.Replace(refusals[0].refused, "clusterIP: None, ", "", 1)
	good := func() { h.release(core(), aws(fixed)) }
	good()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	for i, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			defer h.reportTo(t)()
			var undo func()
			if test.arrange != nil {
				undo = test.arrange(h)
			}
			if test.denied != "" {
				h.awaitDenied(test.denied)
			}
			beside := fmt.Sprintf("beside-%d", i)
			bad := []string{test.refused}
			if i > 0 {
				bad = append(bad, fixed)
			}
			h.release(core(configMap(beside, "")), aws(bad...))
			names := test.names
			if !test.missing {
				names = append(names, "phase cluster-api-provider-aws")
			}
			h.reports("InstallerDegraded", cmp.Or(test.reason, "ObjectsRefused"), names...)
			if isTrue := meta.IsStatusConditionTrue(h.clusterAPI().Status.Conditions, "Degraded"); isTrue == (test.reason == "ObjectsForbidden") {
				t.Errorf("Degraded is True: %t; only a terminal rejection sets Degraded immediately\n%s", isTrue, h.conditions())
			}
			if h.object("v1/ConfigMap", namespace, beside) != nil {
				t.Error("an object of the core provider was written")
			}
			if s := h.clusterAPI().Status; !meta.IsStatusConditionTrue(s.Conditions, "Available") || s.CurrentVersion == s.DesiredVersion {
				t.Errorf("the previous version is not available:\n%s", h.conditions())
			}
			if undo != nil {
				undo()
			} else {
				good()
			}
			h.eventually("the release is installed after the cause is removed", func() error {
				if s := h.clusterAPI().Status; !s.Settled() || len(s.Versions) != 1 {
					return fmt.Errorf("current %q, desired %q", s.CurrentVersion, s.DesiredVersion)
				}
				return nil
			})
		})
	}
}

// awaitDenied waits until a ConfigMap with a name cannot be created.
func (h *harness) awaitDenied(name string) {
	h.Helper()
	object := &unstructured.Unstructured{}
	h.must(decode(configMap(name, ""), object))
	h.eventually("ConfigMap "+name+" is denied", func() error {
		if err := h.Create(h.Context(), object.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsInternalError(err) {
			return fmt.Errorf("a dry run of the creation succeeds: %v", err)
		}
		return nil
	})
}

// add creates an object, and returns a function that deletes it.
func (h *harness) add(manifest string) (remove func()) {
	h.Helper()
	remove = h.put(manifest)
	h.Cleanup(remove)
	return remove
}

// put creates an object, and returns a function that deletes it.
func (h *harness) put(manifest string) (remove func()) {
	h.Helper()
	object := &unstructured.Unstructured{}
	h.must(decode(manifest, object))
	h.must(h.Create(h.Context(), object))
	return func() { h.must(client.IgnoreNotFound(h.Delete(context.Background(), object))) }
}

// without revokes the installer's permission to write a resource in the providers'
// namespace, and returns a function that grants it again.
func (h *harness) without(resource string) (grant func()) {
	h.Helper()
	role := h.object("rbac.authorization.k8s.io/v1/Role", namespace, "openshift-capi-installer-providers")
	granted := role.DeepCopy()
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	for _, rule := range rules {
		rule := rule.(map[string]any)
		if resources := rule["resources"].([]any); len(resources) == 1 && resources[0] == resource {
			rule["verbs"] = []any{"get", "list", "watch"}
		}
	}
	h.must(unstructured.SetNestedSlice(role.Object, rules, "rules"))
	h.must(h.Update(h.Context(), role))
	grant = func() {
		granted.SetResourceVersion("")
		h.must(h.Update(context.Background(), granted))
	}
	h.Cleanup(grant)
	return grant
}

// During an outage whose repair is rejected, Available is not True: the rejected phase has no results, and its objects decide.
func TestAvailable_PhaseRejectedDuringAnOutage(t *testing.T) {
	h := newInstallation(t, core(), aws())
	undo := h.deny()
	h.awaitDenied("denied")
	h.must(h.Delete(t.Context(), h.object("apps/v1/Deployment", namespace, "capa")))
	h.eventually("Available is not True", func() error {
		if meta.IsStatusConditionTrue(h.clusterAPI().Status.Conditions, "Available") {
			return fmt.Errorf("it is:\n%s", h.conditions())
		}
		return nil
	})
	undo()
	h.settled("4.22.0-1")
}
