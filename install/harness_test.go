// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
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
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/install"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // each installer logs to its test
	controlplane.Main(m)
}

// harness is a cluster on AWS with the installer's manifests, a registry, and an
// installer that runs with the credentials of its own service account.
type harness struct {
	*testing.T
	client.Client // an administrator's

	config   *rest.Config // the installer's
	registry *registry.Registry
	images   map[string]string // what images.json holds
	path     string            // of images.json
	cache    string
	writes   atomic.Int64 // that the installer has made, dry runs among them
	wrote    sync.Map     // "METHOD path" of each of them that was no dry run

	stop func() // ends the running installer; nil if none runs
	log  log    // of all installers of the test
}

// log is a log that a test can read.
type log struct {
	mutex sync.Mutex
	text  []string
}

func (l *log) lines() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.Clone(l.text)
}

// logger writes to the log, and to the test as long as it runs.
func (h *harness) logger() logr.Logger {
	t := h.T // not that of a subtest, which may end before the installer does
	return funcr.New(func(prefix, args string) {
		h.log.mutex.Lock()
		defer h.log.mutex.Unlock()
		h.log.text = append(h.log.text, prefix+" "+args)
		t.Log(prefix, args)
	}, funcr.Options{})
}

// newHarness prepares the cluster. When the test ends, everything that was
// installed is uninstalled.
func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{T: t, images: map[string]string{}, path: filepath.Join(t.TempDir(), "images.json"), cache: t.TempDir()}
	scheme, err := install.Scheme()
	h.must(err)
	cluster := controlplane.Shared(t)
	h.Client, err = client.New(cluster.Config, client.Options{Scheme: scheme})
	h.must(err)
	_, err = fixture.Preparation{}.Apply(t.Context(), cluster.Config)
	h.must(err)
	kubeconfig, err := cluster.ServiceAccount(t.Context(), v1alpha1.OperatorNamespace, v1alpha1.ServiceAccountName)
	h.must(err)
	h.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	h.must(err)
	h.config.QPS = -1
	h.config.Wrap(h.countWrites)
	h.registry, err = registry.Start(registry.Options{})
	h.must(err)
	t.Cleanup(func() { h.registry.Close() })
	t.Cleanup(h.uninstall)
	return h
}

// reapply makes the ClusterAPI object again, as the release does.
func (h *harness) reapply() {
	h.Helper()
	_, err := fixture.Preparation{}.Apply(h.Context(), controlplane.Shared(h.T).Config)
	h.must(err)
}

// setNode has the cluster's node take pods, or none.
func (h *harness) setNode(schedulable bool) {
	h.Helper()
	node := &corev1.Node{}
	node.Name = "node"
	patch := fmt.Appendf(nil, `{"spec": {"unschedulable": %t}}`, !schedulable)
	h.must(h.Patch(context.Background(), node, client.RawPatch(types.MergePatchType, patch)))
}

// on has a subtest's failures be its own until the function it returns is called.
func (h *harness) on(t *testing.T) func() {
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

// countWrites counts the requests that change something.
func (h *harness) countWrites(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			h.writes.Add(1)
			if !request.URL.Query().Has("dryRun") {
				h.wrote.Store(request.Method+" "+request.URL.Path, true)
			}
		}
		return next.RoundTrip(request)
	})
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
		Scheme: scheme, Cache: install.CacheOptions(), Logger: h.logger(),
		HealthProbeBindAddress: "0", Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	h.must(err)
	store := &cache.Store{Dir: h.cache}
	var fetcher extractor.Fetcher = &cache.Cached{Store: store, Next: remote.Limit(&remote.Registry{Layers: store}, 4)}
	h.must(install.AddToManager(mgr, install.Options{ImagesJSON: h.path, Release: release, Fetcher: fetcher}))
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

// uninstall removes the ClusterAPI object and whatever is left, so that the next
// test finds the cluster as this one did. It needs a running installer.
func (h *harness) uninstall() {
	if h.stop == nil {
		h.start("0.0.0")
	}
	defer func() { h.stop() }()
	ctx := context.Background()
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Name = v1alpha1.ClusterAPIName
	h.must(client.IgnoreNotFound(h.Delete(ctx, cluster)))
	h.eventually("every revision ConfigMap is gone", func() error {
		left := &corev1.ConfigMapList{}
		if err := h.List(ctx, left, client.InNamespace(v1alpha1.OperatorNamespace), client.HasLabels{v1alpha1.RevisionLabel}); err != nil {
			return err
		}
		if len(left.Items) > 0 {
			return fmt.Errorf("%d are left", len(left.Items))
		}
		return nil
	})
	if names := h.names(); len(names) > 0 {
		h.Errorf("after everything was uninstalled there are %v", names)
	}
	operator := &configv1.ClusterOperator{}
	operator.Name = v1alpha1.ClusterOperatorName
	h.must(client.IgnoreNotFound(h.Delete(ctx, operator)))
}

// eventually waits until check returns nil, and fails the test with its last
// error after a minute.
func (h *harness) eventually(what string, check func() error) {
	h.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.Fatalf("waited in vain until %s: %v\n%s", what, err, h.conditions())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// provider is a provider as tests need it.
type provider struct {
	name, kind, platform string
	manifests            []string
	// edit changes the files of the image before it is pushed.
	edit func(files map[string][]byte)
}

func (p provider) metadata() extractor.Metadata {
	return extractor.Metadata{
		ProviderName: p.name, ProviderType: extractor.ProviderType(p.kind), ProviderVersion: "v1.0.0",
		OCPPlatform: p.platform, ImageName: placeholder,
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
	reference, err := h.registry.Push("test/"+p.name, image)
	h.must(err)
	return reference
}

// release writes images.json with images of these providers, and the keys that
// other gives, in one step as a mounted ConfigMap changes.
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
	content, err := json.MarshalIndent(h.images, "", "  ")
	h.must(err)
	h.write(string(content))
}

// write puts content in the place of images.json at once.
func (h *harness) write(content string) {
	h.Helper()
	h.must(os.WriteFile(h.path+".new", []byte(content), 0o600))
	h.must(os.Rename(h.path+".new", h.path))
}

// clusterAPI reads the ClusterAPI object.
func (h *harness) clusterAPI() *v1alpha1.ClusterAPI {
	h.Helper()
	cluster := &v1alpha1.ClusterAPI{}
	h.must(h.Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster))
	return cluster
}

// conditions describes all conditions, for a failed test.
func (h *harness) conditions() string {
	cluster := &v1alpha1.ClusterAPI{}
	if err := h.Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("current %q, desired %q", cluster.Status.CurrentVersion, cluster.Status.DesiredVersion)
	for _, c := range cluster.Status.Conditions {
		text += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// settled waits until version is current and desired, the operator is available
// and at rest, and returns when nothing else is left to be removed.
func (h *harness) settled(version string) {
	h.Helper()
	h.eventually("version "+version+" is installed", func() error {
		s := h.clusterAPI().Status
		if s.CurrentVersion != version || s.DesiredVersion != version || len(s.Versions) != 1 {
			return fmt.Errorf("current %q, desired %q, %d versions", s.CurrentVersion, s.DesiredVersion, len(s.Versions))
		}
		for kind, want := range map[string]bool{"Available": true, "Progressing": false, "Degraded": false} {
			if meta.IsStatusConditionTrue(s.Conditions, kind) != want {
				return fmt.Errorf("%s is not %t", kind, want)
			}
		}
		return nil
	})
}

// reports waits until a condition is true with a reason and a message that holds every part.
func (h *harness) reports(kind, reason string, parts ...string) {
	h.Helper()
	h.eventually(fmt.Sprintf("%s is True because of %s", kind, reason), func() error {
		c := meta.FindStatusCondition(h.clusterAPI().Status.Conditions, kind)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("it is %v", c)
		}
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return fmt.Errorf("the message does not name %q: %s", part, c.Message)
			}
		}
		return nil
	})
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

// key is the name of an object, and foreground a way to delete it.
func key(object client.Object) client.ObjectKey { return client.ObjectKeyFromObject(object) }

var foreground = client.PropagationPolicy(metav1.DeletePropagationForeground)

func parseKind(text string) schema.GroupVersionKind {
	parts := strings.Split(text, "/")
	kind := schema.GroupVersionKind{Kind: parts[len(parts)-1], Version: parts[len(parts)-2]}
	if len(parts) == 3 {
		kind.Group = parts[0]
	}
	return kind
}

// installedKinds are the kinds that the providers of the tests have.
var installedKinds = []string{
	"v1/ConfigMap", "v1/ServiceAccount", "v1/Service", "apps/v1/Deployment",
	"rbac.authorization.k8s.io/v1/ClusterRole", "apiextensions.k8s.io/v1/CustomResourceDefinition",
	"admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",
}

// installed returns the UID and content of everything that is marked as installed,
// without the bookkeeping of the API server and of the installer.
func (h *harness) installed() map[string]string {
	h.Helper()
	found := map[string]string{}
	for _, kind := range installedKinds {
		list := &unstructured.UnstructuredList{}
		gvk := parseKind(kind)
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		h.must(h.List(context.Background(), list, client.MatchingLabels{"app.kubernetes.io/managed-by": v1alpha1.Prefix}))
		for _, item := range list.Items {
			found[gvk.Kind+" "+item.GetName()] = describe(item)
		}
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

// names are the installed objects, sorted.
func (h *harness) names() []string {
	h.Helper()
	return slices.Sorted(maps.Keys(h.installed()))
}

// decode reads one YAML document.
func decode(manifest string, into *unstructured.Unstructured) error {
	return yaml.Unmarshal([]byte(manifest), &into.Object)
}
