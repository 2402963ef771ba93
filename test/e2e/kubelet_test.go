// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package e2e

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/installation"
)

// kubelet stands for the kubelet of the installer's pods: the nodes of the control plane run no containers. It runs the program for each pod
// of the Deployment, and gives it the ConfigMap of the release some seconds after a change.
type kubelet struct {
	*harness
	folder string // of the mounted ConfigMap
	delay  time.Duration

	changed time.Time         // when mounted was seen first
	mounted map[string]string // the data of the ConfigMap that was read last
	pods    map[string]*installation.Process
}

// deploy creates the installer's Deployment of a release, and runs its pods until the end of the test.
func (h *harness) deploy(release string, images map[string]string) *kubelet {
	h.Helper()
	k := &kubelet{harness: h, folder: h.TempDir(), delay: time.Second, pods: map[string]*installation.Process{}}
	h.must(h.Update(h.Context(), k.requested(release, images)))
	h.must(h.Create(h.Context(), k.deployment(release)))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			k.sync(ctx)
		}
	}()
	h.Cleanup(func() {
		stop()
		<-done
		for _, p := range k.pods {
			_ = p.Stop()
			if h.Failed() {
				h.Logf("the end of the log of the pod:\n%s", p.Log())
			}
		}
		h.must(h.Delete(context.Background(), k.deployment(release)))
		h.dropLease()
	})
	return k
}

// releaseConfigMap is the name of the ConfigMap that the Deployment mounts.
const releaseConfigMap = "cluster-api-installer-images"

// requested returns the ConfigMap of a release.
func (k *kubelet) requested(release string, images map[string]string) *corev1.ConfigMap {
	out := &corev1.ConfigMap{Data: map[string]string{"release-version": release, "images.json": encode(k.T, images)}}
	out.Namespace, out.Name = v1alpha1.OpenShiftNamespaces.Operator, releaseConfigMap
	return out
}

// deployment returns the installer's Deployment as a release has it; its pods can run on every node.
func (k *kubelet) deployment(release string) *appsv1.Deployment {
	k.Helper()
	objects, err := manifests.Objects()
	k.must(err)
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		out := &appsv1.Deployment{}
		k.must(fromUnstructured(object, out))
		pod := &out.Spec.Template.Spec
		pod.NodeSelector, pod.Tolerations = nil, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		pod.Containers[0].Env[0].Value = release
		return out
	}
	k.Fatal("a release has no Deployment")
	return nil
}

// sync does what the kubelet does in a moment.
func (k *kubelet) sync(ctx context.Context) {
	k.mount(ctx)
	pods := &corev1.PodList{}
	if err := k.List(ctx, pods, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.MatchingLabels{"k8s-app": "capi-installer"}); err != nil {
		return
	}
	alive := map[string]bool{}
	for _, pod := range pods.Items {
		alive[pod.Name] = pod.DeletionTimestamp.IsZero()
	}
	for name, p := range k.pods {
		if !alive[name] && p.Runs() {
			_ = p.Stop()
		}
	}
	for _, pod := range pods.Items {
		if k.pods[pod.Name] == nil && alive[pod.Name] && pod.Status.Phase == corev1.PodRunning && k.mounted != nil {
			k.pods[pod.Name] = k.run(pod)
		}
	}
}

// run starts the program of a pod.
func (k *kubelet) run(pod corev1.Pod) *installation.Process {
	environment := append([]string{"HOME=" + os.Getenv("HOME"), "TMPDIR=" + k.folder, "POD_NAME=" + pod.Name, "POD_UID=" + string(pod.UID),
		"RELEASE_VERSION=" + pod.Spec.Containers[0].Env[0].Value}, k.memory...)
	p, err := installation.Launch(binary(k.T), environment, nil, "--kubeconfig="+k.Kubeconfig, "--images-json="+filepath.Join(k.folder, "images.json"),
		"--cache-dir="+k.Cache, "--signature-policy=", "--leader-elect", "--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=1s")
	if err != nil {
		k.Errorf("starting pod %s: %v", pod.Name, err)
	}
	return p
}

// mount updates the mounted ConfigMap some time after its change.
func (k *kubelet) mount(ctx context.Context) {
	object := &corev1.ConfigMap{}
	if err := k.Get(ctx, client.ObjectKey{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: releaseConfigMap}, object); err != nil {
		return
	}
	first := k.mounted == nil
	if encode(k.T, object.Data) == encode(k.T, k.mounted) && !first {
		return
	}
	if k.changed.IsZero() {
		k.changed = time.Now()
	}
	if time.Since(k.changed) < k.delay && !first {
		return
	}
	k.changed, k.mounted = time.Time{}, object.Data
	if err := project(k.folder, object.Data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.Errorf("mounting the ConfigMap: %v", err)
	}
}

// project changes a mounted ConfigMap as the kubelet does: it creates a new folder, and a link to it that is renamed over the link to the
// previous one.
func project(mount string, data map[string]string) error {
	before, _ := os.Readlink(filepath.Join(mount, dataLink)) // the first call finds none
	folder, err := os.MkdirTemp(mount, "..data-")
	if err != nil {
		return err
	}
	for name, content := range data {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(mount, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	next := filepath.Join(mount, "..data_tmp")
	if err := errors.Join(os.Symlink(filepath.Base(folder), next), os.Rename(next, filepath.Join(mount, dataLink))); err != nil || before == "" {
		return err
	}
	return os.RemoveAll(filepath.Join(mount, before))
}

// dataLink is the link to the present folder.
const dataLink = "..data"
