// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// runInPod creates the pod of the installer.
func (h *harness) runInPod() {
	h.Helper()
	h.pod = "capi-installer-x"
	undo := h.add(`apiVersion: v1
kind: Pod
metadata: {name: ` + h.pod + `, namespace: ` + v1alpha1.OpenShiftNamespaces.Operator + `}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - {name: injected, image: registry.example.com/injected, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
  - {name: capi-installer, image: registry.example.com/capi-installer, imagePullPolicy: Always, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}
`)
	h.Cleanup(undo)
}

// rehearsing returns the pods of rehearsals.
func (h *harness) rehearsing() []corev1.Pod {
	h.Helper()
	pods := &corev1.PodList{}
	h.must(h.List(context.Background(), pods, client.InNamespace(namespace), client.HasLabels{v1alpha1.RehearsalLabel}))
	return pods.Items
}

// notRehearsing waits until no pod of a rehearsal exists.
func (h *harness) notRehearsing() {
	h.Helper()
	h.eventually("no pod of a rehearsal exists", func() error {
		if pods := h.rehearsing(); len(pods) > 0 {
			return fmt.Errorf("%d pods, the first is %s", len(pods), pods[0].Name)
		}
		return nil
	})
}

// generation is the manifest of the Deployment capi with another pod template for each number.
func generation(number string) string {
	return strings.Replace(deployment("capi", placeholder), "        securityContext: {allow", "        env: [{name: GENERATION, value: \""+number+"\"}]\n        securityContext: {allow", 1)
}

// coreOf is the core provider with this generation of its Deployment, and a ConfigMap that is written first.
func coreOf(number string) provider {
	return provider{name: "cluster-api", kind: "core", manifests: []string{generation(number), configMap("settings", number)}}
}

// A release is rolled out after pods with its new pod specs have started; kwok starts them. A first installation has no rehearsal.
func TestRehearsal_PrecedesTheRollout(t *testing.T) {
	h := newHarness(t)
	h.runInPod()
	h.installRelease(coreOf("1"), aws())
	if created := h.podWrites(); created != nil {
		t.Errorf("the first installation has a rehearsal: %v", created)
	}
	var pod corev1.Pod
	h.onRequest.Store(new(func(request *http.Request) *http.Response {
		if request.Method == http.MethodDelete && strings.HasPrefix(request.URL.Path, podsPath) {
			if err := h.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: strings.TrimPrefix(request.URL.Path, podsPath+"/")}, &pod); err != nil || h.value("settings") != "1" {
				t.Errorf("an object was written before the end of the rehearsal, or the pod is unknown: %v", err)
			}
		}
		return nil
	}))
	h.release(coreOf("2"), aws())
	h.settled("4.22.0-2")
	h.notRehearsing()
	switch {
	case pod.Name != "capi-rehearsal-2" || pod.Spec.ServiceAccountName != "default" || pod.Labels["app"] != "":
		t.Errorf("pod %s with labels %v", pod.Name, pod.Labels)
	case pod.Spec.InitContainers[0].Image != "registry.example.com/capi-installer" || pod.Spec.InitContainers[0].ImagePullPolicy != corev1.PullAlways:
		t.Errorf("the program is copied from %s", pod.Spec.InitContainers[0].Image)
	case pod.Spec.Containers[0].Image != h.images["cluster-api"]:
		t.Errorf("the image of the pod is %s, want %s", pod.Spec.Containers[0].Image, h.images["cluster-api"])
	}
}

// A release whose new pods are not admitted stops before its first write, and the rest of its life leaves no pods: a restart, a pause, another
// release, the risk accepted, the field, and an uninstall.
func TestRehearsal_LeavesNoPods(t *testing.T) {
	h := newHarness(t)
	h.runInPod()
	good := func(number string) { h.release(coreOf(number), aws()) }
	good("1")
	h.start("4.22.0")
	h.settled("4.22.0-1")

	// One pod is not admitted, and the other one waits for a node.
	broken := strings.Replace(deployment("capa", placeholder), "      containers:", "      priorityClassName: missing\n      containers:", 1)
	waiting := provider{name: "cluster-api", kind: "core", manifests: []string{stuck("capi"), configMap("settings", "2")}}
	h.release(waiting, awsWith(broken))
	h.reports("InstallerDegraded", "RiskNotAccepted", "capa-rehearsal-2", "no PriorityClass with name missing", `{"name":"FailedRehearsal","release":"4.22.0"}`)
	if h.value("settings") != "1" || len(h.rehearsing()) != 1 {
		t.Errorf("value %s, %d pods", h.value("settings"), len(h.rehearsing()))
	}
	h.mode(v1alpha1.Paused)
	h.notRehearsing()
	h.mode(v1alpha1.Managed)
	h.reports("InstallerDegraded", "RiskNotAccepted", "no PriorityClass")
	h.stop()
	good("1") // the previous release, while no installer runs
	h.start("4.22.0")
	h.settled("4.22.0-3")
	h.notRehearsing()

	h.release(waiting, aws())
	h.reports("InstallerProgressing", "RollingOut", "0 of 1 pods have started", "Unschedulable")
	h.setSpec(func(spec *v1alpha1.ClusterAPISpec) { spec.Rehearsal = v1alpha1.RehearsalDisabled })
	h.reports("InstallerProgressing", "RollingOut", "waiting for Deployment "+namespace+"/capi")
	h.notRehearsing()
	good("3")
	h.settled("4.22.0-5")
	h.setSpec(func(spec *v1alpha1.ClusterAPISpec) { spec.Rehearsal = v1alpha1.RehearsalEnabled })

	h.release(waiting, awsWith(broken))
	h.reports("InstallerDegraded", "RiskNotAccepted", "no PriorityClass")
	h.accept(v1alpha1.AcceptedRisk{Name: v1alpha1.FailedRehearsal, Release: "4.22.0"})
	h.reports("InstallerProgressing", "RollingOut", "waiting for Deployment "+namespace+"/capi")
	h.notRehearsing()
	h.accept()
	good("4")
	h.settled("4.22.0-7")

	h.release(waiting, aws())
	h.reports("InstallerProgressing", "RollingOut", "0 of 1 pods have started")
	h.must(h.Uninstall(t.Context()))
	h.eventually("everything is uninstalled", func() error { return h.Remaining(context.Background()) })
	h.notRehearsing()
	h.reapply()
}

// A process that ends before or after each write of a rehearsal is followed by one that ends it.
func TestRehearsal_SurvivesTheEndOfTheProcess(t *testing.T) {
	h := newHarness(t)
	h.runInPod()
	h.installRelease(coreOf("1"), aws())
	number := 1
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		for _, reaches := range []bool{false, true} {
			number++
			t.Run(fmt.Sprintf("%s reaches the API server %t", method, reaches), func(t *testing.T) {
				defer h.reportTo(t)()
				killed := make(chan struct{}, 1)
				h.onRequest.Store(new(func(request *http.Request) *http.Response {
					if request.Method != method || !strings.HasPrefix(request.URL.Path, podsPath) {
						return nil
					}
					if reaches {
						h.send(request) //nolint:contextcheck // the request outlives its client
					}
					select {
					case killed <- struct{}{}:
					default:
					}
					<-request.Context().Done() // until the process has ended
					return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: request}
				}))
				h.release(coreOf(fmt.Sprint(number)), aws())
				<-killed
				h.stop()
				h.onRequest.Store(nil)
				h.start("4.22.0")
				h.settled(fmt.Sprintf("4.22.0-%d", number))
				h.notRehearsing()
			})
		}
	}
}

var podsPath = "/api/v1/namespaces/" + namespace + "/pods"

// send sends a request of the installer to the API server.
func (h *harness) send(request *http.Request) {
	direct, err := rest.HTTPClientFor(h.Cluster.Config)
	if err != nil {
		h.Error(err)
		return
	}
	response, err := direct.Do(request.Clone(context.Background()))
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		h.Errorf("%s %s: %v %v", request.Method, request.URL.Path, response, err)
		return
	}
	_ = response.Body.Close()
}

// podWrites returns the writes of pods.
func (h *harness) podWrites() (found []string) {
	for _, write := range h.written() {
		if strings.Contains(write, podsPath) {
			found = append(found, write)
		}
	}
	return found
}

// setSpec changes the spec of the ClusterAPI object.
func (h *harness) setSpec(change func(*v1alpha1.ClusterAPISpec)) {
	h.Helper()
	h.eventually("the spec is written", func() error {
		cluster := h.clusterAPI()
		change(&cluster.Spec)
		return h.Update(h.Context(), cluster)
	})
}
