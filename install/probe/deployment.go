// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// available succeeds if the Deployment controller has observed the current
// generation, and the updated and available replicas equal spec.replicas.
func available(obj client.Object) types.ProbeResult {
	content, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return probing.UnknownResult("not an unstructured object")
	}
	if number(content, 0, "status", "observedGeneration") != obj.GetGeneration() {
		return probing.UnknownResult("the Deployment controller has not observed the current generation")
	}
	desired := number(content, 1, "spec", "replicas")
	updated := number(content, 0, "status", "updatedReplicas")
	ready := number(content, 0, "status", "availableReplicas")
	old := number(content, 0, "status", "replicas") - updated
	if updated != desired || ready != desired || old != 0 {
		return probing.FalseResult(fmt.Sprintf("%d of %d replicas updated, %d available, %d old%s", updated, desired, ready, old, failure(obj)))
	}
	return probing.TrueResult()
}

// failure returns why a Deployment makes no progress, from its conditions.
func failure(obj client.Object) string {
	if status, detail := Condition(obj, "ReplicaFailure"); status == "True" {
		return ", " + detail
	}
	if status, detail := Condition(obj, "Progressing"); status == "False" {
		return ", " + detail
	}
	return ""
}

func number(obj *unstructured.Unstructured, absent int64, path ...string) int64 {
	value, found, err := unstructured.NestedInt64(obj.Object, path...)
	if err != nil || !found {
		return absent
	}
	return value
}
