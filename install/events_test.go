// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// events returns the messages of the events with a reason about the current ClusterAPI object.
func (h *harness) events(reason string) []string {
	h.Helper()
	list := &corev1.EventList{}
	h.must(h.List(context.Background(), list, client.InNamespace(metav1.NamespaceDefault),
		client.MatchingFields{"involvedObject.uid": string(h.clusterAPI().UID), "reason": reason}))
	var messages []string
	for _, event := range list.Items {
		messages = append(messages, event.Message)
	}
	return messages
}

// reportsEvent waits for exactly one event with a reason and a message that contains every part.
func (h *harness) reportsEvent(reason string, parts ...string) {
	h.Helper()
	h.eventually("one event "+reason, func() error {
		messages := h.events(reason)
		if len(messages) != 1 {
			return fmt.Errorf("got %d events: %q", len(messages), messages)
		}
		for _, part := range parts {
			if !strings.Contains(messages[0], part) {
				return fmt.Errorf("message %q does not contain %q", messages[0], part)
			}
		}
		return nil
	})
}

func TestEvents_LifecycleOfAVersion(t *testing.T) {
	h := newInstallation(t, core(configMap("settings", "1")), aws())
	h.reportsEvent("VersionStored", "4.22.0-1", "cluster-api v1.0.0", "cluster-api-provider-aws v1.0.0")
	h.reportsEvent("VersionInstalled", "4.22.0-1")
	h.reportsEvent("Available", "True")

	h.edit("settings")
	h.reportsEvent("DriftCorrected", "ConfigMap openshift-cluster-api/settings (fields .data.value, changed by field manager ")

	h.stop()
	h.release(core(configMap("settings", "3")), aws())
	h.start("4.22.1")
	h.settled("4.22.1-2")
	h.reportsEvent("VersionRetired", "4.22.0-1")
	h.reportsEvent("DriftCorrected", "settings") // other content in the next version is not drift
	if stored := h.events("VersionStored"); len(stored) != 2 {
		t.Errorf("unexpected VersionStored events: %q", stored)
	}
}

func TestStatus_ProgressOfEachPhase(t *testing.T) {
	h := newHarness(t)
	stuck := strings.Replace(deployment("stuck", placeholder), "    spec:\n", "    spec:\n      nodeSelector: {absent: node}\n", 1) // its pods stay Pending
	h.release(core(crd("waiters", "Waiter"), configMap("settings", "1")), aws(stuck))
	h.start("4.22.0")
	var seen []string
	h.eventually("the phases have the expected states", func() error {
		version := h.clusterAPI().Status.Version("4.22.0-1")
		if version == nil {
			return fmt.Errorf("no version in the status")
		}
		seen = nil
		for _, phase := range version.Phases {
			seen = append(seen, fmt.Sprintf("%s %s %d/%d", phase.Name, phase.State, phase.Ready, phase.Objects))
		}
		want := []string{"cluster-api-crds Complete 1/1", "cluster-api Complete 2/2", "cluster-api-provider-aws Progressing 1/2"}
		if !slices.Equal(seen, want) {
			return fmt.Errorf("phases are %q", seen)
		}
		return nil
	})
	aws := h.clusterAPI().Status.Versions[0].Phases[2]
	if len(aws.WaitingFor) != 1 || aws.WaitingFor[0].Object != "Deployment openshift-cluster-api/stuck" || aws.WaitingFor[0].Message == "" {
		t.Fatalf("the phase waits for %+v", aws.WaitingFor)
	}
	h.stop()
	time.Sleep(1100 * time.Millisecond) // timestamps have a resolution of one second
	h.start("4.22.0")
	for range 2 { // the second edit is reverted after the first one was reported
		h.edit("settings")
		h.eventually("the restarted installer has reconciled", func() error {
			if value, _, _ := unstructured.NestedString(h.object("v1/ConfigMap", namespace, "settings").Object, "data", "value"); value != "1" {
				return fmt.Errorf("ConfigMap has value %q", value)
			}
			return nil
		})
	}
	if again := h.clusterAPI().Status.Versions[0].Phases[2]; !again.Since.Equal(&aws.Since) || !again.WaitingFor[0].Since.Equal(&aws.WaitingFor[0].Since) {
		t.Errorf("the phase changed with the restart from %+[2]v to %+[1]v", again, aws)
	}
}

// edit modifies the data of an installed ConfigMap.
func (h *harness) edit(name string) {
	h.Helper()
	edited := h.object("v1/ConfigMap", namespace, name)
	h.must(unstructured.SetNestedField(edited.Object, "edited", "data", "value"))
	h.must(h.Update(context.Background(), edited))
}

func TestEvents_RetainedCRDsOnce(t *testing.T) {
	h := newInstallation(t, core(), aws(crd("keepers", "Keeper")))
	keeper := &unstructured.Unstructured{}
	h.must(decode("apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: Keeper\nmetadata: {name: one, namespace: default}\n", keeper))
	h.must(h.Create(t.Context(), keeper))
	t.Cleanup(func() { // before the uninstall
		h.must(h.Delete(context.Background(), keeper))
		h.must(client.IgnoreNotFound(h.Delete(context.Background(), h.object("apiextensions.k8s.io/v1/CustomResourceDefinition", "", "keepers.infrastructure.cluster.x-k8s.io"))))
	})
	h.stop()
	h.release(core(), aws())
	h.start("4.22.1")
	h.settled("4.22.1-2")
	h.reportsEvent("CRDsKept", "4.22.0-1", "keepers.infrastructure.cluster.x-k8s.io")
}
