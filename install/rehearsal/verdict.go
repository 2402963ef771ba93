// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/internal/podproblem"
)

const (
	// problemLimit is how long a pod may have a problem, such as a missing node or image, until it has failed: many end by themselves.
	problemLimit = time.Minute
	// limit is how long a pod without a problem may take to start.
	limit = 10 * time.Minute
	// again is the age at which a pod that has ended is replaced by another one.
	again = 5 * time.Minute
)

// State is the state of a pod of a rehearsal.
type State int

// The states.
const (
	// Starting: the pod may still start.
	Starting State = iota
	// Proved: all its containers were started.
	Proved
	// Unproven: the container with the installer's image does not work, so nothing is known about the others.
	Unproven
	// Failed: the pod does not start. It can start later, unless it has ended.
	Failed
)

// Verdict is the state of a pod, with the cause if it is known.
type Verdict struct {
	State State
	Cause string
}

// Judge returns the verdict on a pod of a plan. actual is the pod in the cluster; admission plugins can have changed it. events are about the
// pods of the namespace.
func Judge(planned *corev1.Pod, actual corev1.Pod, events []corev1.Event, now time.Time) Verdict {
	started := map[string]bool{}
	for _, status := range actual.Status.ContainerStatuses {
		ended := status.State.Terminated
		started[status.Name] = status.State.Running != nil || ended != nil && ended.ExitCode == 0
	}
	all := true
	for _, container := range planned.Spec.Containers {
		all = all && started[container.Name]
	}
	if all {
		return Verdict{State: Proved}
	}
	if cause := ofCopier(actual); cause != "" {
		return Verdict{Unproven, cause}
	}
	cause, age := podproblem.OfPods([]corev1.Pod{actual}, events), now.Sub(actual.CreationTimestamp.Time)
	switch {
	case hasEnded(actual), cause != "" && age > problemLimit:
		return Verdict{Failed, cmp.Or(cause, "pod "+actual.Namespace+"/"+actual.Name+" has ended")}
	case age > limit:
		return Verdict{Failed, fmt.Sprintf("pod %s/%s has not started after %s", actual.Namespace, actual.Name, limit)}
	}
	return Verdict{Starting, cause}
}

// ofCopier returns the problem of the container that copies the program.
func ofCopier(pod corev1.Pod) string {
	for _, status := range pod.Status.InitContainerStatuses {
		waiting := status.State.Waiting
		if status.Name != copier || waiting != nil && waiting.Reason == "ErrImagePull" { // kubelet tries again before it waits
			continue
		}
		only := pod
		only.Status = corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{status}}
		return podproblem.Of(only)
	}
	return ""
}

// Repeats reports whether a pod that has failed is replaced by another one: it has ended, some time ago.
func Repeats(v Verdict, pod corev1.Pod, now time.Time) bool {
	return v.State == Failed && hasEnded(pod) && now.Sub(pod.CreationTimestamp.Time) > again
}

func hasEnded(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}
