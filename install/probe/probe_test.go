// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func TestProgress(t *testing.T) {
	const (
		deploymentHead = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, generation: 2}\nspec: {replicas: 2}\n"
		crdHead        = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: c, generation: 1}\n"
		preflightHead  = "apiVersion: apiextensions.openshift.io/v1alpha1\nkind: CompatibilityRequirement\nmetadata: {name: r, generation: 3}\n"
	)
	for name, test := range map[string]struct {
		object  string
		want    types.ProbeStatus
		message string
	}{
		"a Deployment without status": {
			deploymentHead, types.ProbeStatusUnknown, "has not observed the current generation"},
		"a Deployment with an outdated status": {
			deploymentHead + "status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2}", types.ProbeStatusUnknown, "has not observed the current generation"},
		"a Deployment with one of two replicas available": {
			deploymentHead + "status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}", types.ProbeStatusFalse, "2 of 2 replicas updated, 1 available"},
		"a Deployment that still runs an old replica": {
			deploymentHead + "status: {observedGeneration: 2, replicas: 3, updatedReplicas: 2, availableReplicas: 2}", types.ProbeStatusFalse, "2 of 2 replicas updated"},
		"a Deployment whose pods are rejected": {
			deploymentHead + "status: {observedGeneration: 2, conditions: [{type: ReplicaFailure, status: \"True\", reason: FailedCreate, message: quota}]}", types.ProbeStatusFalse, "0 of 2 replicas updated"},
		"an available Deployment": {
			deploymentHead + "status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2}", types.ProbeStatusTrue, ""},
		"a Deployment that makes no progress": {
			deploymentHead + "status: {observedGeneration: 2, conditions: [{type: Progressing, status: \"False\", reason: ProgressDeadlineExceeded, message: timed out}]}", types.ProbeStatusFalse, "ProgressDeadlineExceeded: timed out"},
		"a Deployment with the default number of replicas": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, generation: 1}\nstatus: {observedGeneration: 1}", types.ProbeStatusFalse, "0 of 1 replicas updated"},
		"a Deployment scaled to zero": {
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, generation: 1}\nspec: {replicas: 0}\nstatus: {observedGeneration: 1}", types.ProbeStatusTrue, ""},
		"a new CRD": {
			crdHead, types.ProbeStatusUnknown, "not yet Established"},
		"a CRD whose names are taken": {
			crdHead + "status: {conditions: [{type: Established, status: \"True\"}, {type: NamesAccepted, status: \"False\", reason: Conflict, message: plural}]}", types.ProbeStatusFalse, "NamesAccepted is False: Conflict: plural"},
		"a CRD that is served": {
			crdHead + "status: {conditions: [{type: Established, status: \"True\"}, {type: NamesAccepted, status: \"True\"}]}", types.ProbeStatusTrue, ""},
		"a requirement without status": {
			preflightHead, types.ProbeStatusUnknown, "not yet Admitted"},
		"a requirement with an outdated status": {
			preflightHead + "status: {conditions: [{type: Admitted, status: \"True\", observedGeneration: 2}]}", types.ProbeStatusUnknown, "not yet Admitted"},
		"a requirement that is not met": {
			preflightHead + "status: {conditions: [{type: Admitted, status: \"True\"}, {type: Compatible, status: \"False\", reason: RequirementsNotMet, message: field x}]}", types.ProbeStatusFalse, "field x"},
		"a requirement that is not met and was not admitted either": {
			preflightHead + "status: {conditions: [{type: Compatible, status: \"False\", reason: RequirementsNotMet, message: field x}]}", types.ProbeStatusFalse, "Compatible is False: RequirementsNotMet: field x"},
		"a requirement that is not admitted": {
			preflightHead + "status: {conditions: [{type: Admitted, status: \"False\", reason: Invalid, message: no such version}]}", types.ProbeStatusFalse, "Admitted is False: Invalid: no such version"},
		"a requirement whose CRD is being checked": {
			preflightHead + "status: {conditions: [{type: Admitted, status: \"True\"}]}", types.ProbeStatusUnknown, "not yet Compatible"},
		"a requirement whose CRD cannot be checked": {
			preflightHead + "status: {conditions: [{type: Admitted, status: \"True\"}, {type: Compatible, status: \"Unknown\", reason: Waiting, message: no CRD}]}", types.ProbeStatusFalse, "Compatible is Unknown: Waiting: no CRD"},
		"a requirement that is met": {
			preflightHead + "status: {conditions: [{type: Admitted, status: \"True\"}, {type: Compatible, status: \"True\"}]}", types.ProbeStatusTrue, ""},
		"any other object": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}", types.ProbeStatusTrue, ""},
		"a kind of the same name in another group": {
			"apiVersion: example.com/v1\nkind: Deployment\nmetadata: {name: d}", types.ProbeStatusTrue, ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(test.object), obj); err != nil {
				t.Fatal(err)
			}
			result := Progress().Probe(obj)
			if message := strings.Join(result.Messages, "; "); result.Status != test.want || !strings.Contains(message, test.message) {
				t.Errorf("%s %q, want %s %q", result.Status, message, test.want, test.message)
			}
		})
	}
}

func TestAvailable_DeploymentDuringRollout(t *testing.T) {
	for status, want := range map[string]types.ProbeStatus{
		"True": types.ProbeStatusTrue, "False": types.ProbeStatusFalse,
	} {
		obj := &unstructured.Unstructured{}
		text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, generation: 2}\nspec: {replicas: 2}\n" +
			"status: {observedGeneration: 2, updatedReplicas: 1, conditions: [{type: Available, status: \"" + status + "\"}]}"
		if err := yaml.Unmarshal([]byte(text), obj); err != nil {
			t.Fatal(err)
		}
		if got := Available().Probe(obj).Status; got != want {
			t.Errorf("Available %s: %s, want %s", status, got, want)
		}
	}
}

// A CRD is available while it is served; compatibility and the names of other CRDs concern only a rollout.
func TestAvailable_OtherKinds(t *testing.T) {
	for text, want := range map[string]types.ProbeStatus{
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nstatus: {conditions: [{type: Established, status: \"True\"}]}":             types.ProbeStatusTrue,
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nstatus: {conditions: [{type: Established, status: \"False\"}]}":            types.ProbeStatusFalse,
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition":                                                                            types.ProbeStatusUnknown,
		"apiVersion: apiextensions.openshift.io/v1alpha1\nkind: CompatibilityRequirement\nstatus: {conditions: [{type: Compatible, status: \"False\"}]}": types.ProbeStatusTrue,
		"apiVersion: v1\nkind: ConfigMap": types.ProbeStatusTrue,
	} {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), obj); err != nil {
			t.Fatal(err)
		}
		if got := Available().Probe(obj).Status; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestUnlessAdopted(t *testing.T) {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("apps/v1")
	obj.SetKind("Deployment")
	obj.SetGeneration(1)
	prober := UnlessAdopted(2, Progress())
	for annotation, want := range map[string]types.ProbeStatus{
		"": types.ProbeStatusUnknown, "1": types.ProbeStatusUnknown, "2": types.ProbeStatusUnknown, "3": types.ProbeStatusTrue, "x": types.ProbeStatusUnknown,
	} {
		obj.SetAnnotations(map[string]string{v1alpha1.RevisionAnnotation: annotation})
		if got := prober.Probe(obj).Status; got != want {
			t.Errorf("revision %q: %s, want %s", annotation, got, want)
		}
	}
}
