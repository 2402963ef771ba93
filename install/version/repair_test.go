// SPDX-License-Identifier: Apache-2.0

package version

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
)

// reconcilerWith returns a reconciler whose cluster has objects.
func reconcilerWith(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ClusterAPI{}).WithObjects(objects...).Build()
	return &Reconciler{Namespaces: v1alpha1.OpenShiftNamespaces, Client: cluster, Live: cluster, Release: "4.22.0", Mask: &masking.Mask{}}
}

func clusterAPI() *v1alpha1.ClusterAPI {
	return &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName, UID: "owner"}}
}

// versionOf returns a version with a stored set of size bytes.
func versionOf(size int) (v1alpha1.Version, revision.Stored) {
	data := bytes.Repeat([]byte("x"), size)
	stored := revision.Stored{Digest: digest.FromBytes(data), Data: data}
	return v1alpha1.Version{Name: "4.22.0-2", Revision: 2, InstalledAs: "4.22.0-1", ManifestsDigest: v1alpha1.Digest(stored.Digest)}, stored
}

func TestIsIntact(t *testing.T) {
	lose := func(values map[string]string) map[string]string { clear(values); return values }
	for name, test := range map[string]struct {
		edit func(first, part *corev1.ConfigMap)
		want bool
	}{
		"unchanged": {func(*corev1.ConfigMap, *corev1.ConfigMap) {}, true},
		"labels, annotations and finalizers of others": {func(first, _ *corev1.ConfigMap) {
			first.Labels["a"], first.Annotations["a"], first.Finalizers = "b", "b", append(first.Finalizers, "example.com/a")
		}, true},
		"no labels":                        {func(first, _ *corev1.ConfigMap) { lose(first.Labels) }, false},
		"no annotations":                   {func(first, _ *corev1.ConfigMap) { lose(first.Annotations) }, false},
		"without the version it adopts":    {func(first, _ *corev1.ConfigMap) { delete(first.Annotations, v1alpha1.InstalledAsAnnotation) }, false},
		"no finalizer":                     {func(first, _ *corev1.ConfigMap) { first.Finalizers = nil }, false},
		"no owner":                         {func(first, _ *corev1.ConfigMap) { first.OwnerReferences = nil }, false},
		"another owner":                    {func(first, _ *corev1.ConfigMap) { first.OwnerReferences[0].UID = "other" }, false},
		"deleted":                          {func(first, _ *corev1.ConfigMap) { now := metav1.Now(); first.DeletionTimestamp = &now }, false},
		"other data":                       {func(first, _ *corev1.ConfigMap) { first.BinaryData["manifests.json.zst"] = []byte("x") }, false},
		"further data":                     {func(first, _ *corev1.ConfigMap) { first.Data = map[string]string{"a": "b"} }, false},
		"mutable":                          {func(first, _ *corev1.ConfigMap) { first.Immutable = nil }, false},
		"the second one is renamed":        {func(_, part *corev1.ConfigMap) { part.Name = "other" }, false},
		"the second one without its label": {func(_, part *corev1.ConfigMap) { lose(part.Labels) }, false},
		"the second one is deleted":        {func(_, part *corev1.ConfigMap) { now := metav1.Now(); part.DeletionTimestamp = &now }, false},
		"the second one has an old owner":  {func(_, part *corev1.ConfigMap) { part.OwnerReferences[0].UID = "before" }, false},
		"the second one has other data":    {func(_, part *corev1.ConfigMap) { part.BinaryData = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			version, stored := versionOf(1 << 20) // in two ConfigMaps
			created := storage{namespace: v1alpha1.OpenShiftNamespaces.Operator}.configMapsOf(clusterAPI(), version, stored)
			created[0].UID = "first"
			revision.SetOwner(created[1], created[0])
			test.edit(created[0], created[1])
			if got := (storage{namespace: v1alpha1.OpenShiftNamespaces.Operator}).isIntact(clusterAPI(), version, stored, []corev1.ConfigMap{*created[0], *created[1]}); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestPut(t *testing.T) {
	version, stored := versionOf(10)
	wanted := storage{namespace: v1alpha1.OpenShiftNamespaces.Operator}.configMapsOf(clusterAPI(), version, stored)[0]
	for name, test := range map[string]struct {
		existing func(*corev1.ConfigMap)
		replace  bool
		want     error
		sameUID  bool
	}{
		"missing":                     {},
		"equal":                       {existing: func(*corev1.ConfigMap) {}, sameUID: true},
		"without metadata":            {existing: func(c *corev1.ConfigMap) { c.Labels, c.Finalizers, c.OwnerReferences = nil, nil, nil }, sameUID: true},
		"other data of another actor": {existing: func(c *corev1.ConfigMap) { c.BinaryData = nil }, want: errForeign, sameUID: true},
		"other data of this version":  {existing: func(c *corev1.ConfigMap) { c.BinaryData = nil }, replace: true},
		"other data of this version, no finalizer": {existing: func(c *corev1.ConfigMap) { c.BinaryData, c.Finalizers = nil, nil }, replace: true},
	} {
		t.Run(name, func(t *testing.T) {
			var existing []client.Object
			if test.existing != nil {
				found := wanted.DeepCopy()
				found.UID = "existing"
				test.existing(found)
				existing = append(existing, found)
			}
			r := reconcilerWith(t, existing...)
			if _, err := r.storage().put(t.Context(), wanted, test.replace); !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			got := &corev1.ConfigMap{}
			if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(wanted), got); err != nil {
				t.Fatal(err)
			}
			if (got.UID == "existing") != test.sameUID {
				t.Errorf("the ConfigMap has UID %q", got.UID)
			}
			if test.want != nil {
				return
			}
			got.UID, got.ResourceVersion = "", ""
			if diff := cmp.Diff(wanted, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".TypeMeta" }, cmp.Ignore())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckOwner: while images were pulled, the ClusterAPI object can have been deleted, or recreated.
func TestCheckOwner(t *testing.T) {
	now := metav1.Now()
	deleted, recreated := clusterAPI(), clusterAPI()
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"example.com/a"}
	recreated.UID = "other"
	for name, test := range map[string]struct {
		found []client.Object
		want  string
	}{
		"unchanged": {[]client.Object{clusterAPI()}, ""}, "deleted": {[]client.Object{deleted}, "is being deleted"},
		"recreated": {[]client.Object{recreated}, "is being deleted"}, "gone": {nil, "not found"},
	} {
		err := reconcilerWith(t, test.found...).storage().checkOwner(t.Context(), clusterAPI())
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

// TestRetire deletes the older versions' revision ConfigMaps, and no other ConfigMap.
func TestRetire(t *testing.T) {
	configMap := func(name string, labels map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: name, Labels: labels, Finalizers: []string{v1alpha1.TeardownFinalizer}}}
	}
	first := func(name string) *corev1.ConfigMap {
		return configMap(name, map[string]string{v1alpha1.RevisionLabel: name})
	}
	all := []client.Object{
		first("4.21.0-1"), configMap("4.21.0-1.1", map[string]string{v1alpha1.RevisionPartLabel: "4.21.0-1"}), first("4.22.0-2"), first("4.22.0-3"), configMap("kube-root-ca.crt", nil),
	}
	for name, test := range map[string]struct {
		current string
		want    []string // the deleted ones
		reason  reason.Reason
	}{
		"installed":     {"4.22.0-3", []string{"4.21.0-1", "4.22.0-2"}, reason.RetiringRevisions},
		"not installed": {"4.22.0-2", nil, reason.RollingOut},
	} {
		t.Run(name, func(t *testing.T) {
			r := reconcilerWith(t, all...)
			cluster := clusterAPI()
			cluster.Status.CurrentVersion, cluster.Status.DesiredVersion = test.current, "4.22.0-3"
			for _, version := range []string{"4.21.0-1", "4.22.0-2", "4.22.0-3"} {
				cluster.Status.Versions = append(cluster.Status.Versions, v1alpha1.Version{Name: version})
			}
			list := &corev1.ConfigMapList{}
			if err := r.Live.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			outcome := (retirement{r.Client}).retire(t.Context(), cluster, list.Items)
			if outcome.Reason != test.reason || outcome.Err != nil || outcome.ReleaseInstalled != (test.reason == reason.RetiringRevisions) {
				t.Errorf("got %+v, want %s", outcome, test.reason)
			}
			if err := r.Live.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			var deleted []string
			for _, c := range list.Items {
				if !c.DeletionTimestamp.IsZero() {
					deleted = append(deleted, c.Name)
				}
			}
			if diff := cmp.Diff(test.want, deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// Both the running version and its successor are repaired; an older one is about to be removed.
func TestRepairConfigMaps_CurrentAndDesired(t *testing.T) {
	cluster := clusterAPI()
	cluster.Status.CurrentVersion, cluster.Status.DesiredVersion = "4.22.0-2", "4.22.0-3"
	var objects []client.Object
	var existing []corev1.ConfigMap
	for number, name := range []string{"4.22.0-1", "4.22.0-2", "4.22.0-3"} {
		version, stored := versionOf(10 + number)
		version.Name, version.Revision = name, int64(number+1)
		cluster.Status.Versions = append(cluster.Status.Versions, version)
		damaged := storage{namespace: v1alpha1.OpenShiftNamespaces.Operator}.configMapsOf(cluster, version, stored)[0]
		damaged.Finalizers = nil
		objects, existing = append(objects, damaged), append(existing, *damaged.DeepCopy())
	}
	r := reconcilerWith(t, append(objects, cluster)...)
	if wrote, err := r.storage().repair(t.Context(), cluster, existing); !wrote || err != nil {
		t.Fatalf("wrote %t, error %v", wrote, err)
	}
	for i, want := range []int{0, 1, 1} {
		got := &corev1.ConfigMap{}
		if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(&existing[i]), got); err != nil {
			t.Fatal(err)
		}
		if len(got.Finalizers) != want {
			t.Errorf("ConfigMap %s has %d finalizers, want %d", got.Name, len(got.Finalizers), want)
		}
	}
}

// No input renders a version that is being replaced again, so no moment may come in which its content exists nowhere.
func TestRepairConfigMaps_LeavesADeletedOneThatIsReplaced(t *testing.T) {
	cluster := clusterAPI()
	version, stored := versionOf(10)
	cluster.Status.Versions = append(cluster.Status.Versions, version)
	deleted := storage{namespace: v1alpha1.OpenShiftNamespaces.Operator}.configMapsOf(cluster, version, stored)[0]
	deleted.DeletionTimestamp = new(metav1.Now())
	for desired, want := range map[string]bool{version.Name: true, "4.22.0-9": false} {
		cluster.Status.CurrentVersion, cluster.Status.DesiredVersion = version.Name, desired
		r := reconcilerWith(t, deleted.DeepCopy(), cluster.DeepCopy())
		if wrote, err := r.storage().repair(t.Context(), cluster, []corev1.ConfigMap{*deleted}); wrote != want || err != nil {
			t.Errorf("desired version %s: wrote %t, error %v", desired, wrote, err)
		}
	}
}
