// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

// pod returns a pod of the installer with the state of its container.
func pod(ready bool, state, last corev1.ContainerState) corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "capi-installer-0"},
		Status: corev1.PodStatus{
			Conditions:        []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: status}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "capi-installer", Ready: ready, State: state, LastTerminationState: last}},
		},
	}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: reason, Message: message}}
}

func TestProcess_Causes(t *testing.T) {
	since := func(seconds int) corev1.ContainerState {
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-time.Duration(seconds) * time.Second))}}
	}
	none, run := corev1.ContainerState{}, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pending := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"},
	}}}
	evicted := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory"}}
	current := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1}
	quota := appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "x" is forbidden: exceeded quota`},
	}}
	for name, test := range map[string]struct {
		replicas int32
		status   appsv1.DeploymentStatus
		pods     []corev1.Pod
		held     bool
		state    ProcessState
		cause    string
	}{
		"works":                  {1, current, []corev1.Pod{pod(true, run, none)}, true, Running, ""},
		"waits for the lease":    {1, current, []corev1.Pod{pod(true, run, none)}, false, Starting, "no process holds Lease ns/capi-installer"},
		"creating":               {1, current, []corev1.Pod{pod(false, waiting("ContainerCreating", ""), none)}, false, Starting, "is being started"},
		"before its first probe": {1, current, []corev1.Pod{pod(false, since(5), none)}, true, Starting, "is being started"},
		"a failing probe":        {1, current, []corev1.Pod{pod(false, since(90), none)}, true, Stopped, "its probe has not succeeded yet"},
		"no pod yet":             {1, current, nil, false, Starting, "is being started"},
		"image":                  {1, current, []corev1.Pod{pod(false, waiting("ErrImagePull", "not found"), none)}, true, Stopped, "ErrImagePull: not found"},
		"crash":                  {1, current, []corev1.Pod{pod(false, waiting("CrashLoopBackOff", ""), terminated("Error", "a\nlast line\n"))}, true, Stopped, "CrashLoopBackOff, exit code 1: last line"},
		"memory":                 {1, current, []corev1.Pod{pod(false, terminated("OOMKilled", ""), none)}, false, Stopped, "OOMKilled, exit code 1: OOMKilled"},
		"missing Secret":         {1, current, []corev1.Pod{pod(false, waiting("CreateContainerConfigError", `secret "x" not found`), none)}, false, Stopped, `secret "x" not found`},
		"unschedulable":          {1, current, []corev1.Pod{pending}, false, Stopped, "Unschedulable: 0/3 nodes are available"},
		"evicted":                {1, current, []corev1.Pod{evicted}, false, Stopped, "Evicted: The node was low on memory"},
		"quota":                  {1, quota, nil, false, Stopped, "exceeded quota"},
		"an old pod still works": {1, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1}, []corev1.Pod{pod(false, waiting("ErrImagePull", ""), none), pod(true, run, none)}, true, Starting, "are being replaced: "},
		"the old pod":            {1, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1}, []corev1.Pod{pod(true, run, none)}, true, Starting, "are being replaced"},
		"a new template":         {1, appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1}, []corev1.Pod{pod(true, run, none)}, true, Starting, "are being replaced"},
		"0 replicas":             {0, current, nil, false, Stopped, "has 0 replicas"},
		"outside the cluster":    {0, current, nil, true, Running, ""},
	} {
		objects := running()
		objects.Namespace, objects.Pods = "ns", test.pods
		objects.Deployment = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: &test.replicas}, Status: test.status}
		at := now
		if !test.held {
			at = now.Add(138 * time.Second)
		}
		got := processOf(objects, at)
		if got.State != test.state || !strings.Contains(got.Cause, test.cause) || (test.cause == "") != (got.Cause == "") {
			t.Errorf("%s: got %+v, want %s with %q", name, got, test.state, test.cause)
		}
		if (got.State == Stopped) != (got.Action != "") {
			t.Errorf("%s: state %s, next step %q", name, got.State, got.Action)
		}
	}
}

// TestProcess_ReadyPodsWithoutALease: a process that cannot write the Lease, such as while etcd is full, does not start for ever.
func TestProcess_ReadyPodsWithoutALease(t *testing.T) {
	objects, at := running(), now.Add(137*time.Second+2*startLimit)
	objects.Deployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}, Status: appsv1.DeploymentStatus{UpdatedReplicas: 1}}
	for since, want := range map[time.Duration]ProcessState{startLimit / 2: Starting, 2 * startLimit: Stopped} {
		ready := pod(true, corev1.ContainerState{}, corev1.ContainerState{})
		ready.Status.Conditions[1].LastTransitionTime = metav1.NewTime(at.Add(-since))
		objects.Pods = []corev1.Pod{ready}
		if got := processOf(objects, at); got.State != want || (got.Action != "") != (want == Stopped) {
			t.Errorf("ready for %s: got %+v, want %s", since, got, want)
		}
	}
}

// TestProcess_NamesALastingWarning: the kubelet also warns of a Secret that it reads a moment later.
func TestProcess_NamesALastingWarning(t *testing.T) {
	for lasts, want := range map[time.Duration]ProcessState{time.Second: Starting, time.Minute: Stopped} {
		objects := running()
		objects.Namespace, objects.Pods = "ns", []corev1.Pod{pod(false, waiting("ContainerCreating", ""), corev1.ContainerState{})}
		objects.Deployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}
		objects.Warnings = []corev1.Event{{
			Type: corev1.EventTypeWarning, Reason: "FailedMount", Message: `configmap "x" not found`, FirstTimestamp: metav1.NewTime(now.Add(-lasts)), LastTimestamp: metav1.NewTime(now),
		}}
		if got := processOf(objects, now); got.State != want || strings.Contains(got.Cause, "FailedMount") != (want == Stopped) {
			t.Errorf("a warning that lasts %s: got %+v, want %s", lasts, got, want)
		}
	}
}

func TestProcess_SentenceHasOneFullStop(t *testing.T) {
	process := Process{State: Stopped, Cause: "Unschedulable: 0/1 nodes are available."}
	if got := process.sentence(); got != "The installer does not run: Unschedulable: 0/1 nodes are available." {
		t.Error(got)
	}
}

// TestSteps_OfAFirstStart does not ask for the object that the installer creates.
func TestSteps_OfAFirstStart(t *testing.T) {
	objects := running()
	objects.Deployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}
	if report := New(Snapshot{Installer: objects, Time: now}); report.State != RollingOut || len(report.NextSteps) > 0 {
		t.Errorf("%s %v", report.Summary, report.NextSteps)
	}
}

// TestSteps_OmitReferences expects only the step of the condition with the cause.
func TestSteps_OmitReferences(t *testing.T) {
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Status.Conditions = []metav1.Condition{
		{Type: available, Status: metav1.ConditionFalse, Reason: string(reason.NotInstalled)},
		{Type: installerProgressing, Status: metav1.ConditionTrue, Reason: string(reason.NoRevision)},
		{Type: installerDegraded, Status: metav1.ConditionFalse, Reason: string(reason.AsExpected)},
		{Type: versionProgressing, Status: metav1.ConditionFalse, Reason: string(reason.ImagesInvalid)},
		{Type: versionDegraded, Status: metav1.ConditionTrue, Reason: string(reason.ImagesInvalid)},
	}
	if steps := New(Snapshot{ClusterAPI: cluster, Installer: running(), Time: now}).NextSteps; len(steps) != 1 || steps[0].Condition != versionDegraded {
		t.Errorf("%v", steps)
	}
}

// TestState_RequestedRelease: right after a change of the ConfigMap the old version is not at rest.
func TestState_RequestedRelease(t *testing.T) {
	observed := v1alpha1.ObservedRelease{Version: "4.22.0", ImagesDigest: "sha256:a"}
	for name, test := range map[string]struct {
		requested *v1alpha1.ObservedRelease
		observed  *v1alpha1.ObservedRelease
		want      State
	}{
		"the same":           {&observed, &observed, AtRest},
		"no ConfigMap":       {nil, &observed, AtRest},
		"no release-version": {&v1alpha1.ObservedRelease{ImagesDigest: "sha256:a"}, &observed, AtRest},
		"another release":    {&v1alpha1.ObservedRelease{Version: "4.22.1", ImagesDigest: "sha256:a"}, &observed, RollingOut},
		"other images":       {&v1alpha1.ObservedRelease{Version: "4.22.0", ImagesDigest: "sha256:b"}, &observed, RollingOut},
		"no record":          {&observed, nil, RollingOut},
	} {
		cluster := reportedCluster(reason.AsExpected)
		cluster.Status.ObservedRelease = test.observed
		snapshot := Snapshot{ClusterAPI: cluster}
		if test.requested != nil {
			snapshot.Requested = &RequestedRelease{ConfigMap: "ns/images", ObservedRelease: *test.requested}
		}
		if got, summary := stateOf(snapshot, Process{State: Running}); got != test.want {
			t.Errorf("%s: got %s, want %s: %s", name, got, test.want, summary)
		}
	}
}

// TestState_InputsOfTheStatus: a version is not at rest while the installer has read an earlier form of an input, or while another process leads.
func TestState_InputsOfTheStatus(t *testing.T) {
	secret := v1alpha1.ObservedInput{Kind: "Secret", Namespace: "ns", Name: "aws", ResourceVersion: "7"}
	newer, deleted := secret, secret
	newer.ResourceVersion, deleted.ResourceVersion = "8", ""
	with := func(inputs ...v1alpha1.ObservedInput) []v1alpha1.ObservedInput { return inputs }
	for name, test := range map[string]struct {
		by                string
		observed, present []v1alpha1.ObservedInput
		started, wanted   string
		want              State
		summary           string
	}{
		"the same":                  {"a", with(secret), with(secret), "AWS", "AWS", AtRest, "is installed"},
		"not readable by the user":  {"a", with(secret), nil, "", "", AtRest, "is installed"},
		"a former installer":        {"", nil, with(secret), "", "AWS", AtRest, "is installed"},
		"a newer Secret":            {"a", with(secret), with(newer), "", "", RollingOut, "has not read Secret ns/aws"},
		"a deleted Secret":          {"a", with(secret), with(deleted), "", "", RollingOut, "has not read Secret ns/aws"},
		"another leader":            {"b", with(secret), with(secret), "", "", RollingOut, "Process a of the installer has not reported yet"},
		"a platform for next start": {"a", nil, nil, "None", "AWS", Blocked, "started for platform None"},
	} {
		cluster := reportedCluster(reason.AsExpected)
		cluster.Status.ObservedBy, cluster.Status.ObservedInputs = test.by, test.observed
		cluster.Status.ObservedRelease = &v1alpha1.ObservedRelease{Platform: test.started}
		from := Snapshot{ClusterAPI: cluster, Inputs: test.present, Requested: &RequestedRelease{ConfigMap: "ns/images"}}
		from.Requested.Platform = test.wanted
		process := Process{State: Running, Leader: "a"}
		if got, summary := stateOf(from, process); got != test.want || !strings.Contains(summary, test.summary) {
			t.Errorf("%s: got %s, want %s: %s", name, got, test.want, summary)
		}
		if steps := stepsOf(from, process); (test.want == Blocked) != (len(steps) > 0) {
			t.Errorf("%s: %+v", name, steps)
		}
	}
}

func TestReport_ForRelease(t *testing.T) {
	report := Report{State: AtRest, Current: "4.22.0-3", Summary: "Version 4.22.0-3 is installed."}
	for release, want := range map[string]State{"": AtRest, "4.22.0": AtRest, "4.22.1": RollingOut, "4.22": RollingOut} {
		if got := report.For(release); got.State != want {
			t.Errorf("%s: got %s: %s", release, got.State, got.Summary)
		}
	}
	report.Release = "4.22.5" // with the same content
	for release, want := range map[string]State{"": AtRest, "4.22.5": AtRest, "4.22.0": RollingOut} {
		if got := report.For(release); got.State != want {
			t.Errorf("%s, with the same content as %s: got %s: %s", release, report.Release, got.State, got.Summary)
		}
	}
}
