// SPDX-License-Identifier: Apache-2.0

//go:build linux && realnode

package realnode

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
)

// folder is the folder of the run.
var folder string

func TestMain(m *testing.M) {
	RunTests(m, &folder, func(ctx context.Context, dir string) error {
		if err := Build(ctx, dir, os.Stderr); err != nil {
			return err
		}
		return Compile(ctx, ".", "./probe", filepath.Join(dir, "probe"), io.Discard)
	})
}

var start = sync.OnceValues(func() (*Node, error) { return Start(context.Background(), folder) })

// shared returns the node that all tests share. It ends with the namespaces.
func shared(t *testing.T) *Node {
	t.Helper()
	n, err := start()
	must(t, err)
	return n
}

// pod returns a pod with the probe.
func pod(name, image string, arguments ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "probe", Image: image, Args: arguments,
				SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true), RunAsNonRoot: ptr.To(true)},
			}},
		},
	}
}

// await waits for a pod, and fails with its status.
func await(t *testing.T, n *Node, namespace, name string, done func(*corev1.Pod) bool) {
	t.Helper()
	var last *corev1.Pod
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pod, err := n.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			last = pod
		}
		return err == nil && done(pod), err
	})
	if err != nil {
		t.Fatalf("waiting for pod %s: %v; its status is %+v", name, err, last.Status)
	}
}

func ready(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != ""
}
func succeeded(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }

// pushProbe pushes the image of the probe and returns its reference.
func pushProbe(t *testing.T, n *Node, repository string) string {
	t.Helper()
	image, err := ProgramImage(n.path("probe"), "/probe")
	must(t, err)
	reference, err := n.Push(repository, image)
	must(t, err)
	return reference
}

// create creates a pod with the probe.
func create(t *testing.T, n *Node, namespace, name, image string, arguments ...string) {
	t.Helper()
	if _, err := n.client.CoreV1().Pods(namespace).Create(t.Context(), pod(name, image, arguments...), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestNode_RunsPods starts a server, and a client that finds it by the name of its Service: image pulls with
// credentials, the pod network, kube-proxy, DNS and logs work.
func TestNode_RunsPods(t *testing.T) {
	n := shared(t)
	reference := pushProbe(t, n, "probe")
	namespace := n.Cluster.Namespace(t)
	create(t, n, namespace, "server", reference)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "server"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "server"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	if _, err := n.client.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, n, namespace, "server", ready)
	create(t, n, namespace, "client", reference, "http://server."+namespace+".svc.cluster.local/")
	await(t, n, namespace, "client", succeeded)
	log, err := n.client.CoreV1().Pods(namespace).GetLogs("client", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || strings.TrimSpace(string(log)) != "server" {
		t.Errorf("log of the client: %q, %v", log, err)
	}
}

// TestNode_PodsSurviveRestarts restarts the programs of the node.
func TestNode_PodsSurviveRestarts(t *testing.T) {
	n := shared(t)
	if n.Kind() == Processes {
		t.Skip("the containers of a node with processes end with kubelet")
	}
	reference := pushProbe(t, n, "probe")
	namespace := n.Cluster.Namespace(t)
	create(t, n, namespace, "survivor", reference)
	await(t, n, namespace, "survivor", ready)
	for _, program := range []*Program{n.Kubelet, n.Containerd} {
		must(t, program.Kill())
	}
	for _, program := range []*Program{n.Containerd, n.Kubelet} {
		must(t, program.Start(t.Context()))
	}
	await(t, n, namespace, "survivor", func(pod *corev1.Pod) bool {
		for _, status := range pod.Status.ContainerStatuses {
			if status.RestartCount > 0 {
				t.Fatalf("the container was restarted: %+v", status)
			}
		}
		return ready(pod)
	})
	create(t, n, namespace, "later", reference)
	await(t, n, namespace, "later", ready)
}

// TestNode_WithoutCredentialsPullFails takes the credentials away.
func TestNode_WithoutCredentialsPullFails(t *testing.T) {
	n := shared(t)
	reference := pushProbe(t, n, "other")
	namespace := n.Cluster.Namespace(t)
	create(t, n, namespace, "known", pushProbe(t, n, "probe")) // pulls the image of pods' namespaces, too
	await(t, n, namespace, "known", ready)
	must(t, n.AllowPulls(false))
	create(t, n, namespace, "stranger", reference)
	await(t, n, namespace, "stranger", func(pod *corev1.Pod) bool {
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Waiting != nil && status.State.Waiting.Reason == "ErrImagePull" {
				return true
			}
		}
		return false
	})
	must(t, n.AllowPulls(true))
	await(t, n, namespace, "stranger", ready)
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
