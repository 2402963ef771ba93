// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Pod security is decided by the library of the API server's PodSecurity admission. The library judges a whole pod; to
// find the fields, it judges parts of the pod too: the pod without containers, then each container on its own.

// restricted is the level of pod security that providers should follow.
var restricted = api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}

// evaluator returns the checks of the API server.
var evaluator = sync.OnceValue(func() policy.Evaluator {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(err) // the checks are constants of the library; its tests validate them
	}
	return evaluator
})

// judge decides whether pods with the annotations of one pod are restricted.
type judge struct {
	policy.Evaluator
	metadata metav1.ObjectMeta
}

// results returns one result for each check, in the same order for every pod.
func (j judge) results(spec map[string]any) ([]policy.CheckResult, error) {
	data, err := json.Marshal(spec)
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
	return j.EvaluatePod(restricted, &j.metadata, &pod), nil
}

// forbids reports whether a check forbids a part of a pod, and returns its result. A part that is invalid without the
// rest of its pod is allowed.
func (j judge) forbids(check int, spec map[string]any) (policy.CheckResult, bool) {
	results, err := j.results(spec)
	if err != nil || results[check].Allowed {
		return policy.CheckResult{}, false
	}
	return results[check], true
}

// CheckPodSecurity returns the fields that make PodSecurity admission reject a pod. Pods that the API server cannot
// read have no findings; bundle/object-valid reports them.
func CheckPodSecurity(spec Value) Findings {
	findings, err := podSecurityOf(spec)
	if err != nil {
		return nil
	}
	return findings
}

// podSecurityOf is like checkPodSecurity, and returns an error for a pod that cannot be read.
func podSecurityOf(spec Value) (Findings, error) {
	template, _ := PodTemplate(spec.Object)
	j := judge{evaluator(), metav1.ObjectMeta{Annotations: template.At("metadata", "annotations").StringMap()}}
	pod, _ := known(spec).(map[string]any)
	alone := maps.Clone(pod) // the pod without its containers
	for _, field := range object.ContainerFields() {
		delete(alone, field)
	}
	results, err := j.results(pod)
	if err != nil {
		return nil, err
	}
	ofPod, err := j.results(alone)
	if err != nil {
		return nil, err
	}
	var findings Findings
	for check, result := range ofPod {
		if !result.Allowed {
			findings = append(findings, j.ofPod(check, result, spec)...)
		}
	}
	for _, field := range object.ContainerFields() {
		for _, container := range spec.At(field).Items() {
			findings = append(findings, j.ofContainer(spec, container, field, results, ofPod)...)
		}
	}
	return findings, nil
}

// ofPod returns the findings of a check in a pod without its containers.
func (j judge) ofPod(check int, result policy.CheckResult, spec Value) (findings Findings) {
	for name, value := range spec.Fields() {
		if slices.Contains(object.ContainerFields(), name) {
			continue
		}
		wrap := func(content any) map[string]any { return map[string]any{name: content} }
		for _, cause := range j.causes(check, value, wrap) {
			findings = append(findings, cause.Finding("%s", violates(cause.result))...)
		}
	}
	if len(findings) == 0 { // several fields together
		return spec.Finding("%s", violates(result))
	}
	return findings
}

// ofContainer returns the findings of the checks in a container: one for each forbidden value, and one for everything
// that its security context lacks.
func (j judge) ofContainer(spec, container Value, field string, results, ofPod []policy.CheckResult) (findings Findings) {
	inherited := known(spec.At("securityContext"))
	wrap := func(content any) map[string]any {
		return map[string]any{"securityContext": inherited, field: []any{content}}
	}
	own := container.At("securityContext")
	var lacks []policy.CheckResult
	for check := range results {
		if results[check].Allowed || results[check] == ofPod[check] { // the pod itself has the finding
			continue
		}
		for _, cause := range j.causes(check, container, wrap) {
			switch {
			case cause.Path != container.Path:
				findings = append(findings, cause.Finding("%s", violates(cause.result))...)
			case !own.IsUnknown() && !spec.At("securityContext").IsUnknown():
				lacks = append(lacks, cause.result)
			}
		}
	}
	if len(lacks) > 0 {
		findings = append(findings, own.Finding("%s", violates(lacks...))...)
	}
	return findings
}

// cause is a value that a check forbids.
type cause struct {
	Value
	result policy.CheckResult
}

// causes returns the smallest parts of a value that a check forbids on their own; the value itself if the check forbids
// it even without content. wrap returns a pod with only one value in its place.
func (j judge) causes(check int, v Value, wrap func(any) map[string]any) (found []cause) {
	result, isForbidden := j.forbids(check, wrap(known(v)))
	if !isForbidden {
		return nil
	}
	if _, always := j.forbids(check, wrap(emptied(v))); !always {
		for name, field := range v.Fields() {
			found = append(found, j.causes(check, field, func(content any) map[string]any { return wrap(named(v, name, content)) })...)
		}
		for _, item := range v.Items() {
			found = append(found, j.causes(check, item, func(content any) map[string]any { return wrap([]any{content}) })...)
		}
	}
	if len(found) == 0 {
		return []cause{{v, result}}
	}
	return found
}

// violates returns a message in the words of the API server.
func violates(results ...policy.CheckResult) string {
	aggregate := policy.AggregateCheckResults(results)
	return `violates PodSecurity "restricted": ` + aggregate.ForbiddenDetail()
}

// named returns a mapping with one field of v, and with its name for the message.
func named(v Value, field string, content any) map[string]any {
	part := map[string]any{field: content}
	if name := v.At("name").Text(); name != "" {
		part["name"] = name
	}
	return part
}

// emptied returns a mapping with only its name, an empty list, or nil for a scalar.
func emptied(v Value) any {
	switch v.Node.Kind {
	case yaml.MappingNode:
		return named(v, "name", nil)
	case yaml.SequenceNode:
		return []any{}
	default:
		return nil
	}
}

// known returns the content of a value without the scalars that depend on variables; nil for a value that is invalid.
func known(v Value) any {
	var content any
	if !v.Exists() || v.Node.Decode(&content) != nil {
		return nil
	}
	return withoutVariables(content)
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
