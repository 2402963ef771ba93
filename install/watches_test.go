// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/install/version"
)

const (
	policyKind      = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
	configNamespace = "openshift-config"
)

// watched lists changes while nothing else happens, each with the controllers that must reconcile.
var watched = []struct {
	name        string
	change      func(h *harness, test *testing.T)
	controllers []string
}{
	{"images.json is written again", func(h *harness, _ *testing.T) { h.writeImages() }, []string{"version"}},
	{"ClusterAPI gets a label", func(h *harness, _ *testing.T) { h.touch() }, []string{"clusteroperator", "installer", "official-clusterapi", "version"}},
	{"a ConfigMap of the operator's namespace is created", func(h *harness, test *testing.T) {
		h.create(test, "v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operator, "other", nil, nil)
	}, []string{"installer", "version"}},
	{"another ConfigMap of the providers' namespace is created", func(h *harness, test *testing.T) {
		h.create(test, "v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operand, "other", nil, nil)
	}, nil},
	{"the policy for transport ConfigMaps changes", func(h *harness, _ *testing.T) { h.note(policyKind, "", version.TransportPolicyName) }, []string{"version"}},
	{"its binding is deleted", func(h *harness, _ *testing.T) { h.deleteBinding(version.TransportPolicyName) }, []string{"version"}},
	{"the platform object changes, and the status records it", func(h *harness, _ *testing.T) { h.note("config.openshift.io/v1/Infrastructure", "", "cluster") }, []string{"clusteroperator", "official-clusterapi", "version"}},
	{"an ImageDigestMirrorSet is created", func(h *harness, test *testing.T) {
		h.create(test, "config.openshift.io/v1/ImageDigestMirrorSet", "", "watched", nil, map[string]any{})
	}, []string{"version"}},
	{"an ImageTagMirrorSet is created", func(h *harness, test *testing.T) {
		h.create(test, "config.openshift.io/v1/ImageTagMirrorSet", "", "watched", nil, map[string]any{})
	}, []string{"version"}},
	{"the CRD of a configuration kind changes", func(h *harness, _ *testing.T) { h.note(crdKind, "", "infrastructures.config.openshift.io") }, []string{"clusteroperator", "official-clusterapi", "version"}},
	{"OpenShift's own ClusterAPI changes", func(h *harness, _ *testing.T) { h.note("operator.openshift.io/v1alpha1/ClusterAPI", "", "cluster") }, []string{"official-clusterapi", "version"}},
	{"the ClusterOperator changes", func(h *harness, _ *testing.T) {
		h.note("config.openshift.io/v1/ClusterOperator", "", v1alpha1.ClusterOperatorName)
	}, []string{"clusteroperator"}},
	{"an installed ConfigMap changes", func(h *harness, _ *testing.T) { h.note("v1/ConfigMap", namespace, "settings") }, []string{"installer"}},
	{"an installed CRD changes", func(h *harness, _ *testing.T) { h.note(crdKind, "", machines) }, []string{"installer"}},
	{"another CRD becomes retained", func(h *harness, test *testing.T) {
		retain := func(value string) error {
			patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %s}}}`, v1alpha1.AdoptAnnotation, value)
			return h.Patch(context.Background(), h.object(crdKind, "", "clusteroperators.config.openshift.io"), client.RawPatch(types.MergePatchType, patch))
		}
		test.Cleanup(func() { h.must(retain("null")) })
		h.must(retain(strconv.Quote(v1alpha1.AdoptAlways)))
	}, []string{"clusteroperator", "installer", "official-clusterapi", "version"}},
	{"a ConfigMap with certificates is created", func(h *harness, test *testing.T) {
		h.create(test, "v1/ConfigMap", configNamespace, "certificates", nil, nil)
	}, []string{"version"}},
	{"the pull secret is created", func(h *harness, test *testing.T) {
		h.create(test, "v1/Secret", configNamespace, "pull-secret", nil, nil)
	}, []string{"version"}},
	{"another Secret is created", func(h *harness, test *testing.T) { h.create(test, "v1/Secret", configNamespace, "other", nil, nil) }, nil},
	{"an incomplete transport ConfigMap is created, which the status names", func(h *harness, test *testing.T) {
		h.create(test, "v1/ConfigMap", v1alpha1.OpenShiftNamespaces.Operand, "transport", map[string]string{configmap.BundleLabel: "other"}, nil)
	}, []string{"clusteroperator", "installer", "official-clusterapi", "version"}},
}

// Without one of the watches, a change waits for the next event of another kind, possibly for days.
func TestWatches_CauseReconciles(t *testing.T) {
	h := newHarness(t)
	h.registries = true
	h.serveOfficial()
	h.installRelease(core(configMap("settings", "1")), aws(crd("machines", "Machine")))
	outer := t // undoes the changes, because an undone change causes reconciles too
	for _, test := range watched {
		t.Run(test.name, func(t *testing.T) {
			defer h.reportTo(t)()
			before := h.quiet(3 * time.Second)
			test.change(h, outer)
			h.eventually("all controllers have reconciled", func() error {
				if got := h.reconciledSince(before); len(got) < len(test.controllers) {
					return fmt.Errorf("only %v have", got)
				}
				return nil
			})
			h.quiet(500 * time.Millisecond)
			if diff := cmp.Diff(test.controllers, h.reconciledSince(before)); diff != "" {
				t.Errorf("controllers that reconciled (-want +got):\n%s", diff)
			}
		})
	}
}

// quiet waits until no controller has reconciled for some time, and returns the numbers of reconciles.
func (h *harness) quiet(lasting time.Duration) map[string]int {
	h.Helper()
	last, since := h.finished.read(), time.Now()
	h.eventually("no controller reconciles", func() error {
		if now := h.finished.read(); !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		if time.Since(since) < lasting {
			return fmt.Errorf("reconciles: %v", last)
		}
		return nil
	})
	return last
}

// reconciledSince returns the controllers that have reconciled, sorted.
func (h *harness) reconciledSince(before map[string]int) (names []string) {
	for name, count := range h.finished.read() {
		if count > before[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// note changes an annotation.
func (h *harness) note(kind, namespace, name string) {
	h.Helper()
	h.patch(kind, namespace, name, "test", `{"metadata": {"annotations": {"example.com/note": "changed"}}}`)
}

// create creates an object and deletes it at the end of a test.
func (h *harness) create(test *testing.T, kind, namespace, name string, labels map[string]string, spec map[string]any) {
	h.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(parseKind(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(labels)
	if spec != nil {
		object.Object["spec"] = spec
	}
	h.eventually("no deleted policy rejects it", func() error { return h.Create(h.Context(), object) })
	test.Cleanup(func() { h.must(h.Delete(context.Background(), object)) })
}
