// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

// TestMove_FindsTheObjectsOfACluster: clusterctl's own object graph finds a Cluster, its infrastructure and its Secrets where
// bundles of the profile kubernetes are installed, without "clusterctl init".
func TestMove_FindsTheObjectsOfACluster(t *testing.T) {
	controlPlane := controlplane.Fresh(t)
	installCRDs(t, controlPlane)
	admin, err := client.New(controlPlane.Config, client.Options{})
	must(t, err)
	owner := create(t, admin, "cluster.x-k8s.io/v1beta2", "Cluster", "demo", nil, map[string]any{"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "demo"}})
	provisioned := []byte(`{"status": {"initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true}, "conditions": [{"type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`)
	must(t, admin.Status().Patch(t.Context(), owner, client.RawPatch("application/merge-patch+json", provisioned)))
	create(t, admin, "infrastructure.cluster.x-k8s.io/v1beta2", "DevCluster", "demo", owner, map[string]any{"backend": map[string]any{"inMemory": map[string]any{}}})
	create(t, admin, "v1", "Secret", "demo-kubeconfig", owner, nil)

	configuration, err := config.New(t.Context(), "", config.InjectReader(config.NewMemoryReader()))
	must(t, err)
	backup := t.TempDir()
	mover := cluster.New(cluster.Kubeconfig{Path: controlPlane.Kubeconfig}, configuration)
	if err := mover.ProviderInventory().EnsureCustomResourceDefinitions(t.Context()); err != nil { // as every command of clusterctl does
		t.Fatal(err)
	}
	must(t, mover.ObjectMover().ToDirectory(t.Context(), "default", backup))
	entries, err := os.ReadDir(backup)
	must(t, err)
	for _, want := range []string{"Cluster_", "DevCluster_", "Secret_"} {
		if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), want) }) {
			t.Errorf("the backup has no file %s*: %v", want, entries)
		}
	}
}

// installCRDs installs the CRDs of real providers, as generate adapts them to any Kubernetes cluster.
func installCRDs(t *testing.T, controlPlane *controlplane.Cluster) {
	t.Helper()
	var crds []*unstructured.Unstructured
	for _, manifests := range manifestsOf(t, "cluster-api", "cluster-api-provider-docker") {
		objects, err := yamldoc.Objects(manifests)
		must(t, err)
		for _, o := range objects {
			if object.GroupKind(o) == object.CustomResourceDefinition {
				unstructured.RemoveNestedField(o.Object, "spec", "conversion") // no webhook runs here
				crds = append(crds, o)
			}
		}
	}
	must(t, fixture.InstallCRDs(t.Context(), controlPlane.Config, crds))
}

// manifestsOf iterates over the real providers with these names, by default all, and their manifests, as generate adapts them to any Kubernetes
// cluster.
func manifestsOf(t *testing.T, names ...string) iter.Seq2[fixture.Provider, []byte] {
	t.Helper()
	folder := t.TempDir()
	providers, err := fixture.Providers(t.Context(), folder)
	must(t, err)
	docker, err := fixture.DockerProvider(t.Context(), folder)
	must(t, err)
	return func(yield func(fixture.Provider, []byte) bool) {
		for _, provider := range append(providers, docker) {
			if len(names) > 0 && !slices.Contains(names, provider.Name) {
				continue
			}
			bundle, err := bundles.Of(provider, transform.Options{Profile: extractor.Kubernetes})
			must(t, err)
			if !yield(provider, bundle.Manifests) {
				return
			}
		}
	}
}

// create creates an object in namespace default that an owner controls; nil means none.
func create(t *testing.T, admin client.Client, version, kind, name string, owner *unstructured.Unstructured, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{
		"name": name, "namespace": "default", "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "demo"},
	}}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	must(t, admin.Create(t.Context(), o))
	return o
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
