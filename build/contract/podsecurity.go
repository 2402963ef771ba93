// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
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
	data, err := spec.JSON()
	var pod corev1.PodSpec
	if err != nil || json.Unmarshal(data, &pod) != nil || isUnknown {
		return nil
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
		return nil
	}
	return spec.At("securityContext").Finding(`violates PodSecurity "restricted": %s`, result.ForbiddenDetail())
}
