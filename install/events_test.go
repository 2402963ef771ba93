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

// events returns the messages of the events with a reason about the current ClusterAPI object; of all if the reason is empty.
func (h *harness) events(reason string) []string {
	h.Helper()
	list, selected := &corev1.EventList{}, client.MatchingFields{"involvedObject.uid": string(h.clusterAPI().UID)}
	if reason != "" {
		selected["reason"] = reason
	}
	h.must(h.List(context.Background(), list, client.InNamespace(metav1.NamespaceDefault), selected))
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

// namedInEvents waits until the events with a reason contain every part.
func (h *harness) namedInEvents(reason string, parts ...string) {
	h.Helper()
	h.eventually(fmt.Sprintf("events %s name %q", reason, parts), func() error {
		all := strings.Join(h.events(reason), "; ")
		for _, part := range parts {
			if !strings.Contains(all, part) {
				return fmt.Errorf("%s is not in %q", part, all)
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
	h.release(core(crd("waiters", "Waiter"), configMap("settings", "1")), aws(stuck("stuck")))
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
		h.becomes("settings", "1")
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
