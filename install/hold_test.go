// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// admitting is the manifest of a webhook that admits machines in a version. Nothing answers it.
func admitting(version string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: capa-webhooks}
webhooks:
- name: machines.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  timeoutSeconds: 1
  clientConfig: {service: {name: webhook, namespace: openshift-cluster-api, path: /%[1]s}}
  rules: [{apiGroups: [infrastructure.cluster.x-k8s.io], apiVersions: [%[1]s], operations: [CREATE, UPDATE], resources: [machines]}]
`, version)
}

// admits returns the version of the machines that the webhook admits.
func (h *harness) admits() string {
	h.Helper()
	webhooks := object.MapsAt(h.object(webhookKind, "", "capa-webhooks").Object, "webhooks")
	return strings.Join(object.TextsAt(object.MapsAt(webhooks[0], "rules")[0], "apiVersions"), ", ")
}

// A CRD keeps its storage version, and a webhook configuration its rules, until the new pods are ready. Until then an instance can be written
// although nothing converts it. Changes of other actors are reverted meanwhile, and nothing else is written.
func TestHold_UntilThePodsAreReady(t *testing.T) {
	h := newInstallation(t, core(), awsWith(crd("machines", "Machine"), deployment("capa", placeholder), admitting("v1beta1")))
	webhook := h.converts() // until the instances are deleted
	check := h.instances("v1beta1", 3)
	webhook.fails("no answer")
	h.setNode(false)
	defer h.setNode(true)
	order := h.recordSwitch()
	h.release(core(), awsWith(append(webhook.manifests(), strings.Replace(deployment("capa", placeholder), "replicas: 1", "replicas: 1\n  minReadySeconds: 1", 1), admitting("v1beta2"))...))
	held := func() {
		t.Helper()
		h.eventually("the rollout waits for its pods", func() error { // with reason RollingOut, later PodsNotReady
			if now := h.conditions(); !strings.Contains(now, "installing 4.22.0-2") || !strings.Contains(now, "waiting for Deployment "+namespace+"/capa") {
				return errors.New(now)
			}
			return nil
		})
		live := h.object(crdKind, "", machines)
		if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1"}) || object.StorageVersion(live) != "v1beta1" || !object.ServesVersion(live, "v1beta2") {
			t.Errorf("stored versions are %v, versions %v", stored, object.MapsAt(live.Object, "spec", "versions"))
		}
		if h.admits() != "v1beta1" {
			t.Errorf("the webhook admits %s", h.admits())
		}
		one := instanceOf("v1beta1")
		one.SetNamespace(namespace)
		one.SetName("m0")
		h.must(h.Patch(t.Context(), one, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.FieldOwner("user")))
	}
	held()
	waiting := map[string]string{}
	for _, phase := range h.clusterAPI().Status.Version("4.22.0-2").Phases {
		for _, one := range phase.WaitingFor {
			waiting[one.Object] = string(phase.State) + ": " + one.Message
		}
	}
	for what, want := range map[string]string{
		"CustomResourceDefinition " + machines:         "Progressing: stores instances in v1beta1 until the pods of the component are ready",
		"ValidatingWebhookConfiguration capa-webhooks": "Progressing: is applied when the pods of the component are ready",
		"Deployment " + namespace + "/capa":            "Progressing: ",
	} {
		if !strings.HasPrefix(waiting[what], want) {
			t.Errorf("%s waits with %q, want %q; all: %v", what, waiting[what], want, waiting)
		}
	}
	h.rest()
	h.wrote.Clear()
	h.reconcileTimes(3)
	if written := slices.DeleteFunc(h.written(), func(request string) bool { return strings.HasSuffix(request, "/status") }); len(written) > 0 && !dryRunsUnchanged() { // the original repeats writes without effect until the phase is complete
		t.Errorf("the installer writes while it waits: %v", written)
	}
	for what, patch := range map[string]string{
		crdKind: `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`, webhookKind: `{"webhooks":[]}`,
	} {
		name := map[string]string{crdKind: machines, webhookKind: "capa-webhooks"}[what]
		before := h.object(what, "", name)
		h.patch(what, "", name, "test", patch)
		h.eventually(what+" is reverted", func() error {
			if now := h.object(what, "", name); !object.Equal(now.Object["spec"], before.Object["spec"]) || !object.Equal(now.Object["webhooks"], before.Object["webhooks"]) {
				return fmt.Errorf("it is %v, want %v", now.Object, before.Object)
			}
			return nil
		})
	}
	h.stop()
	h.start("4.22.0")
	held()
	webhook.fails("")
	h.setNode(true)
	h.settled("4.22.0-2")
	if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1", "v1beta2"}) || h.admits() != "v1beta2" {
		t.Errorf("stored versions are %v, the webhook admits %s", stored, h.admits())
	}
	if got := order(); !slices.Equal(got, []string{"webhook, pods ready: true", "CRD, pods ready: true"}) {
		t.Errorf("the switch was made in the order %v", got)
	}
	h.expectQuiet(func() { h.reconcileTimes(3) })
	check("v1beta1")
}

// recordSwitch records the writes of the webhook configuration and of the storage version of the CRD that switch to v1beta2, and whether the
// Deployment was ready. The returned function ends the record.
func (h *harness) recordSwitch() (end func() []string) {
	var mutex sync.Mutex
	var order []string
	h.onRequest.Store(new(func(request *http.Request) *http.Response {
		what := map[bool]string{strings.HasSuffix(request.URL.Path, "/capa-webhooks"): "webhook", strings.HasSuffix(request.URL.Path, machines): "CRD"}[true]
		if request.Method != http.MethodPatch || request.URL.Query().Has("dryRun") || what == "" {
			return nil
		}
		written := &unstructured.Unstructured{}
		body, err := request.GetBody()
		if err != nil {
			return nil
		}
		content, err := io.ReadAll(body)
		if err != nil || decode(string(content), written) != nil {
			return nil
		}
		if what == "CRD" && object.StorageVersion(written) != "v1beta2" || what == "webhook" && !strings.Contains(fmt.Sprint(written.Object["webhooks"]), "v1beta2") {
			return nil
		}
		rolledOut := &appsv1.Deployment{}
		err = h.Get(request.Context(), client.ObjectKey{Namespace: namespace, Name: "capa"}, rolledOut)
		ready := err == nil && rolledOut.Status.Replicas == 1 && rolledOut.Status.UpdatedReplicas == 1 && rolledOut.Status.AvailableReplicas == 1
		entry := fmt.Sprintf("%s, pods ready: %t", what, ready)
		mutex.Lock()
		defer mutex.Unlock()
		if !slices.Contains(order, entry) {
			order = append(order, entry)
		}
		return nil
	}))
	return func() []string {
		h.onRequest.Store(nil)
		mutex.Lock()
		defer mutex.Unlock()
		return order
	}
}

// A process that ends before or after any write of a way back to a release without the storage version is followed by one that completes it.
func TestHold_CrashAtEveryWriteOfTheWayBack(t *testing.T) {
	h := newHarness(t)
	release := func(number int, versions ...string) {
		h.release(core(), awsWith(versioned(versions...), generation("capa", number), admitting(versions[len(versions)-1])))
	}
	release(0, "v1")
	h.start("4.22.0")
	h.settled("4.22.0-1")
	check := h.instances("v1", 3)
	h.crashAtEveryWrite(ofSwitch, func(i int) (func(), string) {
		release(2*i-1, "v1", "v2")
		h.settled(fmt.Sprint("4.22.0-", 2*i))
		return func() { release(2*i+1, "v1") }, fmt.Sprint("4.22.0-", 2*i+1)
	}, func(i int) {
		if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1"}) || h.admits() != "v1" {
			t.Errorf("crash %d: stored versions are %v, the webhook admits %s", i, stored, h.admits())
		}
		check("v1")
	})
}

// A process that ends before or after any write of a rollout with a new storage version is followed by one that completes it. The storage version
// never switches before the pods are ready.
func TestHold_CrashAtEveryWrite(t *testing.T) {
	h := newHarness(t)
	name := func(i int) string { return fmt.Sprint("v", i) }
	release := func(i int) {
		h.release(core(), awsWith(versioned(name(i), name(i+1)), strings.Replace(deployment("capa", placeholder), "replicas: 1", fmt.Sprint("replicas: 1\n  revisionHistoryLimit: ", i), 1), admitting(name(i+1))))
	}
	h.accept(v1alpha1.AcceptedRisk{Name: v1alpha1.BreakingCRDChange, Release: "4.22.0"})
	release(0)
	h.start("4.22.0")
	h.settled("4.22.0-1")
	check := h.instances(name(1), 3)
	h.crashAtEveryWrite(ofSwitch, func(i int) (func(), string) {
		return func() { release(i) }, fmt.Sprint("4.22.0-", i+1)
	}, func(i int) {
		if stored := h.storedVersions(); !slices.Equal(stored, []string{name(i), name(i + 1)}) || h.admits() != name(i+1) {
			t.Errorf("crash %d: stored versions are %v, the webhook admits %s", i, stored, h.admits())
		}
		check(name(i + 1))
	})
}

// ofSwitch reports whether a request writes the CRD, the Deployment or the webhook configuration of a rollout.
func ofSwitch(request *http.Request) bool {
	of := request.URL.Path
	return request.Method == http.MethodPatch && !request.URL.Query().Has("dryRun") &&
		(strings.HasSuffix(of, machines) || strings.HasSuffix(of, "/deployments/capa") || strings.HasSuffix(of, "/capa-webhooks"))
}
