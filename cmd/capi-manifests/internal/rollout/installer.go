// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capi-installer/capi-installer/internal/podproblem"
)

// InstallerName is the name of the installer's Deployment and Lease.
const InstallerName = "capi-installer"

// InstallerObjects are the objects that run the installer, in its namespace.
type InstallerObjects struct {
	Namespace string
	// Deployment and Lease are named InstallerName; nil if they do not exist.
	Deployment *appsv1.Deployment
	Lease      *coordinationv1.Lease
	// Pods are the pods that the selector of the Deployment matches.
	Pods []corev1.Pod
	// Warnings are the events of type Warning in the namespace.
	Warnings []corev1.Event
}

// ProcessState tells whether the installer works.
type ProcessState string

// The states of the installer.
const (
	// Running: a process works, and will report changes.
	Running ProcessState = "Running"
	// Starting: a pod is being started, or waits for the lease.
	Starting ProcessState = "Starting"
	// Stopped: no process works, and the status of the ClusterAPI object may be outdated.
	Stopped ProcessState = "Stopped"
)

// Process is the state of the installer itself.
type Process struct {
	State ProcessState `json:"state"`
	// Leader is the holder of the lease; empty if nothing holds it.
	Leader string `json:"leader,omitempty"`
	// Renewed is the last renewal of the lease: the last sign of life.
	Renewed metav1.Time `json:"renewed,omitzero"`
	// Cause is the reason why the installer does not run yet, or no longer; empty if it runs.
	Cause string `json:"cause,omitempty"`
	// Action is the next step; empty if there is none.
	Action string `json:"action,omitempty"`
}

// processOf judges the installer at a time. The pods decide if a Deployment should run some. Otherwise the installer may run
// outside the cluster, with only a lease.
func processOf(objects InstallerObjects, now time.Time) Process {
	process := Process{State: Running}
	if lease := objects.Lease; lease != nil {
		process.Leader = ptr.Deref(lease.Spec.HolderIdentity, "")
		process.Renewed = metav1.NewTime(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Truncate(time.Second))
	}
	held := process.Leader != "" && now.Before(process.Renewed.Add(leaseDuration(objects.Lease)))
	if replicasOf(objects.Deployment) == 0 {
		if !held {
			process.State = Stopped
			process.Cause, process.Action = absent(objects)
		}
		return process
	}
	problem := problemOf(objects, now)
	switch ready := objects.ready(podproblem.Ever); {
	case ready && !isCurrent(objects.Deployment):
		process.State, process.Cause = Starting, strings.TrimSuffix("the pods of Deployment "+objects.name()+" are being replaced: "+problem, ": ")
	case ready && held:
	case ready:
		process.State, process.Cause = Starting, "no process holds Lease "+objects.name()
		if expired := process.Renewed.Add(leaseDuration(objects.Lease)); now.After(expired.Add(startLimit)) && objects.ready(now.Add(-startLimit)) {
			process.State, process.Action = Stopped, fmt.Sprintf("Read why no process acquires the Lease: kubectl logs deployment/%s -n %s", InstallerName, objects.Namespace)
		}
	case problem != "":
		process.State, process.Cause = Stopped, problem
		process.Action = fmt.Sprintf("Correct the cause; kubectl describe pods -n %s shows the pods of the installer.", objects.Namespace)
	default:
		process.State, process.Cause = Starting, "a pod of Deployment "+objects.name()+" is being started"
	}
	return process
}

// leaseDuration returns the time until a lease expires that is not renewed.
func leaseDuration(lease *coordinationv1.Lease) time.Duration {
	if lease == nil {
		return 0
	}
	return time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// replicasOf returns the number of pods that a Deployment should have.
func replicasOf(deployment *appsv1.Deployment) int32 {
	if deployment == nil {
		return 0
	}
	return ptr.Deref(deployment.Spec.Replicas, 1)
}

// isCurrent reports whether the pods of a Deployment have its present template.
func isCurrent(deployment *appsv1.Deployment) bool {
	status := deployment.Status
	return status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas >= replicasOf(deployment) && status.Replicas <= status.UpdatedReplicas
}

// absent explains that nothing should run the installer.
func absent(objects InstallerObjects) (cause, action string) {
	if objects.Deployment == nil {
		return "Deployment " + objects.name() + " does not exist, and no process holds the Lease of this name", "Install capi-installer again."
	}
	return "Deployment " + objects.name() + " has 0 replicas", "Start it: kubectl scale deployment " + InstallerName + " -n " + objects.Namespace + " --replicas=1"
}

// problemOf returns the cause that keeps the pods from working; empty if they only need time.
func problemOf(objects InstallerObjects, now time.Time) string {
	starts := func(pod corev1.Pod) bool { return starts(pod, now) }
	lasting := slices.DeleteFunc(slices.Clone(objects.Warnings), func(event corev1.Event) bool {
		return event.LastTimestamp.Sub(event.FirstTimestamp.Time) < startLimit // the kubelet repeats a warning while its cause lasts
	})
	problem, _ := podproblem.OfPods(slices.DeleteFunc(slices.Clone(objects.Pods), starts), lasting)
	if cause := podproblem.OfDeployment(*objects.Deployment, objects.Warnings); problem == "" && cause != "" {
		problem = "Deployment " + objects.name() + ": " + cause
	}
	return problem
}

// startLimit is the time in which the first probe of a container should succeed.
const startLimit = time.Minute

// starts reports whether a container of a pod runs for the first time, and since a short time: its first probe may not have been made.
func starts(pod corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(container corev1.ContainerStatus) bool {
		running := container.State.Running
		return running != nil && container.RestartCount == 0 && now.Before(running.StartedAt.Add(startLimit))
	})
}

// ready reports whether a pod is ready, since a time at the latest.
func (o InstallerObjects) ready(since time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(pod corev1.Pod) bool { return podproblem.IsReady(pod, since) })
}

// name is the name of the Deployment with its namespace.
func (o InstallerObjects) name() string { return o.Namespace + "/" + InstallerName }

// sentence describes a process that does not work.
func (p Process) sentence() string {
	words := map[ProcessState]string{Starting: "The installer is starting: ", Stopped: "The installer does not run: "}
	return words[p.State] + strings.TrimRight(p.Cause, ".") + "."
}
