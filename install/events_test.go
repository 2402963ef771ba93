// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// events are the messages of the events with a reason about the ClusterAPI object as it is now.
func (h *harness) events(reason string) []string {
	h.Helper()
	list := &corev1.EventList{}
	h.must(h.List(context.Background(), list, client.InNamespace(metav1.NamespaceDefault)))
	var messages []string
	for _, event := range list.Items {
		if event.InvolvedObject.UID == h.clusterAPI().UID && event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}

// tells waits until there is exactly one event with a reason, and its message holds every part.
func (h *harness) tells(reason string, parts ...string) {
	h.Helper()
	h.eventually("there is one event "+reason, func() error {
		messages := h.events(reason)
		if len(messages) != 1 {
			return fmt.Errorf("there are %d: %q", len(messages), messages)
		}
		for _, part := range parts {
			if !strings.Contains(messages[0], part) {
				return fmt.Errorf("%q does not name %q", messages[0], part)
			}
		}
		return nil
	})
}

func TestTheLifeOfAVersionIsToldInEvents(t *testing.T) {
	h := newHarness(t)
	h.release(core(configMap("settings", "1")), aws())
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.tells("VersionStored", "4.22.0-1", "cluster-api v1.0.0", "cluster-api-provider-aws v1.0.0")
	h.tells("VersionInstalled", "4.22.0-1")
	h.tells("Available", "True")

	edited := h.object("v1/ConfigMap", namespace, "settings")
	h.must(unstructured.SetNestedField(edited.Object, "2", "data", "value"))
	h.must(h.Update(t.Context(), edited))
	h.tells("DriftCorrected", "ConfigMap openshift-cluster-api/settings (was edited)")

	h.stop()
	h.release(core(configMap("settings", "3")), aws())
	h.start("4.22.1")
	h.settled("4.22.1-2")
	h.tells("VersionRetired", "4.22.0-1")
	h.tells("DriftCorrected", "settings") // that the next version brings other content is no drift
	if stored := h.events("VersionStored"); len(stored) != 2 {
		t.Errorf("versions were stored: %q", stored)
	}
}
