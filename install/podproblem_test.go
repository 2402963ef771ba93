// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestRollout_NamesTheProblemOfAPod: the condition and the phase name the pod that keeps a Deployment from being available, with the
// message of the kubelet, whose part the test has: no node runs the pod. Until a Deployment is late, no pod is read.
func TestRollout_NamesTheProblemOfAPod(t *testing.T) {
	h := newHarness(t)
	h.release(core(), aws(stuck("capa-manager")))
	h.start("4.22.0")
	h.reports("InstallerProgressing", "PodsNotReady", "waiting for Deployment "+namespace+"/capa-manager: pod "+namespace+"/capa-manager-", "Unschedulable: 0/1 nodes are available")

	h.setPodStatus("capa-manager", `
phase: Pending
conditions: [{type: PodScheduled, status: "True"}]
containerStatuses:
- name: manager
  image: a
  imageID: ""
  ready: false
  restartCount: 4
  state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s restarting failed container}}
  lastState: {terminated: {exitCode: 1, reason: Error, message: "starting\nsecret \"capa-manager-bootstrap-credentials\" not found\n"}}
`)
	const crash = `container manager: CrashLoopBackOff, exit code 1: secret "capa-manager-bootstrap-credentials" not found`
	h.reports("InstallerProgressing", "PodsCrash", crash, "kubectl logs --previous capa-manager-")
	h.eventually("the phase names the pod", func() error {
		for _, phase := range h.clusterAPI().Status.Versions[0].Phases {
			for _, waiting := range phase.WaitingFor {
				if strings.Contains(waiting.Message, "1 of 1 replicas updated") && strings.Contains(waiting.Message, crash) {
					return nil
				}
			}
		}
		return fmt.Errorf("phases %v", h.clusterAPI().Status.Versions[0].Phases)
	})

	// A volume waits for its Secret: only an event says so.
	pod := h.setPodStatus("capa-manager", `
phase: Pending
conditions: [{type: PodScheduled, status: "True"}]
containerStatuses: [{name: manager, image: a, imageID: "", ready: false, restartCount: 0, state: {waiting: {reason: ContainerCreating}}}]
`)
	h.must(h.Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "mount-"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod.Name, UID: pod.UID},
		Type: corev1.EventTypeWarning, Reason: "FailedMount", Message: `MountVolume.SetUp failed for volume "cert": secret "serving" not found`, LastTimestamp: metav1.NewTime(time.Now()),
	}))
	h.reports("InstallerProgressing", "PodsNotReady", `FailedMount: MountVolume.SetUp failed for volume "cert": secret "serving" not found`)
	h.release(core(), aws())
	h.settled("4.22.0-2")
}

// setPodStatus writes the status of the pod of a Deployment, as its kubelet would.
func (h *harness) setPodStatus(deployment, status string) (pod corev1.Pod) {
	h.Helper()
	h.eventually("the status of a pod is written", func() error {
		pods := &corev1.PodList{}
		if err := h.List(h.Context(), pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, found := range pods.Items {
			if strings.HasPrefix(found.Name, deployment+"-") {
				found.Status = corev1.PodStatus{}
				h.must(yaml.Unmarshal([]byte(status), &found.Status))
				pod = found
				return h.Status().Update(h.Context(), &found)
			}
		}
		return fmt.Errorf("%s has no pod", deployment)
	})
	return pod
}
