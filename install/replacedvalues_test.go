// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

package install_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replacing is an admission policy that replaces the replicas of a Deployment, and its binding.
var replacing = []string{`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: replicas.example.com}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  matchConditions: [{name: name, expression: "object.metadata.name == 'capi'"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{spec: Object.spec{replicas: 2}}"}
`, `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: replicas.example.com}
spec: {policyName: replicas.example.com}
`}

// An admission policy that replaces a value in each write is named once and causes no further writes. The value is restored when the
// policy is gone and another actor has changed the object.
func TestDrift_ValueReplacedByAnAdmissionPolicy(t *testing.T) {
	h := newInstallation(t, core(), aws())
	for _, manifest := range replacing {
		h.add(manifest)
	}
	replicas := func(want int64) {
		h.Helper()
		h.eventually(fmt.Sprintf("the Deployment has %d replicas", want), func() error {
			if got := field(h.object(deploymentKind, namespace, "capi"), "spec", "replicas"); got != want {
				h.touchDeployment("capi")
				return fmt.Errorf("it has %v", got)
			}
			return nil
		})
	}
	replicas(2) // the policy takes effect some time after its creation
	h.reportsEvent("ValuesReplaced", "Deployment openshift-cluster-api/capi (fields .spec.replicas)")
	h.settled("4.22.0-1")
	h.wrote.Clear()
	h.reconcileTimes(3)
	if writes := h.otherWrites(); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
	for _, kind := range []string{"MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"} {
		h.must(h.Delete(t.Context(), h.object("admissionregistration.k8s.io/v1/"+kind, "", "replicas.example.com")))
	}
	replicas(1)
	if events := h.events("ValuesReplaced"); len(events) != 1 {
		t.Errorf("events are %q, want one", events)
	}
}

// touchDeployment changes a field of a Deployment that its manifest does not have.
func (h *harness) touchDeployment(name string) {
	h.Helper()
	deployment := h.object(deploymentKind, namespace, name)
	patch := fmt.Appendf(nil, `{"spec": {"minReadySeconds": %d}}`, deployment.GetGeneration())
	h.must(h.Patch(h.Context(), deployment, client.RawPatch(types.MergePatchType, patch)))
}
