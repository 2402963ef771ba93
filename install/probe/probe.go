// SPDX-License-Identifier: Apache-2.0

// Package probe says when an installed object is ready, so that the next phase
// may begin. Each answer names what is missing.
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
)

// Kinds that have a probe; every other object is ready as soon as it exists.
var (
	deployment               = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	customResourceDefinition = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	// CompatibilityRequirement is the kind of the objects in the preflight phase.
	CompatibilityRequirement = schema.GroupKind{Group: "apiextensions.openshift.io", Kind: "CompatibilityRequirement"}
)

// Progress is the probe that a phase waits for.
func Progress() types.Prober {
	return probing.And{
		of(deployment, types.ProbeFunc(available)),
		of(customResourceDefinition, conditions("Established", "NamesAccepted")),
		of(CompatibilityRequirement, types.ProbeFunc(compatible)),
	}
}

// Available is the probe of whether what is installed works, whatever is being
// changed about it: a Deployment has enough replicas, old or new, and a CRD is served.
func Available() types.Prober {
	return probing.And{
		of(deployment, conditions("Available")),
		of(customResourceDefinition, conditions("Established")),
	}
}

// UnlessTakenOver leaves objects that a newer revision has taken over to that one's probe.
func UnlessTakenOver(from int64, prober types.Prober) types.Prober {
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

// conditions is true when all those conditions are.
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

// compatible is true when the cluster's checker enforces a requirement, and the
// CRD that is there fulfils it.
func compatible(obj client.Object) types.ProbeResult {
	admitted, why := Condition(obj, "Admitted")
	met, detail := Condition(obj, "Compatible")
	switch {
	case met == "False":
		return probing.FalseResult("Compatible is False: " + detail)
	case admitted == "":
		return probing.UnknownResult("not yet Admitted: the cluster's CRD compatibility checker has not looked at it, or does not run")
	case admitted != "True":
		return probing.FalseResult("Admitted is " + admitted + ": " + why)
	case met == "":
		return probing.UnknownResult("Admitted, and not yet Compatible: the CRD is being checked")
	case met != "True":
		return probing.FalseResult("Compatible is " + met + ": " + detail)
	default:
		return probing.TrueResult()
	}
}

// Condition returns the status of a condition and its "reason: message". The
// status is empty where the object has no such condition, or one that speaks of
// an older generation.
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

// available is true when the Deployment's controller has seen its newest spec,
// and as many replicas as it asks for run that spec and are available.
func available(obj client.Object) types.ProbeResult {
	content, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return probing.UnknownResult("not an unstructured object")
	}
	if number(content, 0, "status", "observedGeneration") != obj.GetGeneration() {
		return probing.UnknownResult("the newest spec is not yet seen by the Deployment controller")
	}
	wanted := number(content, 1, "spec", "replicas")
	updated := number(content, 0, "status", "updatedReplicas")
	ready := number(content, 0, "status", "availableReplicas")
	old := number(content, 0, "status", "replicas") - updated
	if updated != wanted || ready != wanted || old != 0 {
		return probing.FalseResult(fmt.Sprintf("%d of %d replicas updated, %d available, %d old%s", updated, wanted, ready, old, failure(obj)))
	}
	return probing.TrueResult()
}

// failure is why a Deployment does not get on, as its controller says it.
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
