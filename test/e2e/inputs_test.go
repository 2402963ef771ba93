// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/random"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/faults"
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
	h.eventually(fmt.Sprintf("%s has the reason %s", kind, reason), func() error {
		cluster, err := h.clusterAPI()
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(cluster.Status.Conditions, kind)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("the reason is %v", c)
		}
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return fmt.Errorf("the message does not contain %q: %s", part, c.Message)
			}
		}
		return nil
	})
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

// on reports failures in a subtest until the returned function is called.
func (h *harness) on(t *testing.T) func() {
	outer := h.T
	h.T = t
	return func() { h.T = outer }
}

// ipam is a provider that clusters do not require.
func ipam(version string) fixture.Synthetic {
	return fixture.Synthetic{Name: "cluster-api-provider-ipam", Type: extractor.IPAM, Version: version}
}

// emptyImage is an image without a bundle.
func (h *harness) emptyImage() string {
	h.Helper()
	image, err := random.Image(1024, 2)
	h.must(err)
	return h.Registry.MustPush(h.T, "test/empty", image)
}

// withDigest returns a reference with another digest.
func withDigest(reference, digit string) string {
	name, _, _ := strings.Cut(reference, "@")
	return name + "@sha256:" + strings.Repeat(digit, 64)
}

// badInputs are inputs that must create no version. Each has the reason of the condition and parts of its message.
var badInputs = []struct {
	name   string
	spoil  func(h *harness, good map[string]string)
	reason string
	names  []string
}{
	{"images.json is an empty file", func(h *harness, _ map[string]string) { h.write("") }, "ImagesInvalid", []string{"images.json"}},
	{"images.json is an empty object", func(h *harness, _ map[string]string) { h.write("{}") }, "ComponentMissing", []string{"core", "infrastructure"}},
	{"images.json is cut off", func(h *harness, _ map[string]string) { h.write(`{"cluster-api": "quay`) }, "ImagesInvalid", []string{"images.json", "1:"}},
	{"images.json is of another release", func(h *harness, _ map[string]string) {
		h.writeRelease("4.21.9")
		h.writeImages(h.imagesOf(core("v0.9.0"), aws("v0.9.0")))
	}, "ReleaseMismatch", []string{"4.21.9", "4.22.0"}},
	{"the core provider is not listed", func(h *harness, good map[string]string) {
		delete(good, "cluster-api")
		h.writeImages(good)
	}, "ComponentMissing", []string{"type core"}},
	{"the platform's provider is not listed", func(h *harness, good map[string]string) {
		delete(good, "cluster-api-provider-aws")
		h.writeImages(good)
	}, "ComponentMissing", []string{"type infrastructure", "AWS"}},
	{"a needed image has lost its bundle", func(h *harness, good map[string]string) {
		good["cluster-api-provider-aws"] = h.emptyImage()
		h.writeImages(good)
	}, "ComponentMissing", []string{"type infrastructure"}},
	{"an optional image has lost its bundle", func(h *harness, good map[string]string) {
		good["cluster-api-provider-ipam"] = h.emptyImage()
		h.writeImages(good)
	}, "ComponentMissing", []string{"cluster-api-provider-ipam", "now contains no provider"}},
	{"an image is not in its registry", func(h *harness, good map[string]string) {
		good["cluster-api-provider-ipam"] = withDigest(good["cluster-api-provider-ipam"], "1")
		h.writeImages(good)
	}, "ImageUnreadable", []string{"cluster-api-provider-ipam", strings.Repeat("1", 64), "127.0.0.1"}},
	{"a new image cannot be pulled", func(h *harness, good map[string]string) {
		good["brand-new"] = withDigest(good["cluster-api"], "2")
		h.writeImages(good)
	}, "ImageUnreadable", []string{"brand-new"}},
	{"a provider is defined twice", func(h *harness, good map[string]string) {
		good["again"] = h.push(aws("v3.0.0"))
		h.writeImages(good)
	}, "ComponentMissing", []string{"cluster-api-provider-aws", "is defined by both", "again"}},
	{"the platform is unknown", func(h *harness, _ map[string]string) { h.platform("") }, "PlatformUnknown", []string{"Infrastructure cluster"}},
	{"an override by tag is rejected, and an override with a missing image is reported", func(h *harness, good map[string]string) {
		if err := h.override(v1alpha1.ImageOverride{Name: "cluster-api", Image: "quay.io/me/capi:latest"}); err == nil {
			h.Error("the API server accepts an override by tag")
		}
		h.must(h.override(v1alpha1.ImageOverride{Name: "cluster-api", Image: v1alpha1.ImageReference(withDigest(good["cluster-api"], "3"))}))
	}, "ImageUnreadable", []string{"cluster-api", "spec.imageOverrides", strings.Repeat("3", 64)}},
	{"an override with a provider of the wrong type", func(h *harness, good map[string]string) {
		other := h.push(fixture.Synthetic{Name: "cluster-api-provider-other", Type: extractor.Addon})
		h.must(h.override(v1alpha1.ImageOverride{Name: "cluster-api-provider-ipam", Image: v1alpha1.ImageReference(other)}))
	}, "ComponentMissing", []string{"cluster-api-provider-ipam", "now contains cluster-api-provider-other of type addon", "spec.imageOverrides"}},
	{"an override at an unavailable registry", func(h *harness, good map[string]string) {
		away := "127.0.0.1:1/test/capi@sha256:" + strings.Repeat("4", 64)
		h.must(h.override(v1alpha1.ImageOverride{Name: "cluster-api", Image: v1alpha1.ImageReference(away)}))
	}, "ImageUnreadable", []string{"cluster-api", "127.0.0.1:1", "spec.imageOverrides"}},
}

func TestInputs_InvalidInputChangesNothing(t *testing.T) {
	h := newHarness(t)
	good := h.imagesOf(core("v1.0.0"), aws("v1.0.0"), ipam("v1.0.0"))
	h.writeImages(good)
	h.start("4.22.0")
	h.settled("4.22.0-1")
	before := h.fingerprints()
	for _, test := range badInputs {
		if !t.Run(test.name, func(t *testing.T) {
			defer h.on(t)()
			test.spoil(h, maps.Clone(good))
			kind := map[bool]string{true: "VersionProgressing", false: "VersionDegraded"}[test.reason == "PlatformUnknown"]
			h.reports(kind, test.reason, test.names...)
			h.untouched(before)
			if names := h.revisions(); !slices.Equal(names, []string{"4.22.0-1"}) {
				t.Errorf("revision ConfigMaps: %v", names)
			}
			cluster, err := h.clusterAPI()
			h.must(err)
			if !meta.IsStatusConditionTrue(cluster.Status.Conditions, "Available") {
				t.Error("Available is not True although all objects are installed")
			}
			h.platform(configv1.AWSPlatformType)
			h.must(h.override())
			h.writeImages(good) // before its release is corrected, or the invalid input counts for a moment
			if err := os.Remove(filepath.Join(filepath.Dir(h.ImagesJSON), "release-version")); !errors.Is(err, fs.ErrNotExist) {
				h.must(err)
			}
			h.settled("4.22.0-1")
			h.untouched(before)
		}) {
			break // the cluster is not in the initial state of the next one
		}
	}
}

// writeRelease writes the release version of images.json.
func (h *harness) writeRelease(release string) {
	h.Helper()
	h.must(os.WriteFile(filepath.Join(filepath.Dir(h.ImagesJSON), "release-version"), []byte(release+"\n"), 0o600))
}

// platform writes the platform of the Infrastructure object; empty removes it.
func (h *harness) platform(platform configv1.PlatformType) {
	h.Helper()
	h.eventually("the Infrastructure object is written", func() error {
		infrastructure := &configv1.Infrastructure{}
		if err := h.Get(context.Background(), client.ObjectKey{Name: "cluster"}, infrastructure); err != nil {
			return err
		}
		infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{Type: platform}
		if platform == "" {
			infrastructure.Status.PlatformStatus = nil
		}
		return h.Status().Update(context.Background(), infrastructure)
	})
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

func TestInputs_UnreadableImageOfAnotherPlatform(t *testing.T) {
	h := newHarness(t)
	azure := fixture.Synthetic{Name: "cluster-api-provider-azure", Platform: "Azure"}
	images := h.imagesOf(core("v1.0.0"), aws("v1.0.0"), azure)
	images["empty"] = h.emptyImage()
	h.writeImages(images)
	h.start("4.22.0").settle("4.22.0-1", h).terminate()
	h.must(os.RemoveAll(h.Cache)) // the next pod runs on another node
	for _, key := range []string{"cluster-api-provider-azure", "empty"} {
		_, digest, _ := strings.Cut(images[key], "@")
		images[key] = "127.0.0.1:1/mirror/without/it@" + digest
	}
	images["cluster-api-provider-aws"] = h.push(aws("v2.0.0"))
	h.writeImages(images)
	h.start("4.22.1").settle("4.22.1-2", h).terminate()
	images["cluster-api-provider-azure"] = withDigest(images["cluster-api-provider-azure"], "5") // another image; it is not cached
	images["cluster-api-provider-aws"] = h.push(aws("v3.0.0"))
	h.writeImages(images)
	before := h.fingerprints()
	h.start("4.22.1")
	h.reports("VersionDegraded", "ImageUnreadable", "cluster-api-provider-azure", strings.Repeat("5", 64))
	h.untouched(before)
}

// settle waits until a version is installed, and returns the process.
func (p *process) settle(version string, h *harness) *process {
	h.Helper()
	h.settled(version)
	return p
}

func TestRestart_DuringReleaseChange(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	h.start("4.22.0").settle("4.22.0-1", h).terminate()
	before := h.fingerprints()
	next := h.imagesOf(core("v2.0.0"), aws("v2.0.0"))
	h.writeImages(next)
	h.Proxy.Fail(faults.Fault{Verbs: []string{faults.Update}, Path: "/clusterapis/cluster/status", Status: http.StatusServiceUnavailable})
	killed := h.start("4.22.1")
	h.eventually("the version is stored, and not in the status", func() error {
		if !killed.logged("Stored version") {
			return errors.New("the version is not stored")
		}
		return nil
	})
	killed.Kill()
	h.Proxy.Heal()
	h.write("{}") // the mounted file is outdated
	h.start("4.22.1")
	h.reports("VersionDegraded", "ComponentMissing", "core", "infrastructure")
	h.settledOn("4.22.0-1")
	h.untouched(before)
	h.writeImages(next)
	h.settled("4.22.1-2")
	h.owned("4.22.1-2")
}

func TestImagesJSON_MountedConfigMapChanges(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	first, err := os.ReadFile(h.ImagesJSON)
	h.must(err)
	mount := filepath.Join(t.TempDir(), "mount")
	h.ImagesJSON = filepath.Join(mount, "images.json")
	h.must(os.MkdirAll(mount, 0o755))
	change := func(release string, images []byte) {
		h.must(project(mount, map[string]string{"images.json": string(images), "release-version": release}))
	}
	change("4.22.0", first)
	h.start("4.22.0").settle("4.22.0-1", h)
	second, err := json.Marshal(h.imagesOf(core("v2.0.0"), aws("v2.0.0")))
	h.must(err)
	change("4.22.0", second)
	h.settled("4.22.0-2")
	change("4.23.0", first)
	h.reports("VersionDegraded", "ReleaseMismatch", "4.23.0")
	change("4.22.0", second)
	h.settled("4.22.0-2")
	h.ImagesJSON = filepath.Join(t.TempDir(), "images.json")
}

func TestConvergence_HundredReconcilesWriteNothing(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	p := h.start("4.22.0").settle("4.22.0-1", h)
	h.quiet()
	writes, events := h.Proxy.Writes(), h.runs(p)
	for i := 0; h.runs(p)-events < 100; i++ {
		seen := h.runs(p)
		cluster, err := h.clusterAPI()
		h.must(err)
		before := cluster.DeepCopy()
		cluster.Labels = map[string]string{"touched": fmt.Sprint(i)}
		h.must(h.Patch(t.Context(), cluster, client.MergeFrom(before)))
		h.ran(p, seen)
	}
	if written := h.Proxy.Writes() - writes; written != 0 {
		t.Errorf("%d writes in %d runs, want none", written, h.runs(p)-events)
	}
}

// runs returns the number of reconciles of the version controller.
func (h *harness) runs(p *process) int {
	h.Helper()
	metrics, err := p.ReadMetrics(h.Context())
	h.must(err)
	return int(metrics.By("controller_runtime_reconcile_total", "controller")["version"])
}

// ran waits until the version controller has reconciled more often than before.
func (h *harness) ran(p *process, before int) {
	h.Helper()
	h.eventually("the version controller has reconciled", func() error {
		if h.runs(p) == before {
			return errors.New("it has not reconciled")
		}
		return nil
	})
}
