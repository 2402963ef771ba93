// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/installation"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if err := errors.Join(controlplane.StopShared(), removeBinary()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// full reports whether scenarios are repeated at every step.
var full = os.Getenv("E2E") == "full"

var namespace = v1alpha1.OpenShiftNamespaces.Operand

const patience = 2 * time.Minute

// harness is a cluster with the installer's manifests, a proxy in front of its API server, a registry and a release.
type harness struct {
	*testing.T
	client.Client // Admin of the bed
	*installation.Bed

	vanilla   bool     // the cluster has no OpenShift APIs
	arguments []string // of every process
	memory    []string // environment variables for the memory of every process; nil bounds it as in a cluster

	leased *testing.T // uninstalls everything at its end; nil if the cluster is not used again
	last   *process   // that leased has started; nil if it has started none
}

// newHarness prepares a cluster with OpenShift on AWS. The test runs in parallel with others.
func newHarness(t *testing.T) *harness {
	t.Helper()
	t.Parallel()
	h := connect(t, controlplane.Lease(t))
	h.prepare()
	h.leased = t
	h.Cleanup(func() {
		if !h.Failed() { // otherwise the cluster is not used again
			h.uninstall()
		}
		h.endLast()
	})
	return h
}

// newVanillaHarness prepares a new cluster without OpenShift APIs for the duration of the test. The test runs in
// parallel with others.
func newVanillaHarness(t *testing.T) *harness {
	t.Helper()
	t.Parallel()
	h := connect(t, controlplane.Fresh(t))
	h.vanilla = true
	h.prepare()
	return h
}

// unbounded makes a process collect garbage rarely, to save CPU time.
var unbounded = []string{"GOGC=400", "GOMEMLIMIT=off"}

// connect returns a harness for an existing cluster.
func connect(t *testing.T, cluster *controlplane.Cluster) *harness {
	t.Helper()
	bed, err := installation.New(cluster, t.TempDir())
	must(t, err)
	h := &harness{T: t, Client: bed.Admin, Bed: bed, memory: unbounded}
	h.Cleanup(func() { h.must(bed.Close()) })
	return h
}

// prepare applies the objects of a release that the installer needs, except its Deployment, and puts a proxy between
// the installer and the API server.
func (h *harness) prepare() {
	h.Helper()
	_, err := h.Prepare(h.Context(), fixture.Preparation{WithoutOpenShift: h.vanilla})
	h.must(err)
}

// start starts capi-installer of a release.
func (h *harness) start(release string, arguments ...string) *process {
	h.Helper()
	return h.startWatched(release, nil, arguments...)
}

// startWatched is start; watch is called for each line of the log before the next one is read. The process is killed at
// the end of the test, the last one after it has uninstalled everything.
func (h *harness) startWatched(release string, watch func(*process, line), arguments ...string) *process {
	h.Helper()
	p := launch(h.T, h.memory, watch, slices.Concat(h.Arguments(release), h.arguments, arguments)...)
	if h.T != h.leased {
		h.Cleanup(p.end)
		return p
	}
	if previous := h.last; previous != nil {
		h.Cleanup(previous.end)
	}
	h.last = p
	return p
}

// endLast ends the last process.
func (h *harness) endLast() {
	if h.last != nil {
		h.last.end()
	}
}

// dropLease deletes the lease of a process that has ended.
func (h *harness) dropLease() {
	h.must(h.DeleteAllOf(context.Background(), &coordinationv1.Lease{}, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator)))
}

// uninstall deletes the ClusterAPI object and waits until the last process, or a new one, has removed all objects, so
// that the next test that leases the cluster finds it in its original state.
func (h *harness) uninstall() {
	h.Proxy.Heal()
	h.must(h.Proxy.Up())
	h.must(h.Uninstall(context.Background()))
	if _, err := os.Stat(h.ImagesJSON); err != nil {
		h.must(h.WriteImagesJSON("{}"))
	}
	p := h.last
	if p == nil || !p.Runs() {
		h.dropLease() // the new process has no --leader-elect, and does not start while another one holds the lease
		p = h.start("0.0.0")
		h.eventually("the program is ready", func() error { return answers(p.Health + "/readyz") })
	}
	h.within(10*patience, "everything is uninstalled", func() error {
		if !p.Runs() {
			h.Fatalf("capi-installer ended during the uninstallation: %v", p.Err)
		}
		if originalBoxcutter() && len(h.revisions()) == 0 {
			h.removeUnknown()
		}
		return h.remaining()
	})
	p.terminate()
	// A program that ended while the API server was down still holds its lease, and the next one would wait for over two minutes.
	h.dropLease()
	h.must(h.DeleteClusterOperator(context.Background()))
}

// removeUnknown deletes the objects that the original boxcutter leaves, because its cache does not show them: after the API
// server was down, its watches are retried with long pauses.
func (h *harness) removeUnknown() {
	h.Helper()
	for _, object := range h.installed() {
		object.SetLabels(nil) // an admission policy keeps the CRDs with the installer's label
		h.must(client.IgnoreNotFound(h.Update(context.Background(), object)))
		h.must(client.IgnoreNotFound(h.Delete(context.Background(), object)))
	}
}

// remaining returns an error while the ClusterAPI object, revisions or installed objects exist.
func (h *harness) remaining() error { return h.Remaining(context.Background()) }

// release pushes images of providers and writes them to images.json.
func (h *harness) release(providers ...fixture.Synthetic) {
	h.Helper()
	h.writeImages(h.imagesOf(providers...))
}

// releaseBundles pushes images of bundles and writes them to images.json.
func (h *harness) releaseBundles(bundles ...extractor.Bundle) {
	h.Helper()
	images, err := h.Push(bundles...)
	h.must(err)
	h.writeImages(images)
}

// core and aws are the required providers of a cluster on AWS, in a version.
func core(version string, extra ...string) fixture.Synthetic {
	return fixture.Synthetic{Name: "cluster-api", Type: extractor.Core, Version: version, Extra: strings.Join(extra, "---\n")}
}

func aws(version string, extra ...string) fixture.Synthetic {
	return fixture.Synthetic{Name: "cluster-api-provider-aws", Platform: "AWS", Version: version, Extra: strings.Join(extra, "---\n")}
}

// configMap returns the manifest of a ConfigMap.
func configMap(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\n", name, namespace)
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// eventually waits until check returns nil; otherwise it fails the test with the last error.
func (h *harness) eventually(what string, check func() error) {
	h.Helper()
	h.within(patience, what, check)
}

// within is eventually with another timeout.
func (h *harness) within(limit time.Duration, what string, check func() error) {
	h.Helper()
	if err := installation.Wait(limit, what, h.writes, check); err != nil {
		h.Fatalf("%v\n%s", err, h.conditions())
	}
}

// writes returns the number of writes of the installer; 0 before it can write.
func (h *harness) writes() int64 {
	if h.Proxy == nil {
		return 0
	}
	return int64(h.Proxy.Writes())
}

// clusterAPI reads the ClusterAPI object.
func (h *harness) clusterAPI() (*v1alpha1.ClusterAPI, error) {
	return h.ClusterAPI(context.Background())
}

// conditions describes all conditions, for a failed test.
func (h *harness) conditions() string { return h.Conditions(context.Background()) }

// unsettled returns an error until only this version is installed.
func (h *harness) unsettled(version string) error { return h.Unsettled(context.Background(), version) }

// settled waits until only this version exists and the conditions are settled.
func (h *harness) settled(version string) {
	h.Helper()
	h.within(2*patience, "version "+version+" is installed and nothing else", func() error { return h.unsettled(version) })
}

// installed returns all objects with the label of installed objects, by kind and name.
func (h *harness) installed() map[string]*unstructured.Unstructured {
	h.Helper()
	objects, err := fixture.Installed(context.Background(), h)
	h.must(err)
	found := map[string]*unstructured.Unstructured{}
	for i := range objects {
		found[objects[i].GetKind()+" "+objects[i].GetName()] = &objects[i]
	}
	return found
}

// names returns the names of the installed objects, sorted.
func (h *harness) names() []string {
	h.Helper()
	names, err := fixture.InstalledNames(context.Background(), h)
	h.must(err)
	return names
}

// content returns the providers' part of the installed objects, without the fields of the API server and the installer.
func (h *harness) content() map[string]any {
	h.Helper()
	out := map[string]any{}
	for name, object := range h.installed() {
		delete(object.Object, "status")
		for _, address := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(object.Object, "spec", address)
		}
		object.Object["metadata"] = map[string]any{"labels": object.GetLabels()}
		out[name] = object.Object
	}
	return out
}

// owners returns the owner of each object of a version, as the version stores it.
func (h *harness) owners(name string) map[string]string {
	h.Helper()
	cluster, err := h.clusterAPI()
	h.must(err)
	version := cluster.Status.Version(name)
	if version == nil {
		h.Fatalf("version %s not found:\n%s", name, h.conditions())
	}
	configMaps := &corev1.ConfigMapList{}
	h.must(h.List(context.Background(), configMaps, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator)))
	stored, err := revision.FromConfigMaps(name, configMaps.Items)
	h.must(err)
	set, err := stored.Decode()
	h.must(err)
	owner := cmp.Or(version.InstalledAs, version.Name)
	number, err := revision.Number(owner)
	h.must(err)
	phases, err := revision.Phases(owner, number, set, version.UnmanagedCRDs)
	h.must(err)
	owners := map[string]string{}
	for _, phase := range phases {
		for _, object := range phase.Objects {
			owners[object.GetKind()+" "+object.GetName()] = phase.Owner
		}
	}
	return owners
}

// owned fails the test unless the only owner of every installed object is the version that installed its component.
func (h *harness) owned(version string) {
	h.Helper()
	wanted := h.owners(version)
	for name, object := range h.installed() {
		var owners []struct{ Name string }
		if err := json.Unmarshal([]byte(object.GetAnnotations()[v1alpha1.OwnersAnnotation]), &owners); err != nil {
			h.Errorf("the owners of %s cannot be read: %v", name, err)
			continue
		}
		if len(owners) != 1 || owners[0].Name != wanted[name] {
			h.Errorf("%s is owned by %v, want only %s", name, owners, wanted[name])
		}
	}
}
