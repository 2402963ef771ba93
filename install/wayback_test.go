// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

// wayBackTime is the time in which the previous release is installed again.
const wayBackTime = time.Minute

// breakages are ways in which the pods of a new Deployment do not work.
var breakages = []struct {
	name    string
	arrange func(h *harness) (undo func())
	cause   string // in the condition
}{
	{name: "node selector", cause: "Unschedulable"},
	{name: "image", cause: "ImagePullBackOff", arrange: func(h *harness) func() { return h.problemOfPods("ImagePullBackOff") }},
	{name: "crash", cause: "CrashLoopBackOff", arrange: func(h *harness) func() { return h.problemOfPods("CrashLoopBackOff") }},
	{name: "quota", cause: "exceeded quota", arrange: (*harness).exhaustPods},
	{name: "webhook", cause: "failed calling webhook", arrange: (*harness).refusePods},
}

// A release with another storage version, whose pods never work, is replaced by the previous release, which lacks that version. The storage
// version has not switched, so no instance is written.
func TestWayBack_BeforeTheStorageVersionSwitches(t *testing.T) {
	h := newHarness(t)
	good := func() { h.release(core(), aws(crd("machines", "Machine"))) }
	good()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	check := h.instances("v1beta1", 3)
	var written atomic.Int64
	h.onRequest.Store(new(func(request *http.Request) *http.Response {
		if ofMigration(request) {
			written.Add(1)
		}
		return nil
	}))
	revision := 1
	for _, test := range breakages {
		t.Run(test.name, func(t *testing.T) {
			defer h.reportTo(t)()
			if test.arrange != nil {
				defer test.arrange(h)()
			}
			h.release(core(), awsWith(append(converted(), stuck("capa"))...))
			revision++
			h.reports("InstallerProgressing", "PodsNotReady", fmt.Sprint("4.22.0-", revision), "Deployment "+namespace+"/capa", test.cause, "1 CRD(s) switch to v1beta2")
			if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1"}) {
				t.Fatalf("the CRD has switched: %v", stored)
			}
			began := time.Now()
			good()
			revision++
			h.settled(fmt.Sprint("4.22.0-", revision))
			if took := time.Since(began); took > wayBackTime {
				t.Errorf("the previous release was installed again after %s, want at most %s", took, wayBackTime)
			}
			if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1"}) {
				t.Errorf("stored versions are %v", stored)
			}
			check("v1beta1")
		})
	}
	if n := written.Load(); n > 0 {
		t.Errorf("%d writes of a migration, want none", n)
	}
}

// A release that has switched the storage version is replaced by the previous release, which lacks that version, although nothing answers the
// conversion webhook: the instances were not written since.
func TestWayBack_AfterTheStorageVersionSwitched(t *testing.T) {
	h := newInstallation(t, core(), aws(crd("machines", "Machine")))
	webhook := h.converts()
	check := h.instances("v1beta1", 3)
	h.release(core(), awsWith(append(webhook.manifests(), deployment("capa", placeholder))...))
	h.settled("4.22.0-2")
	webhook.fails("no answer")
	if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1", "v1beta2"}) {
		t.Fatalf("the CRD has not switched: %v", stored)
	}
	h.release(core(), aws(crd("machines", "Machine")))
	h.settled("4.22.0-3")
	if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1"}) {
		t.Errorf("stored versions are %v", stored)
	}
	check("v1beta1")
}

// On the way back from a release whose webhooks admit only the newer version, the CRD serves that version until the pods of the previous release are
// ready, and the older pods convert and admit instances until then. Owners of fields that were written meanwhile in the newer version stay.
func TestWayBack_ServesTheNewerVersionUntilThePodsAreReady(t *testing.T) {
	previous := func(number int) []string {
		return []string{crd("machines", "Machine"), generation("capa", number), admitting("v1beta1")}
	}
	h := newInstallation(t, core(), awsWith(previous(1)...))
	webhook := h.converts()
	check := h.instances("v1beta1", 3)
	h.release(core(), awsWith(append(webhook.manifests(), generation("capa", 2), admitting("v1beta2"))...))
	h.settled("4.22.0-2")
	h.setNode(false)
	defer h.setNode(true)
	h.release(core(), awsWith(previous(3)...))
	h.reports("InstallerProgressing", "RollingOut", "4.22.0-3", "Deployment "+namespace+"/capa")
	live := h.object(crdKind, "", machines)
	if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1"}) || object.StorageVersion(live) != "v1beta1" || !object.ServesVersion(live, "v1beta2") || h.admits() != "v1beta2" {
		t.Errorf("stored versions are %v, versions %v, the webhook admits %s", stored, object.MapsAt(live.Object, "spec", "versions"), h.admits())
	}
	check("v1beta2")
	h.rest()
	h.wrote.Clear()
	h.reconcileTimes(3)
	if written := slices.DeleteFunc(h.written(), func(request string) bool { return strings.HasSuffix(request, "/status") }); len(written) > 0 && !dryRunsUnchanged() {
		t.Errorf("the installer writes while it waits: %v", written)
	}
	one := instanceOf("v1beta2")
	one.SetNamespace(namespace)
	one.SetName("m0")
	h.must(h.Patch(t.Context(), one, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"number":7}}`)), client.FieldOwner("user")))
	webhook.fails("no answer") // the older pods have ended
	h.setNode(true)
	h.settled("4.22.0-3")
	if live := h.object(crdKind, "", machines); !slices.Equal(object.CRDVersions(live), []string{"v1beta1"}) || h.admits() != "v1beta1" {
		t.Errorf("versions are %v, the webhook admits %s", object.CRDVersions(live), h.admits())
	}
	check("v1beta1")
	h.expectQuiet(func() { h.reconcileTimes(3) })
}

// exhaustPods creates a quota that admits no further pod.
func (h *harness) exhaustPods() (undo func()) { return h.exhaust("pods", "2") }

// refusePods creates a webhook for pods that nothing answers, and waits until the API server calls it.
func (h *harness) refusePods() (undo func()) {
	h.Helper()
	undo = h.add(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: test.example.com}
webhooks:
- name: test.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: webhook, namespace: ` + namespace + `}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
`)
	h.eventually("the API server calls the webhook", func() error {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "registry.example.com/manager"}}}}
		pod.Namespace, pod.GenerateName = namespace, "refused-"
		if err := h.Create(h.Context(), pod, client.DryRunAll); !apierrors.IsInternalError(err) {
			return fmt.Errorf("a pod is not refused by the webhook: %v", err)
		}
		return nil
	})
	return undo
}

// problemOfPods gives each pod of the Deployment capa that does not run the status that a kubelet gives it, until undo is called.
func (h *harness) problemOfPods(reason string) (undo func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			pods := &corev1.PodList{}
			if err := h.List(ctx, pods, client.InNamespace(namespace)); err != nil {
				return
			}
			for i := range pods.Items {
				if pod := &pods.Items[i]; strings.HasPrefix(pod.Name, "capa-") && pod.Status.Phase == corev1.PodPending && pod.Status.ContainerStatuses == nil {
					waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
					pod.Status.Conditions = nil
					pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", State: waiting}}
					_ = h.Status().Update(ctx, pod) // again after a conflict
				}
			}
		}, 200*time.Millisecond)
	}()
	return func() { cancel(); <-done }
}
