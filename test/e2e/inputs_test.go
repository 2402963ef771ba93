// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// push pushes the image of a provider and returns its reference.
func (h *harness) push(provider fixture.Synthetic) string {
	h.Helper()
	return h.imagesOf(provider)[provider.Name]
}

// imagesOf pushes the images of providers and returns them by their keys in images.json.
func (h *harness) imagesOf(providers ...fixture.Synthetic) map[string]string {
	h.Helper()
	var bundles []extractor.Bundle
	for _, provider := range providers {
		bundles = append(bundles, provider.Bundle())
	}
	images, err := h.Push(bundles...)
	h.must(err)
	return images
}

// writeImages replaces images.json atomically.
func (h *harness) writeImages(images map[string]string) {
	h.Helper()
	h.must(h.WriteImages(images))
}

// during creates an object for the duration of the test.
func (h *harness) during(object client.Object) {
	h.Helper()
	h.must(h.Create(h.Context(), object))
	h.Cleanup(func() { h.must(client.IgnoreNotFound(h.Delete(context.Background(), object))) })
}

func (h *harness) write(content string) {
	h.Helper()
	h.must(h.WriteImagesJSON(content))
}

// events returns the type and the message of each event with a reason.
func (h *harness) events(reason string) (found []string, err error) {
	events, err := h.eventObjects(reason)
	for _, event := range events {
		found = append(found, event.Type+" "+event.Message)
	}
	return found, err
}

// eventObjects returns the events with a reason.
func (h *harness) eventObjects(reason string) ([]corev1.Event, error) {
	events := &corev1.EventList{}
	err := h.List(h.Context(), events, client.InNamespace(corev1.NamespaceDefault))
	return slices.DeleteFunc(events.Items, func(event corev1.Event) bool { return event.Reason != reason }), err
}

// reports waits until a condition has a reason, and a message with every part.
func (h *harness) reports(kind, reason string, parts ...string) {
	h.Helper()
	h.eventually(fmt.Sprintf("%s has the reason %s", kind, reason), func() error { return h.HasReason(context.Background(), kind, reason, parts...) })
}

// fingerprints returns the installed objects without their status, to detect writes.
func (h *harness) fingerprints() map[string]string {
	h.Helper()
	found := map[string]string{}
	for name, object := range h.installed() {
		content, err := json.Marshal([]any{object.GetUID(), object.GetGeneration(), object.GetLabels(), object.GetAnnotations(), object.Object["spec"], object.Object["data"], object.Object["rules"]})
		h.must(err)
		found[name] = string(content)
	}
	return found
}

// untouched fails the test unless the installed objects are unchanged.
func (h *harness) untouched(before map[string]string) {
	h.Helper()
	if diff := cmp.Diff(before, h.fingerprints()); diff != "" {
		h.Errorf("installed objects (-before +after):\n%s", diff)
	}
}

// revisions returns the names of the revision ConfigMaps.
func (h *harness) revisions() []string {
	h.Helper()
	names, err := h.Revisions(context.Background())
	h.must(err)
	return names
}

// override replaces the overrides.
func (h *harness) override(overrides ...v1alpha1.ImageOverride) error {
	cluster, err := h.clusterAPI()
	if err != nil {
		return err
	}
	before := cluster.DeepCopy()
	cluster.Spec.ImageOverrides = overrides
	return h.Patch(context.Background(), cluster, client.MergeFrom(before))
}

// settle waits until a version is installed, and returns the process.
func (p *process) settle(version string, h *harness) *process {
	h.Helper()
	h.settled(version)
	return p
}
