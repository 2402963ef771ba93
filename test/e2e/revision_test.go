// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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

func TestRevision_DowngradeMakesANewVersion(t *testing.T) {
	h := newHarness(t)
	a, b := h.imagesOf(core("v1.0.0"), aws("v1.0.0")), h.imagesOf(core("v2.0.0"), aws("v2.0.0"))
	h.writeImages(a)
	h.start("4.22.0").settle("4.22.0-1", h)
	first := h.version()
	h.writeImages(b)
	h.settled("4.22.0-2")
	h.writeImages(a)
	h.settled("4.22.0-3")
	last := h.version()
	if last.ContentID != first.ContentID || last.ManifestsDigest != first.ManifestsDigest || last.Revision != 3 || last.InstalledAs != "" {
		t.Errorf("first version %+v, third version %+v", first, last)
	}
	h.owned("4.22.0-3")
}

func TestRevision_SameContentIsNotRolledOut(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	h.start("4.22.0").settle("4.22.0-1", h).terminate()
	before := h.fingerprints()
	h.start("4.22.1")
	h.eventually("ClusterOperator reports the release", func() error {
		operator := &configv1.ClusterOperator{}
		if err := h.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator); err != nil {
			return err
		}
		if !slices.Contains(operator.Status.Versions, configv1.OperandVersion{Name: "operator", Version: "4.22.1"}) {
			return fmt.Errorf("versions: %v", operator.Status.Versions)
		}
		return nil
	})
	h.settled("4.22.0-1")
	h.untouched(before)
}

func TestRevision_UnmanagedCRDsMakeANewVersion(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	h.start("4.22.0").settle("4.22.0-1", h)
	unmanage := func(names ...string) {
		cluster, err := h.clusterAPI()
		h.must(err)
		before := cluster.DeepCopy()
		cluster.Spec.UnmanagedCRDs = names
		h.must(h.Patch(t.Context(), cluster, client.MergeFrom(before)))
	}
	unmanage("somebodies.example.cluster.x-k8s.io", "others.example.cluster.x-k8s.io")
	h.settled("4.22.0-2")
	if got := h.version().UnmanagedCRDs; !slices.Equal(got, []string{"somebodies.example.cluster.x-k8s.io", "others.example.cluster.x-k8s.io"}) {
		t.Errorf("unmanaged CRDs of version 2: %v", got)
	}
	unmanage("others.example.cluster.x-k8s.io", "somebodies.example.cluster.x-k8s.io") // only the order differs
	unmanage()
	h.settled("4.22.0-3")
	if version := h.version(); len(version.UnmanagedCRDs) != 0 || version.InstalledAs != "" {
		t.Errorf("version 3: %+v", version)
	}
}

// unguard disables the admission policy for revision ConfigMaps; the harness of the next test applies it again.
func (h *harness) unguard(name string) {
	h.Helper()
	binding := &unstructured.Unstructured{}
	binding.SetAPIVersion("admissionregistration.k8s.io/v1")
	binding.SetKind("ValidatingAdmissionPolicyBinding")
	binding.SetName(name)
	h.must(client.IgnoreNotFound(h.Delete(h.Context(), binding)))
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

// broken are modifications of the several ConfigMaps of a version.
var broken = []struct {
	name string
	harm func(h *harness) error
}{
	{"the first one is deleted", func(h *harness) error { return h.deleteConfigMap("4.22.0-1") }},
	{"the first one is deleted in the foreground", func(h *harness) error {
		return h.deleteConfigMap("4.22.0-1", client.PropagationPolicy(metav1.DeletePropagationForeground))
	}},
	{"a further one is deleted", func(h *harness) error { return h.deleteConfigMap("4.22.0-1.1") }},
	{"all are deleted", func(h *harness) error {
		return errors.Join(h.deleteConfigMap("4.22.0-1"), h.deleteConfigMap("4.22.0-1.1"))
	}},
	{"labels and annotations are removed", func(h *harness) error {
		return h.editConfigMap("4.22.0-1", `{"metadata": {"labels": null, "annotations": null}}`)
	}},
	{"a further one loses its labels", func(h *harness) error {
		return h.editConfigMap("4.22.0-1.1", `{"metadata": {"labels": null, "annotations": null}}`)
	}},
	{"the finalizer and the owner are removed", func(h *harness) error {
		return h.editConfigMap("4.22.0-1", `{"metadata": {"finalizers": null, "ownerReferences": null}}`)
	}},
	{"a further one is deleted without its finalizer", func(h *harness) error {
		return errors.Join(h.editConfigMap("4.22.0-1.1", `{"metadata": {"finalizers": null}}`), h.deleteConfigMap("4.22.0-1.1"))
	}},
	{"the first one is replaced by another", func(h *harness) error {
		first, err := h.revisionConfigMap("4.22.0-1")
		if err != nil {
			return err
		}
		forged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: first.Name, Labels: first.Labels, Annotations: first.Annotations}}
		forged.BinaryData = map[string][]byte{"manifests.json.zst": []byte("forged")}
		err = errors.Join(h.editConfigMap("4.22.0-1", `{"metadata": {"finalizers": null}}`), h.deleteConfigMap("4.22.0-1"))
		if err := h.Create(h.Context(), forged); err != nil && !apierrors.IsAlreadyExists(err) { // the installer can be faster
			return err
		}
		return err
	}},
}

func (h *harness) deleteConfigMap(name string, options ...client.DeleteOption) error {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: name}}
	return client.IgnoreNotFound(h.Delete(h.Context(), configMap, options...))
}

func (h *harness) editConfigMap(name, patch string) error {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: name}}
	return client.IgnoreNotFound(h.Patch(h.Context(), configMap, client.RawPatch(types.MergePatchType, []byte(patch))))
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

func TestRevisionConfigMaps_AreRepaired(t *testing.T) {
	h := newHarness(t)
	h.release(large(30, 60_000), aws("v1.0.0"))
	h.start("4.22.0").settle("4.22.0-1", h)
	h.must(h.whole("4.22.0-1", 2))
	before := h.fingerprints()
	h.Registry.Close() // only the content of the ConfigMaps is needed
	for _, test := range broken {
		if !t.Run(test.name, func(t *testing.T) {
			defer h.on(t)()
			h.must(test.harm(h))
			h.eventually("the ConfigMaps are complete", func() error { return h.whole("4.22.0-1", 2) })
			h.settled("4.22.0-1")
			h.untouched(before)
		}) {
			break // the cluster is not in the initial state of the next one
		}
	}
	h.quiet()
}

func TestRevisionConfigMaps_AreRepairedDuringRollout(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0"), aws("v1.0.0"))
	h.start("4.22.0").settle("4.22.0-1", h)
	before := h.uids()
	h.release(core("v1.0.0", stuck("stuck")), aws("v1.0.0"))
	h.reports("InstallerProgressing", "RollingOut", "4.22.0-2", "stuck")
	h.must(errors.Join(h.deleteConfigMap("4.22.0-1"), h.deleteConfigMap("4.22.0-2")))
	h.eventually("both ConfigMaps are complete", func() error { return errors.Join(h.whole("4.22.0-1", 1), h.whole("4.22.0-2", 1)) })
	now := h.uids()
	for name, uid := range before {
		if now[name] != uid {
			t.Errorf("%s has changed", name)
		}
	}
	h.release(core("v1.0.0"), aws("v1.0.0"))
	h.settled("4.22.0-3")
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

// releaseUntil releases versions, one after the other. None becomes installed.
func releaseUntil(h *harness, last int) {
	h.Helper()
	for i := 1; i <= last; i++ {
		h.release(core(fmt.Sprintf("v1.%d.0", i), stuck("stuck")), aws("v1.0.0"))
		name := fmt.Sprintf("4.22.0-%d", i)
		h.eventually("the newest version is "+name, func() error {
			cluster, err := h.clusterAPI()
			if err == nil && cluster.Status.Version(name) == nil {
				err = fmt.Errorf("the newest version is %s", cluster.Status.DesiredVersion)
			}
			return err
		})
	}
}

// labelNode makes the stuck Deployment schedulable.
func labelNode(h *harness) {
	h.Helper()
	node := &corev1.NodeList{}
	h.must(h.List(h.Context(), node, client.Limit(1)))
	label := func(value string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"awaited": `+value+`}}}`))
		h.must(h.Patch(context.Background(), node.Items[0].DeepCopy(), patch))
	}
	label(`"yes"`)
	h.Cleanup(func() { label("null") })
}

func TestRevisionLimit_EvictsAdoptedVersions(t *testing.T) {
	h := newHarness(t)
	h.start("4.22.0")
	releaseUntil(h, 18)
	cluster, err := h.clusterAPI()
	h.must(err)
	if versions := cluster.Status.Versions; len(versions) > 16 || versions[len(versions)-1].Name != "4.22.0-18" {
		t.Errorf("%d versions, the newest is %s", len(versions), versions[len(versions)-1].Name)
	}
	labelNode(h)
	h.settled("4.22.0-18")
	h.owned("4.22.0-18")
}

func TestRevisionLimit_SixteenVersionsWithOwnObjects(t *testing.T) {
	h := newHarness(t)
	h.start("4.22.0")
	own := func(i int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: only-%d, namespace: %s}\n---\n", i, namespace)
	}
	for i := 1; i <= 16; i++ {
		h.release(core(fmt.Sprintf("v1.%d.0", i), own(i)+stuck("stuck")), aws("v1.0.0"))
		name := fmt.Sprintf("only-%d", i)
		h.eventually("ConfigMap "+name+" exists", func() error {
			return h.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
		})
	}
	h.release(core("v1.17.0", stuck("stuck")), aws("v1.0.0"))
	h.eventually("the oldest version that was never complete is evicted", func() error {
		cluster, err := h.clusterAPI()
		if err == nil && cluster.Status.DesiredVersion != "4.22.0-17" {
			err = fmt.Errorf("the desired version is %s", cluster.Status.DesiredVersion)
		}
		return err
	})
	labelNode(h)
	h.settled("4.22.0-17")
	if names := h.names(); slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "ConfigMap only-") }) {
		t.Errorf("objects of evicted versions remain: %v", names)
	}
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
