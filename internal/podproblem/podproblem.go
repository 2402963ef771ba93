// SPDX-License-Identifier: Apache-2.0

// Package podproblem finds the cause that keeps the pods of a Deployment from working, in the words of the kubelet, the
// scheduler and the Deployment controller.
package podproblem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/internal/text"
)

// OfPods returns the cause of the newest pod that has one, with the name of the pod and, after a crash, the command that shows the log; empty if
// all only need time. It reports whether a container crashes again and again. events are about the pods; events of type Warning explain pods
// whose status has no cause.
func OfPods(pods []corev1.Pod, events []corev1.Event) (problem string, crashes bool) {
	newest := slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range newest {
		if !pod.DeletionTimestamp.IsZero() || IsReady(pod, Ever) {
			continue
		}
		if problem := cmp.Or(Of(pod), warning(pod, events), unready(pod)); problem != "" {
			problem = "pod " + pod.Namespace + "/" + pod.Name + ": " + problem
			for _, container := range statuses(pod) {
				if waiting := container.State.Waiting; waiting != nil && waiting.Reason == crashLoop {
					return fmt.Sprintf("%s; the log: kubectl logs --previous %s -n %s -c %s", problem, pod.Name, pod.Namespace, container.Name), container.RestartCount >= manyRestarts
				}
			}
			return problem, false
		}
	}
	return "", false
}

// crashLoop is the reason of a container whose next start the kubelet delays.
const crashLoop = "CrashLoopBackOff"

// manyRestarts is the number of restarts from which a container does not recover by itself: a manager may end once or twice because
// another one is not ready.
const manyRestarts = 3

func statuses(pod corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// OfDeployment returns the cause why a Deployment creates no pods, such as a quota; empty if it does. Its condition keeps the message of the
// first failure, so the newest of the events of type Warning about its ReplicaSets takes precedence.
func OfDeployment(deployment appsv1.Deployment, events []corev1.Event) string {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			last := newest(events, func(about corev1.ObjectReference) bool {
				hash, is := strings.CutPrefix(about.Name, deployment.Name+"-")
				return is && about.Kind == "ReplicaSet" && !strings.Contains(hash, "-")
			})
			return text.Truncate(strings.TrimPrefix(cmp.Or(last.Message, condition.Message), "(combined from similar events): "), maxMessage)
		}
	}
	return ""
}

// Of returns the cause in the status of a pod; empty if there is none.
func Of(pod corev1.Pod) string {
	for _, container := range statuses(pod) {
		if problem := ofContainer(container); problem != "" {
			return "container " + container.Name + ": " + problem
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Reason + ": " + condition.Message
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return withMessage(cmp.Or(pod.Status.Reason, string(pod.Status.Phase)), pod.Status.Message)
	}
	return ""
}

// starting are the reasons of waiting containers without a problem.
var starting = []string{"ContainerCreating", "PodInitializing"}

// ofContainer returns the cause that keeps a container from working: of a crash, its last message.
func ofContainer(container corev1.ContainerStatus) string {
	waiting, last := container.State.Waiting, container.LastTerminationState.Terminated
	if current := container.State.Terminated; current != nil && current.ExitCode != 0 {
		last = current
	}
	switch {
	case waiting != nil && slices.Contains(starting, waiting.Reason), waiting == nil && container.Ready:
		return ""
	case last != nil && (waiting != nil || container.State.Terminated != nil):
		return crash(waiting, *last)
	case waiting != nil:
		return withMessage(waiting.Reason, waiting.Message)
	case last != nil && last.Reason == oomKilled: // it runs again, and is not ready yet
		return fmt.Sprintf("%s, exit code %d, after %d restarts", last.Reason, last.ExitCode, container.RestartCount)
	default:
		return ""
	}
}

// oomKilled is the reason of a container that exceeded its memory limit.
const oomKilled = "OOMKilled"

// crash describes a container that ended, and waits for its restart.
func crash(waiting *corev1.ContainerStateWaiting, last corev1.ContainerStateTerminated) string {
	reason := last.Reason
	if waiting != nil {
		reason = waiting.Reason
		if last.Reason == oomKilled {
			reason += ", " + oomKilled
		}
	}
	return withMessage(fmt.Sprintf("%s, exit code %d", reason, last.ExitCode), cmp.Or(lastLine(last.Message), last.Reason))
}

// warning returns the newest warning about a pod, such as a Secret that a volume needs or a failing probe.
func warning(pod corev1.Pod, events []corev1.Event) string {
	last := newest(events, func(about corev1.ObjectReference) bool { return about.UID == pod.UID })
	return withMessage(last.Reason, lastLine(last.Message))
}

// newest returns the newest event about a selected object; the zero value if there is none.
func newest(events []corev1.Event, selected func(corev1.ObjectReference) bool) (last corev1.Event) {
	for _, event := range events {
		if event.Type == corev1.EventTypeWarning && selected(event.InvolvedObject) && !event.LastTimestamp.Before(&last.LastTimestamp) {
			last = event
		}
	}
	return last
}

// unready names the containers that run, but are not ready: their readiness or startup probes fail.
func unready(pod corev1.Pod) string {
	var names []string
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Running != nil && !container.Ready {
			names = append(names, container.Name)
		}
	}
	if names == nil {
		return ""
	}
	return "container " + strings.Join(names, ", ") + ": runs, but its probe has not succeeded yet"
}

// IsReady reports whether a pod is ready, since a time at the latest.
func IsReady(pod corev1.Pod, since time.Time) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && !condition.LastTransitionTime.After(since)
	})
}

// Ever is later than the clock of any machine.
var Ever = time.Unix(1<<40, 0)

// maxMessage limits a message, in bytes: it becomes a part of a condition.
const maxMessage = 300

func withMessage(reason, message string) string {
	message = text.Truncate(message, maxMessage)
	return strings.TrimSuffix(reason+": "+message, ": ")
}

// lastLine returns the last line of a message. Programs explain their end there.
func lastLine(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
