// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Rejection is the reason why a pod is rejected.
type Rejection struct {
	// Object is the kind, namespace and name of the object that has or creates the pod.
	Object string `json:"object"`
	// Field is the path in the object.
	Field string `json:"field"`
	// Message is the reason.
	Message string `json:"message"`
}

// String returns the rejection as one line.
func (r Rejection) String() string { return fmt.Sprintf("%s %s: %s", r.Object, r.Field, r.Message) }

// StrictNamespace returns the reasons why the strict namespace of manifests/components/restricted rejects pods of
// manifests: PodSecurity is "restricted" there, and its service accounts can use the SCCs restricted-v2 and nonroot-v2.
// If all pods are admitted, the result is empty, not nil. The library of the API server decides about PodSecurity; the
// decision about SCCs is a model that was not verified on an OpenShift cluster.
func StrictNamespace(manifests []byte) []Rejection {
	rejections := []Rejection{}
	for _, o := range Read(extractor.Bundle{Manifests: manifests}).Objects {
		spec := PodSpec(o)
		if !spec.Exists() {
			continue
		}
		for _, finding := range strictFindings(o, spec) {
			rejections = append(rejections, Rejection{finding.Object, finding.Field, finding.Message})
		}
	}
	return rejections
}

func strictFindings(o *Object, spec Value) Findings {
	template, _ := PodTemplate(o)
	required := template.At("metadata", "annotations", object.RequiredSCC)
	if scc := required.Text(); scc != "" && scc != restrictedV2 && scc != nonrootV2 {
		return required.Finding("the pod requires SCC %s, which the namespace does not allow", scc)
	}
	completed, err := completedSpec(spec)
	if err != nil {
		return spec.Finding("invalid pod: %v", err)
	}
	findings, err := podSecurityOf(completed)
	if err != nil {
		return spec.Finding("invalid pod: %v", err)
	}
	return append(CheckRequiredSCC(o), findings...)
}

// completedSpec returns the spec of a pod with the fields that its SCC fills in.
func completedSpec(spec Value) (Value, error) {
	content, document := spec.Map(), yaml.Node{}
	if content == nil {
		return Value{}, errors.New("want a mapping with fields")
	}
	completeBySCC(content)
	data, err := json.Marshal(content)
	if err == nil {
		err = yaml.Unmarshal(data, &document)
	}
	if err != nil {
		return Value{}, err
	}
	return spec.child(document.Content[0], spec.Path), nil
}

// A model of OpenShift's admission by SCC, written from its documentation and not verified on an OpenShift cluster.
//
// Security context constraints (SCC) come first and complete a pod; PodSecurity admission sees the result. A pod that names
// its SCC in an annotation gets that one or is rejected. Others get restricted-v2: every service account may use it.

const (
	restrictedV2 = "restricted-v2"
	nonrootV2    = "nonroot-v2"
)

// completeBySCC adds the fields that restricted-v2 and nonroot-v2 set to the spec of a pod.
func completeBySCC(spec map[string]any) {
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
