// SPDX-License-Identifier: Apache-2.0

// Package probe has the probes that decide when an installed object is ready, so
// that the next phase can begin. Each result states why an object is not ready.
package probe

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Compatible is the condition of a CompatibilityRequirement whose CRD meets it.
const Compatible = "Compatible"

// CompatibilityRequirement is the kind of the objects in the preflight phase.
var CompatibilityRequirement = object.CompatibilityRequirement

// Progress returns the probe that completes a phase. Objects of other kinds are ready once they exist.
func Progress() types.Prober {
	return probing.And{
		of(object.Deployment, types.ProbeFunc(available)),
		of(object.CustomResourceDefinition, conditions("Established", "NamesAccepted")),
		of(CompatibilityRequirement, types.ProbeFunc(compatible)),
	}
}

// Available returns the probe for the availability of an installed version, also during
// a rollout: a Deployment has enough replicas, old or new, and a CRD is served.
func Available() types.Prober {
	return probing.And{
		of(object.Deployment, conditions("Available")),
		of(object.CustomResourceDefinition, conditions("Established")),
	}
}

// UnlessAdopted returns a prober that skips the objects that a newer revision has adopted;
// that revision probes them.
func UnlessAdopted(from int64, prober types.Prober) types.Prober {
	return types.ProbeFunc(func(obj client.Object) types.ProbeResult {
		holder, err := strconv.ParseInt(obj.GetAnnotations()[v1alpha1.RevisionAnnotation], 10, 64)
		if err == nil && holder > from {
			return probing.TrueResult()
		}
		return prober.Probe(obj)
	})
}

func of(kind schema.GroupKind, prober types.Prober) types.Prober {
	return &probing.GroupKindSelector{GroupKind: kind, Prober: prober}
}

// conditions returns a prober that succeeds if all the conditions are true.
func conditions(names ...string) types.Prober {
	return types.ProbeFunc(func(obj client.Object) types.ProbeResult {
		for _, name := range names {
			status, detail := Condition(obj, name)
			switch {
			case status == "":
				return probing.UnknownResult(fmt.Sprintf("not yet %s", name))
			case status != "True":
				return probing.FalseResult(fmt.Sprintf("%s is %s: %s", name, status, detail))
			}
		}
		return probing.TrueResult()
	})
}

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

// failure returns why a Deployment makes no progress, from its condition; package podproblem explains it later.
func failure(obj client.Object) string {
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

// compatible succeeds if the CRD compatibility checker of the cluster enforces a
// requirement and the existing CRD meets it.
func compatible(obj client.Object) types.ProbeResult {
	admitted, why := Condition(obj, "Admitted")
	met, detail := Condition(obj, Compatible)
	switch {
	case met == "False":
		return probing.FalseResult("Compatible is False: " + detail)
	case admitted == "":
		return probing.UnknownResult("not yet Admitted: the CRD compatibility checker of the cluster has not processed it, or is not running")
	case admitted != "True":
		return probing.FalseResult("Admitted is " + admitted + ": " + why)
	case met == "":
		return probing.UnknownResult("Admitted, not yet Compatible: the check of the CRD is in progress")
	case met != "True":
		return probing.FalseResult("Compatible is " + met + ": " + detail)
	default:
		return probing.TrueResult()
	}
}

// Condition returns the status of a condition and its "reason: message". The status is
// empty if the condition is missing or has an older observedGeneration.
func Condition(obj client.Object, name string) (status, detail string) {
	content, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return "", ""
	}
	list, _, _ := unstructured.NestedSlice(content.Object, "status", "conditions")
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if condition["type"] != name {
			continue
		}
		if observed, found := condition["observedGeneration"].(int64); found && observed != obj.GetGeneration() {
			return "", ""
		}
		status, _ = condition["status"].(string)
		return status, fmt.Sprintf("%v: %v", condition["reason"], condition["message"])
	}
	return "", ""
}
