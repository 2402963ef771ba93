// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// restricted is the level of pod security that providers should follow.
var restricted = api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}

// evaluator returns the checks of the API server's PodSecurity admission.
var evaluator = sync.OnceValue(func() policy.Evaluator {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(err) // the checks are constants of the library; its tests validate them
	}
	return evaluator
})

// CheckPodSecurity returns a finding if PodSecurity admission rejects a pod, with the message of the API server: it names each
// container and field. Pods that the API server cannot read have no finding, because bundle/object-valid reports them, and neither do
// pods whose security context depends on a variable.
func CheckPodSecurity(spec Value) Findings {
	isUnknown := spec.At("securityContext").IsUnknown()
	for container := range ContainersOf(spec) {
		isUnknown = isUnknown || container.At("securityContext").IsUnknown()
	}
	content := known(spec)
	if content == nil || isUnknown {
		return nil
	}
	findings, err := podSecurityOf(spec, content)
	if err != nil {
		return nil
	}
	return findings
}

// podSecurityOf judges the content of the spec of a pod. The finding is at its security context. It returns an error for a pod that cannot be read.
func podSecurityOf(spec Value, content map[string]any) (Findings, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	var pod corev1.PodSpec
	if err := json.Unmarshal(data, &pod); err != nil {
		return nil, err
	}
	for i := range pod.Volumes {
		if volume := &pod.Volumes[i]; volume.VolumeSource == (corev1.VolumeSource{}) { // as the API server before admission
			volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	}
	template, _ := PodTemplate(spec.Object)
	metadata := &metav1.ObjectMeta{Annotations: template.At("metadata", "annotations").StringMap()}
	result := policy.AggregateCheckResults(evaluator().EvaluatePod(restricted, metadata, &pod))
	if result.Allowed {
		return nil, nil
	}
	return spec.At("securityContext").Finding(`violates PodSecurity "restricted": %s`, result.ForbiddenDetail()), nil
}

// known returns a mapping without the scalars that depend on variables; nil for another or an invalid value.
func known(v Value) map[string]any {
	content, _ := withoutVariables(v.Map()).(map[string]any)
	return content
}

// withoutVariables removes the texts with variables.
func withoutVariables(content any) any {
	switch content := content.(type) {
	case string:
		if HasVariable(content) {
			return nil
		}
	case []any:
		for i := range content {
			content[i] = withoutVariables(content[i])
		}
	case map[string]any:
		for name, value := range content {
			content[name] = withoutVariables(value)
		}
	}
	return content
}

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
	content := known(spec)
	if content == nil {
		return spec.Finding("invalid pod: want a mapping with fields")
	}
	completeBySCC(content)
	findings, err := podSecurityOf(spec, content)
	if err != nil {
		return spec.Finding("invalid pod: %v", err)
	}
	return append(CheckRequiredSCC(o), findings...)
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
