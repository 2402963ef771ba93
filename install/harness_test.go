// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	boxcuttertypes "pkg.package-operator.run/boxcutter/machinery/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/install"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/registryconfig"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/installation"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // each installer logs to its own test
	controlplane.Main(m)
}

// harness is a cluster on AWS with the installer's manifests, a registry, and an
// installer with the credentials of its service account.
type harness struct {
	*testing.T
	client.Client // Admin of the bed
	*installation.Bed

	config   *rest.Config      // of the installer
	images   map[string]string // content of images.json
	writes   atomic.Int64      // of the installer, without dry runs
	dryRuns  atomic.Int64      // of the installer
	wrote    sync.Map          // "METHOD path" of each write
	requests requestLog        // dry runs and writes of the installer, with the status of each answer
	finished tally             // reconciles of each controller

	webhook         *converter    // of the CRDs of real providers; nil before the first release
	policy          string        // path of the signature policy; "" is none
	ignoreOfficial  bool          // OpenShift's own ClusterAPI object
	progressTimeout time.Duration // of a rollout; 0 is the default
	lateWrites      time.Duration // after the start of an installer: the time until a write of a former leader can arrive
	namespaces      v1alpha1.Namespaces
	registries      bool // the registry configuration of the cluster is read

	// onRequest is called before each request of the installer; nil disables it. A
	// response that it returns replaces the API server's.
	onRequest atomic.Pointer[func(*http.Request) *http.Response]

	stop func()   // ends the running installer; nil if none runs
	undo []func() // called after the uninstall at the end of the test
	log  log      // of all installers of the test
	mask masking.Mask
}

// log collects log lines for assertions.
type log struct {
	mutex sync.Mutex
	text  []string
}

func (l *log) lines() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.text)
}

// logger writes to the log, and to the test's output while the test runs.
func (h *harness) logger() logr.Logger {
	t := h.T // not the subtest's: it can end before the installer
	return funcr.New(func(prefix, args string) {
		if match := reconciled.FindStringSubmatch(args); match != nil {
			h.finished.add(match[1])
		}
		if strings.Contains(args, detail) {
			return
		}
		h.log.mutex.Lock()
		defer h.log.mutex.Unlock()
		args = h.mask.Text(args) // as the program does
		h.log.text = append(h.log.text, prefix+" "+args)
		t.Log(prefix, args)
	}, funcr.Options{Verbosity: 5})
}

// detail is part of each line of controller-runtime's most verbose level.
const detail = `"level"=5`

// reconciled matches the line that controller-runtime logs at the end of a reconcile.
// The metric cannot be used: all tests of the process share it.
var reconciled = regexp.MustCompile(`"msg"="(?:Reconcile successful|Reconcile done|Reconciler error).*"controller"="([^"]+)"`)

// tally counts by name.
type tally struct {
	mutex  sync.Mutex
	counts map[string]int
}

func (t *tally) add(name string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[name]++
}

func (t *tally) read() map[string]int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return maps.Clone(t.counts)
}

// newHarness prepares a cluster and uninstalls all objects at the end of the test. The
// test runs in parallel with others.
func newHarness(t *testing.T) *harness {
	t.Helper()
	t.Parallel()
	bed, err := installation.New(controlplane.Lease(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{T: t, Client: bed.Admin, Bed: bed, images: map[string]string{}, namespaces: v1alpha1.OpenShiftNamespaces}
	t.Cleanup(func() { h.must(bed.Close()) })
	_, err = fixture.Preparation{}.Apply(t.Context(), h.Cluster.Config)
	h.must(err)
	h.config, err = fixture.InstallerConfig(t.Context(), h.Cluster)
	h.must(err)
	h.config.QPS = -1
	h.config.Wrap(h.countWrites)
	t.Cleanup(h.uninstall)
	return h
}

// newInstallation returns a harness whose cluster has these providers installed, as version 4.22.0-1.
func newInstallation(t *testing.T, providers ...provider) *harness {
	t.Helper()
	h := newHarness(t)
	h.installRelease(providers...)
	return h
}

// installRelease makes release 4.22.0 of these providers, starts its installer, and waits until its first version is installed.
func (h *harness) installRelease(providers ...provider) {
	h.Helper()
	h.release(providers...)
	h.start("4.22.0")
	h.settled("4.22.0-1")
}

// reapply recreates the ClusterAPI object from the release manifests, once a deleted one is gone.
func (h *harness) reapply() {
	h.Helper()
	h.eventually("no deleted ClusterAPI object exists", func() error {
		if left := h.object(clusterAPIKind, "", v1alpha1.ClusterAPIName); left != nil && left.GetDeletionTimestamp() != nil {
			return fmt.Errorf("it has finalizers %v", left.GetFinalizers())
		}
		return nil
	})
	_, err := fixture.Preparation{}.Apply(h.Context(), h.Cluster.Config)
	h.must(err)
}

// setNode makes the node schedulable or unschedulable.
func (h *harness) setNode(schedulable bool) {
	h.Helper()
	node := &corev1.Node{}
	node.Name = "node"
	patch := fmt.Appendf(nil, `{"spec": {"unschedulable": %t}}`, !schedulable)
	h.must(h.Patch(context.Background(), node, client.RawPatch(types.MergePatchType, patch)))
}

// reportTo reports failures to a subtest until the returned function is called.
func (h *harness) reportTo(t *testing.T) func() {
	outer := h.T
	h.T = t
	return func() { h.T = outer }
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// countWrites counts the requests that write, and those that would without dryRun.
func (h *harness) countWrites(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if call := h.onRequest.Load(); call != nil {
			if response := (*call)(request); response != nil {
				return response, nil
			}
		}
		switch {
		case request.Method == http.MethodGet, strings.HasPrefix(request.URL.Path, "/apis/authorization.k8s.io/"): // reads, as access reviews are
		case request.URL.Query().Has("dryRun"):
			h.dryRuns.Add(1)
		default:
			h.writes.Add(1)
			h.wrote.Store(request.Method+" "+request.URL.Path, true)
		}
		response, err := next.RoundTrip(request)
		if err == nil && request.Method != http.MethodGet {
			h.requests.add(request, response.StatusCode)
		}
		return response, err
	})
}

// dryRunsUnchanged reports whether boxcutter makes a dry run of every object of a phase that
// it reconciles, like the original. This project's module can limit them to the objects that
// are going to be written.
func dryRunsUnchanged() bool {
	_, limits := any(&boxcuttertypes.PhaseReconcileOptions{}).(interface{ SetNoDryRunOfUnchanged(disable bool) })
	return !limits
}

// expectQuiet fails the test if the installer writes while it reconciles a converged
// version, or makes a dry run.
func (h *harness) expectQuiet(reconcile func()) {
	h.Helper()
	h.rest()
	writes, dryRuns := h.writes.Load(), h.dryRuns.Load()
	h.wrote.Clear()
	reconcile()
	if written := h.writes.Load() - writes; written != 0 {
		h.Errorf("%d writes of the installer, want none: %v", written, h.written())
	}
	if made := h.dryRuns.Load() - dryRuns; made != 0 {
		h.Errorf("%d dry runs of the installer, want none: it skips phases without a change", made)
	}
}

// restTime is how long an installer that writes nothing is taken to be at rest.
const restTime = 300 * time.Millisecond

// rest waits until the installer writes nothing, at most a few seconds. The event about a condition is written after it, by another goroutine.
func (h *harness) rest() {
	for range 20 {
		writes := h.writes.Load()
		time.Sleep(restTime)
		if h.writes.Load() == writes {
			return
		}
	}
}

// written returns the installer's writes since the record was cleared.
func (h *harness) written() []string {
	var found []string
	h.wrote.Range(func(key, _ any) bool {
		found = append(found, key.(string))
		return true
	})
	return found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// start starts an installer of a release.
func (h *harness) start(release string) {
	h.Helper()
	scheme, err := install.Scheme()
	h.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(h.config, ctrl.Options{
		Scheme: scheme, Cache: install.CacheOptions(h.namespaces), Logger: h.logger(),
		HealthProbeBindAddress: "0", Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	h.must(err)
	store := &cache.Store{Dir: h.Cache}
	pulls, policies := &remote.Registry{}, &registryconfig.Policies{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Reader: mgr.GetAPIReader(), File: h.policy}
	fetcher := &signature.Verified{
		Verifier: &signature.Verifier{Policy: policies.Policy, Registry: pulls, Store: store},
		Next:     &cache.Cached{Store: store, Next: remote.Limit(pulls, 4)},
	}
	began := time.Now()
	options := install.Options{
		ImagesJSON: h.ImagesJSON, Release: release, Fetcher: fetcher, Verdict: fetcher.Verifier.Verdict, Policies: policies, Mask: &h.mask,
		PolicyDelay: 20 * time.Millisecond, IgnoreOfficialAPI: h.ignoreOfficial, ProgressTimeout: h.progressTimeout, LateWrites: func() time.Time { return began.Add(h.lateWrites) }, Namespaces: h.namespaces,
	}
	if h.registries {
		options.Registries = &registryconfig.Registries{Reader: mgr.GetAPIReader()}
	}
	h.must(install.AddToManager(mgr, options))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	h.stop = func() {
		h.Helper()
		cancel()
		h.stop = nil
		if err := <-done; err != nil {
			h.Errorf("the installer ended with %v", err)
		}
	}
}

// uninstall deletes the ClusterAPI object and all leftovers, so that the next test
// starts with the same cluster. It needs a running installer.
func (h *harness) uninstall() {
	if h.stop == nil {
		h.start("0.0.0")
	}
	defer func() { h.stop() }()
	ctx := context.Background()
	h.must(h.Uninstall(ctx))
	h.eventually("everything is uninstalled", func() error { return h.Remaining(ctx) })
	h.must(h.DeleteClusterOperator(ctx))
	h.deleteRetainedCRDs()
	for _, undo := range h.undo {
		undo()
	}
}

// deleteRetainedCRDs deletes the CRDs of providers that an uninstall retains, so that the
// next test that leases the cluster does not find them.
func (h *harness) deleteRetainedCRDs() {
	h.Helper()
	h.eventually("retained CRDs are gone", func() error {
		retained := &metav1.PartialObjectMetadataList{}
		retained.SetGroupVersionKind(parseKind(crdKind).GroupVersion().WithKind(crdKindName + "List"))
		if err := h.List(context.Background(), retained); err != nil {
			return err
		}
		var left []string
		for _, found := range retained.Items {
			if !strings.HasSuffix(found.GetName(), ".infrastructure.cluster.x-k8s.io") {
				continue
			}
			left = append(left, found.GetName())
			crd := &unstructured.Unstructured{}
			crd.SetGroupVersionKind(parseKind(crdKind))
			crd.SetName(found.GetName())
			h.must(client.IgnoreNotFound(h.Delete(context.Background(), crd)))
		}
		if left != nil {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}

const clusterAPIKind = v1alpha1.Prefix + "/v1alpha1/ClusterAPI"

// patience is the timeout of eventually. It is generous, because tests run in
// parallel, and the dry runs of the original boxcutter keep the API server busy.
const patience = 3 * time.Minute

// eventually waits until check returns nil. After a timeout it fails the test with
// the last error.
func (h *harness) eventually(what string, check func() error) {
	h.Helper()
	if err := installation.Wait(patience, what, h.activity, check); err != nil {
		h.Fatalf("%v\n%s", err, h.conditions())
	}
}

// activity returns a number that grows with each write and each reconcile of the installer. Between two of them, checks
// of the cluster would only keep the API server busy.
func (h *harness) activity() int64 { return h.writes.Load() + int64(h.reconciles()) }

// provider describes the image of a provider.
type provider struct {
	name, kind, platform string
	imageName            string // in the manifests; empty means placeholder
	manifests            []string
	profile              extractor.ClusterProfile
	// edit changes the files of the image before it is pushed.
	edit func(files map[string][]byte)
}

func (p provider) metadata() extractor.Metadata {
	return extractor.Metadata{
		ProviderName: p.name, ProviderType: extractor.ProviderType(p.kind), ProviderVersion: "v1.0.0",
		OCPPlatform: p.platform, ImageName: cmp.Or(p.imageName, placeholder), ClusterProfile: p.profile,
	}
}

const placeholder = "registry.ci.openshift.org/openshift:test-controllers"

// push pushes an image of a provider and returns its reference.
func (h *harness) push(p provider) string {
	h.Helper()
	bundle := extractor.Bundle{Metadata: p.metadata(), Manifests: []byte(strings.Join(p.manifests, "---\n"))}
	bundle.Metadata.ContentID = digest.FromBytes(bundle.Manifests)
	files, err := bundle.Files()
	h.must(err)
	content := maps.Clone(map[string][]byte(files))
	if p.edit != nil {
		p.edit(content)
	}
	image, err := crane.Image(content)
	h.must(err)
	reference, err := h.Registry.Push("test/"+p.name, image)
	h.must(err)
	return reference
}

// release pushes the images of providers and writes images.json with only these.
func (h *harness) release(providers ...provider) {
	h.Helper()
	h.images = map[string]string{}
	for _, p := range providers {
		h.images[p.name] = h.push(p)
	}
	h.writeImages()
}

func (h *harness) writeImages() {
	h.Helper()
	h.must(h.WriteImages(h.images))
}

// write replaces images.json.
func (h *harness) write(content string) {
	h.Helper()
	h.must(h.WriteImagesJSON(content))
}

// clusterAPI reads the ClusterAPI object.
func (h *harness) clusterAPI() *v1alpha1.ClusterAPI {
	h.Helper()
	cluster, err := h.ClusterAPI(context.Background())
	h.must(err)
	return cluster
}

// conditions describes all conditions, for failure messages.
func (h *harness) conditions() string { return h.Conditions(context.Background()) }

// settled waits until version is current and desired, the operator is available and
// not progressing, and no older version is left.
func (h *harness) settled(version string) {
	h.Helper()
	h.eventually("version "+version+" is installed", func() error { return h.Unsettled(context.Background(), version) })
}

// reports waits until a condition has a reason and a message that contains every part.
func (h *harness) reports(kind, reason string, parts ...string) {
	h.Helper()
	h.eventually(fmt.Sprintf("%s has reason %s", kind, reason), func() error { return h.HasReason(context.Background(), kind, reason, parts...) })
}

// object reads an object of kind "group/version/Kind" (or "version/Kind"); nil if there is none.
func (h *harness) object(kind, namespace, name string) *unstructured.Unstructured {
	h.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(parseKind(kind))
	err := h.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	h.must(err)
	return object
}

// appears waits until an object exists, disappears until it does not.
func (h *harness) appears(kind, namespace, name string) {
	h.Helper()
	h.eventually(kind+" "+name+" exists", func() error {
		if h.object(kind, namespace, name) == nil {
			return errors.New("not found")
		}
		return nil
	})
}

func (h *harness) disappears(kind, namespace, name string) {
	h.Helper()
	h.eventually(kind+" "+name+" does not exist", func() error {
		if left := h.object(kind, namespace, name); left != nil {
			return fmt.Errorf("it has finalizers %v and status %v; installed: %v", left.GetFinalizers(), left.Object["status"], h.names())
		}
		return nil
	})
}

// value returns the value of a ConfigMap; empty if it does not exist.
func value(configMap *unstructured.Unstructured) string {
	text, _ := field(configMap, "data", "value").(string)
	return text
}

// value returns the value of a ConfigMap in the providers' namespace; empty if it does not exist.
func (h *harness) value(name string) string {
	h.Helper()
	return value(h.object("v1/ConfigMap", namespace, name))
}

// becomes waits until a ConfigMap in the providers' namespace exists and has a value.
func (h *harness) becomes(name, want string) {
	h.Helper()
	h.eventually(fmt.Sprintf("ConfigMap %s has value %q", name, want), func() error {
		if found := h.object("v1/ConfigMap", namespace, name); found == nil || value(found) != want {
			return fmt.Errorf("it is %v", found)
		}
		return nil
	})
}

// key returns the namespace and name of an object.
func key(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

func parseKind(text string) schema.GroupVersionKind {
	parts := strings.Split(text, "/")
	kind := schema.GroupVersionKind{Kind: parts[len(parts)-1], Version: parts[len(parts)-2]}
	if len(parts) == 3 {
		kind.Group = parts[0]
	}
	return kind
}

// installed returns the UID and content of all objects with the installer's label,
// without the metadata that the API server and the installer write.
func (h *harness) installed() map[string]string {
	h.Helper()
	objects, err := fixture.Installed(context.Background(), h)
	h.must(err)
	found := map[string]string{}
	for _, item := range objects {
		found[item.GetKind()+" "+item.GetName()] = describe(item)
	}
	return found
}

func describe(object unstructured.Unstructured) string {
	uid := object.GetUID()
	unstructured.RemoveNestedField(object.Object, "metadata")
	unstructured.RemoveNestedField(object.Object, "status")
	content, err := object.MarshalJSON()
	return fmt.Sprintf("%s %s %v", uid, content, err)
}

// names returns the names of the installed objects, sorted.
func (h *harness) names() []string {
	h.Helper()
	names, err := fixture.InstalledNames(context.Background(), h)
	h.must(err)
	return names
}

// remaining returns an error while installed objects exist.
func (h *harness) remaining() error {
	h.Helper()
	names, err := fixture.Remaining(context.Background(), h)
	h.must(err)
	if len(names) > 0 {
		return fmt.Errorf("objects remain: %v", names)
	}
	return nil
}

// decode reads one YAML document.
func decode(manifest string, into *unstructured.Unstructured) error {
	return yaml.Unmarshal([]byte(manifest), &into.Object)
}
