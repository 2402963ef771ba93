// SPDX-License-Identifier: Apache-2.0

package podproblem

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// status decodes the status of a pod.
func status(t *testing.T, text string) corev1.Pod {
	t.Helper()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "capi", Name: "manager-x", UID: "1"}}
	if err := yaml.UnmarshalStrict([]byte(text), &pod.Status); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestOfPods_NamesTheCause has the statuses and events that a kubelet of Kubernetes 1.34 wrote.
func TestOfPods_NamesTheCause(t *testing.T) {
	const log = "; the log: kubectl logs --previous manager-x -n capi -c manager"
	for name, c := range map[string]struct{ status, event, want string }{
		"starting": {`containerStatuses: [{name: manager, state: {waiting: {reason: ContainerCreating}}}]`, "", ""},
		"ready":    {`{conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: manager, ready: true, state: {running: {}}}]}`, "Unhealthy", ""},
		"crash": {`containerStatuses: [{name: manager, state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s}}, lastState: {terminated: {exitCode: 1, reason: Error, message: "starting\nflag provided but not defined: -x\n"}}}]`,
			"", "container manager: CrashLoopBackOff, exit code 1: flag provided but not defined: -x" + log},
		"crash without a message": {`containerStatuses: [{name: manager, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 2, reason: Error}}}]`,
			"", "container manager: CrashLoopBackOff, exit code 2: Error" + log},
		"out of memory": {`containerStatuses: [{name: manager, state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]`,
			"", "container manager: CrashLoopBackOff, OOMKilled, exit code 137: OOMKilled" + log},
		"restarted out of memory": {`containerStatuses: [{name: manager, restartCount: 3, state: {running: {}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]`,
			"", "container manager: OOMKilled, exit code 137, after 3 restarts"},
		"image":          {`containerStatuses: [{name: manager, state: {waiting: {reason: ErrImagePull, message: "manifest unknown"}}}]`, "", "container manager: ErrImagePull: manifest unknown"},
		"missing Secret": {`containerStatuses: [{name: manager, state: {waiting: {reason: CreateContainerConfigError, message: "secret \"credentials\" not found"}}}]`, "", `container manager: CreateContainerConfigError: secret "credentials" not found`},
		"missing key":    {`containerStatuses: [{name: manager, state: {waiting: {reason: CreateContainerConfigError, message: "couldn't find key token in Secret capi/credentials"}}}]`, "", "container manager: CreateContainerConfigError: couldn't find key token in Secret capi/credentials"},
		"Secret of a volume": {`containerStatuses: [{name: manager, state: {waiting: {reason: ContainerCreating}}}]`, `FailedMount: MountVolume.SetUp failed for volume "cert": secret "credentials" not found`,
			`FailedMount: MountVolume.SetUp failed for volume "cert": secret "credentials" not found`},
		"failing probe":       {`containerStatuses: [{name: manager, state: {running: {}}}]`, "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500", "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 500"},
		"probe without event": {`containerStatuses: [{name: manager, state: {running: {}}}]`, "", "container manager: runs, but its probe has not succeeded yet"},
		"pending": {`conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."}]`,
			"", "Unschedulable: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
		"evicted": {`{phase: Failed, reason: Evicted, message: "The node was low on resource: memory."}`, "", "Evicted: The node was low on resource: memory."},
	} {
		t.Run(name, func(t *testing.T) {
			var events []corev1.Event
			if reason, message, found := strings.Cut(c.event, ": "); found {
				events = append(events, corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message, InvolvedObject: corev1.ObjectReference{UID: types.UID("1")}})
			}
			want := c.want
			if want != "" {
				want = "pod capi/manager-x: " + want
			}
			if got, crashes := OfPods([]corev1.Pod{status(t, c.status)}, events); got != want || crashes != strings.Contains(c.status, "restartCount: 4") {
				t.Errorf("got %q, %t, want %q", got, crashes, want)
			}
		})
	}
}

// TestOfPods_PrefersTheNewestPod: the pod of the previous ReplicaSet may fail for another cause.
func TestOfPods_PrefersTheNewestPod(t *testing.T) {
	old := status(t, `containerStatuses: [{name: manager, state: {waiting: {reason: ErrImagePull, message: old}}}]`)
	newest := status(t, `containerStatuses: [{name: manager, state: {waiting: {reason: ErrImagePull, message: "`+strings.Repeat("ü", 400)+`"}}}]`)
	newest.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	deleted := newest.DeepCopy()
	deleted.CreationTimestamp, deleted.DeletionTimestamp = metav1.NewTime(time.Unix(2, 0)), &newest.CreationTimestamp
	got, _ := OfPods([]corev1.Pod{old, *deleted, newest}, nil)
	if !strings.Contains(got, "üüü") || len(got) > 2*maxMessage || !strings.HasSuffix(got, "…"+strings.Repeat("ü", maxMessage/4-1)) {
		t.Errorf("got %q", got)
	}
}

// TestOfDeployment_NamesTheNewestCause: the Deployment controller does not replace the message of a condition whose reason is the same.
func TestOfDeployment_NamesTheNewestCause(t *testing.T) {
	deployment := appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "manager-x" is forbidden: exceeded quota: few`},
	}}}
	deployment.Name = "manager"
	events := []corev1.Event{replicaSetEvent("manager-b-x", 3), replicaSetEvent("manager-x", 2), replicaSetEvent("manager-y", 1)}
	for i, want := range []string{"manager-x at 2", "manager-x at 2", "manager-y at 1", "exceeded quota"} {
		if got := OfDeployment(deployment, events[min(i, 3):]); i < 3 && got != want || !strings.Contains(got, want) || OfDeployment(appsv1.Deployment{}, events) != "" {
			t.Errorf("without the first %d events, got %q", i, got)
		}
	}
}

// replicaSetEvent is a warning about a ReplicaSet, at a second.
func replicaSetEvent(name string, second int64) corev1.Event {
	return corev1.Event{
		Type: corev1.EventTypeWarning, InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Name: name},
		LastTimestamp: metav1.NewTime(time.Unix(second, 0)), Message: fmt.Sprintf("(combined from similar events): %s at %d", name, second),
	}
}
