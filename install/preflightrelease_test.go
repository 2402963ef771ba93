// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// otherSelector is the manifest of the Deployment capa with another immutable field.
func otherSelector() string {
	return strings.ReplaceAll(deployment("capa", placeholder), "{app: capa}", "{app: capa, generation: second}")
}

// awsWith is the provider aws with these manifests only.
func awsWith(manifests ...string) provider {
	return provider{name: "cluster-api-provider-aws", kind: "infrastructure", platform: "AWS", manifests: manifests}
}

// A release with an immutable field in its last phase and an object of another owner stops before its first write, with both in one
// message. It continues when the administrator has made the named changes, and not before: the installed version does not create the
// deleted Deployment again.
func TestPreflight_NamesAllAndContinues(t *testing.T) {
	h := newInstallation(t, core(configMap("settings", "1")), aws())
	theirs := &corev1.ConfigMap{}
	theirs.Namespace, theirs.Name = namespace, "theirs"
	h.must(h.Create(t.Context(), theirs))

	h.release(core(configMap("settings", "2")), awsWith(otherSelector(), configMap("theirs", "ours")))
	command := "kubectl delete deployment.apps capa -n " + namespace
	h.reports("InstallerDegraded", "Collision", "no owner: ConfigMap "+namespace+"/theirs", "phase cluster-api-provider-aws: Deployment "+namespace+"/capa", "spec.selector", command)
	if value := h.value("settings"); value != "1" {
		t.Errorf("an object of the first phase was written: %q", value)
	}
	h.must(h.Delete(t.Context(), h.object("apps/v1/Deployment", namespace, "capa"), client.PropagationPolicy("Background")))
	h.eventually("the Deployment is no longer named", func() error {
		if text := h.conditions(); strings.Contains(text, command) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	h.reconcileTimes(2)
	if h.object("apps/v1/Deployment", namespace, "capa") != nil || h.value("settings") != "1" {
		t.Error("the installed version has created the Deployment again, or the release has begun")
	}
	h.must(h.Delete(t.Context(), theirs))
	h.settled("4.22.0-2")
	if h.value("settings") != "2" {
		t.Error("the release is not installed")
	}
}

// A breaking change of a CRD stops a release only while the CRD has instances and the risk is not accepted for this release.
func TestPreflight_BreakingCRDChange(t *testing.T) {
	h := newHarness(t)
	withProperties := func(properties string) string {
		return strings.Replace(crd("machines", "Machine"), "x-kubernetes-preserve-unknown-fields: true", "properties: {spec: {type: object, properties: "+properties+"}}", 1)
	}
	h.installRelease(core(configMap("settings", "1")), aws(withProperties("{mode: {type: string, enum: [a, b]}}")))

	h.release(core(configMap("settings", "1")), aws(withProperties("{mode: {type: string, enum: [a, b, c]}}")))
	h.settled("4.22.0-2") // no instance, and no breaking change
	remove := h.add("{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: Machine, metadata: {name: m, namespace: " + namespace + "}, spec: {mode: c}}")

	narrow := aws(withProperties("{mode: {type: string, enum: [a]}}"))
	h.release(core(configMap("settings", "2")), narrow)
	h.reports("InstallerDegraded", "RiskNotAccepted", "CustomResourceDefinition "+machines, "v1beta1 spec.mode: fewer values are allowed", "it has instances", `"acceptedRisks":[{"name":"BreakingCRDChange","release":"4.22.0"}]`)
	if h.value("settings") != "1" {
		t.Error("an object was written")
	}
	h.accept(v1alpha1.AcceptedRisk{Name: v1alpha1.BreakingCRDChange, Release: "4.21.0"}) // another release
	h.reconcileTimes(2)
	h.reports("InstallerDegraded", "RiskNotAccepted", "CustomResourceDefinition "+machines)
	h.accept(v1alpha1.AcceptedRisk{Name: v1alpha1.BreakingCRDChange, Release: "4.22.0"})
	h.settled("4.22.0-3")

	h.accept()
	h.release(core(configMap("settings", "3")), aws(withProperties("{}")))
	h.reports("InstallerDegraded", "RiskNotAccepted", "field removed")
	remove()
	h.settled("4.22.0-4")
}

// accept sets spec.acceptedRisks.
func (h *harness) accept(risks ...v1alpha1.AcceptedRisk) {
	h.Helper()
	h.setSpec(func(spec *v1alpha1.ClusterAPISpec) { spec.AcceptedRisks = risks })
}
