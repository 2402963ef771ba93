// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// version returns the entry of the desired version.
func (h *harness) version() v1alpha1.Version {
	h.Helper()
	cluster, err := h.clusterAPI()
	h.must(err)
	version := cluster.Status.Version(cluster.Status.DesiredVersion)
	if version == nil {
		h.Fatalf("no desired version:\n%s", h.conditions())
	}
	return *version
}

// revisionConfigMap reads one of the ConfigMaps of a version.
func (h *harness) revisionConfigMap(name string) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{}
	return configMap, h.Get(context.Background(), client.ObjectKey{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: name}, configMap)
}

// noise returns incompressible text.
func noise(seed, length int) string {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	letters := make([]byte, length)
	for i := range letters {
		letters[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[random.IntN(62)]
	}
	return string(letters)
}

// large is a provider with many large ConfigMaps.
func large(count, length int) fixture.Synthetic {
	var extra []string
	for i := range count {
		extra = append(extra, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-%04d, namespace: %s}\ndata: {noise: %s}\n", i, namespace, noise(i, length)))
	}
	return core("v1.0.0", extra...)
}

// whole returns an error unless the ConfigMaps of the version are complete and unmodified.
func (h *harness) whole(version string, parts int) error {
	for i := range parts {
		name := version
		if i > 0 {
			name = fmt.Sprintf("%s.%d", version, i)
		}
		configMap, err := h.revisionConfigMap(name)
		if err != nil {
			return err
		}
		label := map[bool]string{true: v1alpha1.RevisionLabel, false: v1alpha1.RevisionPartLabel}[i == 0]
		switch {
		case !configMap.DeletionTimestamp.IsZero(), len(configMap.BinaryData["manifests.json.zst"]) < 1000,
			configMap.Labels[label] != version, configMap.Annotations[v1alpha1.ManifestsDigestAnnotation] == "",
			len(configMap.OwnerReferences) != 1, !slices.Contains(configMap.Finalizers, v1alpha1.TeardownFinalizer):
			return fmt.Errorf("ConfigMap %s is modified: %+v", name, configMap.ObjectMeta)
		}
	}
	return nil
}

// stuck is the manifest of a Deployment that waits for a node.
func stuck(name string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      nodeSelector: {awaited: "yes"}
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: manager
        image: registry.ci.openshift.org/openshift:cluster-api
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, name, namespace)
}

func TestRevision_LargeRelease(t *testing.T) {
	h := newHarness(t)
	count := 500
	if originalBoxcutter() { // a reconcile with 2000 dry runs takes minutes on a busy machine
		count = 200
	} else if full {
		count = 2000
	}
	provider := large(count, 5_200_000/count)
	if size := len(provider.Manifests()); size < 5_000_000 {
		t.Fatalf("the manifests have %d bytes", size)
	}
	h.release(provider, aws("v1.0.0"))
	started := time.Now()
	h.start("4.22.0")
	h.within(10*patience, "all objects are installed", func() error { return h.unsettled("4.22.0-1") })
	h.must(h.whole("4.22.0-1", 4))
	t.Logf("%d objects in %d bytes are installed after %s", len(h.installed()), len(provider.Manifests()), time.Since(started))
	if got := len(slices.DeleteFunc(h.names(), func(name string) bool { return !strings.HasPrefix(name, "ConfigMap large-") })); got != count {
		t.Errorf("%d of %d ConfigMaps are installed", got, count)
	}
	h.quiet()
}
