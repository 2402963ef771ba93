// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/probing"
)

// availabilityProbe is the probe of an installer for available objects.
func (b *env) availabilityProbe() boxcutter.ObjectReconcileOption {
	b.Helper()
	enough, err := probing.NewCELProbe("has(self.status.availableReplicas) && self.status.availableReplicas == self.spec.replicas", "too few replicas are available")
	b.must(err)
	return boxcutter.WithProbe(boxcutter.ProgressProbeType, probing.And{
		&probing.GroupKindSelector{
			GroupKind: schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
			Prober: probing.And{
				&probing.ConditionProbe{Type: "NamesAccepted", Status: "True"}, &probing.ConditionProbe{Type: "Established", Status: "True"},
			},
		},
		&probing.GroupKindSelector{
			GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"},
			Prober: &probing.ObservedGenerationProbe{Prober: probing.And{
				&probing.ConditionProbe{Type: "Available", Status: "True"},
				&probing.FieldsEqualProbe{FieldA: ".spec.replicas", FieldB: ".status.updatedReplicas"},
				enough,
			}},
		},
	})
}

func (b *env) replicas(name string, count int, node string) *unstructured.Unstructured {
	return b.object(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s}, spec: {
		replicas: %[2]d, selector: {matchLabels: {app: %[1]s}}, strategy: {rollingUpdate: {maxUnavailable: 0}},
		template: {metadata: {labels: {app: %[1]s}}, spec: {nodeSelector: {kubernetes.io/hostname: %[3]s}, containers: [{name: main, image: none}]}}}}`,
		name, count, node)
}

func TestReconcile_PhasesWaitForProbes(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	crd := b.definition("Widget")
	b.removeAtEnd(crd)
	widget := b.object(`{apiVersion: %s.example.com/v1, kind: Widget, metadata: {name: first}}`, b.namespace)
	widget.SetNamespace(b.namespace)
	deployment := b.replicas("controller", 2, "node")
	last := b.configMap("last", "red")
	revision := b.revision(1, b.owner("owner"), nil,
		phase("definitions", crd), phase("controller", deployment), phase("objects", widget, last))
	b.eventually("the revision is complete", func() bool {
		result := b.reconcile(revision, b.availabilityProbe())
		if reached := len(result.GetPhases()); reached < 3 && b.get(last) != nil {
			t.Fatalf("phase %d started before the earlier ones were available\n%s", reached+1, result)
		}
		return result.IsComplete()
	})
	available, _, _ := unstructured.NestedInt64(b.get(deployment).Object, "status", "availableReplicas")
	if available != 2 || b.get(widget) == nil {
		t.Errorf("%d replicas are available", available)
	}
	b.eventually("the revision is gone", func() bool { return b.teardown(revision).IsComplete() })
}

func TestRollout_UnavailableDeploymentHoldsPhase(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner, last := b.owner("owner"), b.configMap("last", "red")
	revision := b.revision(1, owner, nil, phase("controller", b.replicas("controller", 1, "nowhere")), phase("next", last))
	var probed boxcutter.RevisionReconcileOption = b.availabilityProbe()
	b.eventually("the deployment reports that it is unavailable", func() bool {
		result := b.reconcile(revision, probed)
		object := result.GetPhases()[0].GetObjects()[0]
		answer := object.ProbeResults().Type(boxcutter.ProgressProbeType)
		return answer.Status == probing.StatusFalse && slices.Contains(answer.Messages, "too few replicas are available") &&
			strings.Contains(result.String(), "too few replicas are available")
	})
	b.catchUp(revision)
	b.expectActions(b.reconcile(revision, probed), machinery.ActionIdle)
	if b.get(last) != nil {
		t.Error("the next phase started")
	}
	// A revision that can run takes over and becomes complete.
	next := b.revision(2, owner, nil, phase("controller", b.replicas("controller", 1, "node")), phase("next", last))
	b.install(next, probed)
}

func TestRollout_CRDWithTakenNamesHoldsPhase(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	first, second := b.definition("Widget"), b.definition("Gadget")
	b.removeAtEnd(first)
	b.removeAtEnd(second)
	b.must(unstructured.SetNestedField(second.Object, "widget", "spec", "names", "singular"))
	b.create(first)
	b.eventually("the names of the first are accepted", func() bool {
		return (&probing.ConditionProbe{Type: "Established", Status: "True"}).Probe(b.get(first)).Status == probing.StatusTrue
	})
	revision := b.revision(1, b.owner("owner"), nil, phase("main", second))
	b.eventually("the CRD reports that its names are taken", func() bool {
		result := b.reconcile(revision, b.availabilityProbe())
		answer := result.GetPhases()[0].GetObjects()[0].ProbeResults().Type(boxcutter.ProgressProbeType)
		return answer.Status == probing.StatusFalse && !result.IsComplete()
	})
	b.must(b.user.Delete(t.Context(), first.DeepCopy()))
	b.eventually("the names are free", func() bool { return b.reconcile(revision, b.availabilityProbe()).IsComplete() })
}
