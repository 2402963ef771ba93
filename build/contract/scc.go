// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"

	"github.com/capi-installer/capi-installer/internal/object"
)

// A model of OpenShift's admission by SCC, written from its documentation and not verified on an OpenShift cluster.
//
// Security context constraints (SCC) come first and complete a pod; PodSecurity admission sees the result. A pod that names
// its SCC in an annotation gets that one or is rejected. Others get restricted-v2: every service account may use it.

const (
	restrictedV2 = "restricted-v2"
	nonrootV2    = "nonroot-v2"
)

// completeBySCC adds the fields that the SCC sets to the spec of a pod.
func completeBySCC(spec map[string]any, scc string) {
	if scc != "" && scc != restrictedV2 && scc != nonrootV2 {
		return
	}
	pod := object.EnsureMap(spec, "securityContext")
	object.SetDefault(pod, "runAsNonRoot", true)
	object.SetDefault(pod, "seccompProfile", map[string]any{"type": "RuntimeDefault"})
	for _, container := range object.ContainersOf(spec) {
		context := object.EnsureMap(container, "securityContext")
		object.SetDefault(context, "allowPrivilegeEscalation", false)
		capabilities := object.EnsureMap(context, "capabilities")
		object.SetDefault(capabilities, "drop", []any{"ALL"})
	}
}

// CheckRequiredSCC finds pods that require restricted-v2 and set IDs: this SCC takes IDs from a range of the
// namespace.
func CheckRequiredSCC(o *Object) (findings Findings) {
	template, makesPods := PodTemplate(o)
	if !makesPods || template.At("metadata", "annotations", object.RequiredSCC).Text() != restrictedV2 {
		return nil
	}
	spec := PodSpec(o)
	fields := []Value{
		spec.At("securityContext", "runAsUser"), spec.At("securityContext", "fsGroup"), spec.At("securityContext", "supplementalGroups"),
	}
	for container := range Containers(o) {
		fields = append(fields, container.At("securityContext", "runAsUser"))
	}
	for _, field := range slices.DeleteFunc(fields, func(v Value) bool { return !v.Exists() }) {
		findings = append(findings, field.Finding("the pod requires SCC %s and sets an ID, which that SCC rejects", restrictedV2)...)
	}
	return findings
}
