// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"pkg.package-operator.run/boxcutter"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
)

const crdKindName = "CustomResourceDefinition"

// oldInstaller installs objects in the way of cluster-capi-operator: without
// owners, under its field manager, as the same service account.
type oldInstaller struct {
	*harness
	engine *boxcutter.RevisionEngine
}

func newOldInstaller(h *harness) *oldInstaller {
	h.Helper()
	self := h.asInstaller()
	discovered, err := discovery.NewDiscoveryClientForConfig(h.config)
	h.must(err)
	engine, err := boxcutter.NewRevisionEngine(boxcutter.RevisionEngineOptions{
		Scheme: h.Scheme(), FieldOwner: predecessor.FieldOwner, SystemPrefix: v1alpha1.Prefix,
		DiscoveryClient: discovered, RestMapper: self.RESTMapper(), Writer: self, Reader: h.Client, UnfilteredReader: h.Client,
	})
	h.must(err)
	return &oldInstaller{harness: h, engine: engine}
}

// phases returns the phases of a release of providers.
func (o *oldInstaller) phases(providers ...provider) []boxcutter.Phase {
	o.Helper()
	var bundles []extractor.Bundle
	for _, p := range providers {
		bundle := extractor.Bundle{Metadata: p.metadata(), Manifests: []byte(strings.Join(p.manifests, "---\n")), Origin: extractor.Origin{Name: p.name, Image: o.images[p.name]}}
		bundle.Metadata.ContentID = digest.FromBytes(bundle.Manifests)
		bundles = append(bundles, bundle)
	}
	values := tlsprofile.Of(nil).Variables()
	values["EXP_BOOTSTRAP_FORMAT_IGNITION"] = "true"
	set, err := operand.Render(operand.Inputs{Bundles: bundles, Variables: values})
	o.must(err)
	divided, err := revision.Phases("old", 1, set, nil)
	o.must(err)
	var phases []boxcutter.Phase
	for _, phase := range divided {
		var objects []client.Object
		for _, object := range phase.Objects {
			labels := object.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels[predecessor.ComponentLabel] = strings.TrimSuffix(phase.Name, "-crds")
			object.SetLabels(labels)
			objects = append(objects, object)
		}
		phases = append(phases, boxcutter.NewPhase(phase.Name, objects))
	}
	return phases
}

// install reconciles a revision until it is complete.
func (o *oldInstaller) install(number int64, phases []boxcutter.Phase) {
	o.Helper()
	o.eventually(fmt.Sprintf("revision %d of %s is installed", number, predecessor.Name), func() error {
		result, err := o.engine.Reconcile(context.Background(), boxcutter.NewRevision(fmt.Sprintf("theirs-%d", number), number, phases))
		if err == nil && !result.IsComplete() {
			err = fmt.Errorf("%s", result)
		}
		return err
	})
}

// report writes the status of the official object, with revisions up to a number.
func (o *oldInstaller) report(current, desired int64) {
	o.Helper()
	o.eventually("the official status is written", func() error {
		official := o.official()
		name := func(number int64) operatorv1alpha1.RevisionName {
			return operatorv1alpha1.RevisionName(fmt.Sprintf("theirs-%d", number))
		}
		official.Status.CurrentRevision, official.Status.DesiredRevision, official.Status.ObservedRevisionGeneration = name(current), name(desired), official.Generation
		official.Status.Revisions = nil
		for number := current; number <= desired; number++ {
			official.Status.Revisions = append(official.Status.Revisions, operatorv1alpha1.ClusterAPIInstallerRevision{Name: name(number), Revision: number, ContentID: "theirs"})
		}
		return o.Status().Update(context.Background(), official)
	})
}

// read returns the objects of phases in the cluster.
func (o *oldInstaller) read(phases []boxcutter.Phase) (found []*unstructured.Unstructured) {
	o.Helper()
	for _, phase := range phases {
		for _, object := range phase.GetObjects() {
			actual := &unstructured.Unstructured{}
			actual.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
			o.must(o.Get(context.Background(), key(object), actual))
			found = append(found, actual)
		}
	}
	return found
}

// identities returns the UIDs of the objects of phases, and for Deployments also
// the pod template and the ReplicaSets, by kind and name. The generation of a
// Deployment is not compared, because it also counts changes of annotations.
func (o *oldInstaller) identities(phases []boxcutter.Phase) map[string]string {
	o.Helper()
	found := map[string]string{}
	for _, actual := range o.read(phases) {
		text := string(actual.GetUID())
		if actual.GetKind() == "Deployment" {
			template, _, _ := unstructured.NestedMap(actual.Object, "spec", "template")
			sets := &appsv1.ReplicaSetList{}
			o.must(o.List(context.Background(), sets, client.InNamespace(actual.GetNamespace())))
			count := 0
			for i := range sets.Items {
				if metav1.IsControlledBy(&sets.Items[i], actual) {
					count++
				}
			}
			text = fmt.Sprint(text, " ", template, " ", count, " of revision ", actual.GetAnnotations()["deployment.kubernetes.io/revision"])
		}
		found[actual.GetKind()+" "+actual.GetName()] = text
	}
	return found
}

// theirs returns the metadata that cluster-capi-operator left on the objects of
// phases.
func (o *oldInstaller) theirs(phases []boxcutter.Phase) []string {
	o.Helper()
	var found []string
	for _, actual := range o.read(phases) {
		name := actual.GetKind() + " " + actual.GetName()
		if component := actual.GetLabels()[predecessor.ComponentLabel]; component != "" {
			found = append(found, name+" is labelled "+component)
		}
		for _, entry := range actual.GetManagedFields() {
			if entry.Manager == predecessor.FieldOwner {
				found = append(found, name+" has fields of "+entry.Manager)
			}
		}
	}
	return found
}

// recorded are the field managers of each kind of object beside cluster-capi-operator's, as its program left them in clusters of seven platforms. All
// objects had its two labels and its annotation, and no owner and no finalizer.
var recorded = map[string][]string{
	"ClusterRole": {"clusterrole-aggregation-controller"}, "ClusterRoleBinding": nil, "ConfigMap": nil, "CustomResourceDefinition": {"kube-apiserver"},
	"Deployment": {"kube-controller-manager"}, "MutatingWebhookConfiguration": nil, "Role": nil, "RoleBinding": nil, "Service": nil, "ServiceAccount": nil,
	"ValidatingAdmissionPolicy": nil, "ValidatingAdmissionPolicyBinding": nil, "ValidatingWebhookConfiguration": nil,
}

// asRecorded fails the test unless the objects of phases have the metadata that the program of cluster-capi-operator leaves.
func (o *oldInstaller) asRecorded(phases []boxcutter.Phase) {
	o.Helper()
	for _, actual := range o.read(phases) {
		others, known := recorded[actual.GetKind()]
		for _, entry := range actual.GetManagedFields() {
			known = known && (entry.Manager == predecessor.FieldOwner || slices.Contains(others, entry.Manager)) // the program applies; the emulation also creates
		}
		labels := actual.GetLabels()
		if !known || labels[predecessor.ManagedByLabel] != predecessor.ManagedBy || labels[predecessor.ComponentLabel] == "" || strings.HasSuffix(labels[predecessor.ComponentLabel], "-crds") ||
			actual.GetAnnotations()[v1alpha1.RevisionAnnotation] == "" || actual.GetOwnerReferences() != nil || actual.GetFinalizers() != nil {
			o.Fatalf("%s %s is not as cluster-capi-operator leaves it: %v", actual.GetKind(), actual.GetName(), actual.Object["metadata"])
		}
	}
}

// newHalfway makes cluster-capi-operator install revision 1 of providers, and roll out revision 2 halfway.
func newHalfway(h *harness, providers ...provider) (old *oldInstaller, phases []boxcutter.Phase) {
	h.Helper()
	h.serveOfficial()
	h.release(providers...)
	old = newOldInstaller(h)
	phases = old.phases(providers...)
	old.install(1, phases)
	old.install(2, phases[:1])
	old.eventually("the Deployments are rolled out", func() error {
		for _, actual := range old.read(phases) {
			if actual.GetKind() == "Deployment" && actual.GetAnnotations()["deployment.kubernetes.io/revision"] == "" {
				return fmt.Errorf("Deployment %s has no ReplicaSet yet", actual.GetName())
			}
		}
		return nil
	})
	old.asRecorded(phases)
	old.report(1, 2)
	return old, phases
}

// replacesPredecessor makes cluster-capi-operator install providers halfway, and then starts the installer. The installer
// must adopt the objects without a deletion or a new pod, and then write nothing
// more.
func (h *harness) replacesPredecessor(providers ...provider) {
	h.Helper()
	old, phases := newHalfway(h, providers...)
	before := old.identities(phases)

	h.start("4.22.0")
	h.settled("4.22.0-3")
	h.loggedNone(0, "InstallerDegraded is True")
	if diff := cmp.Diff(before, old.identities(phases)); diff != "" {
		h.Errorf("objects were replaced or rolled out (-before +after):\n%s", diff)
	}
	if found := old.theirs(phases); found != nil {
		h.Errorf("metadata of the predecessor remains: %v", found)
	}
	if s := h.officiallySettled("4.22.0-3"); len(s.Revisions) != 1 {
		h.Errorf("official revisions %+v", s.Revisions)
	}
	h.reconcileTimes(2)
	h.expectQuiet(func() { h.reconcileTimes(3) })
}

// The uninstallation at the end of the test must remove all objects.
func TestPredecessor_ReplacedInPlace(t *testing.T) {
	h := newHarness(t)
	h.replacesPredecessor(core(configMap("shared", "1")), aws(crd("machines", "Machine"), configMap("settings", "1")))
	h.namedInEvents("ObjectsAdopted", "Deployment "+namespace+"/capi of revision 2", "Deployment "+namespace+"/capa of revision 1", "ConfigMap "+namespace+"/shared", crdKindName+" "+machines)
}

// The first attempt to hand over each Deployment conflicts. The Deployments are not reported
// as a collision.
func TestPredecessor_ReplacedAfterConflicts(t *testing.T) {
	h := newHarness(t)
	var failed sync.Map
	var failures atomic.Int64
	fail := func(request *http.Request) *http.Response {
		if request.Method != http.MethodPatch || request.Header.Get("Content-Type") != string(types.MergePatchType) || !strings.Contains(request.URL.Path, "/deployments/") {
			return nil
		}
		if _, again := failed.LoadOrStore(request.URL.Path, true); again {
			return nil
		}
		failures.Add(1)
		return failure(request, apierrors.NewConflict(corev1.Resource("deployments"), "any", errors.New("by the test")))
	}
	h.onRequest.Store(&fail)
	h.replacesPredecessor(core(), aws())
	if failures.Load() == 0 {
		t.Error("no write conflicted")
	}
}

// TestPredecessor_WayBack: cluster-capi-operator adopts the objects again with a
// higher number, regardless of their owner, and this installer can adopt them a
// second time.
func TestPredecessor_WayBack(t *testing.T) {
	h := newHarness(t)
	h.serveOfficial()
	providers := []provider{core(configMap("shared", "1")), aws(crd("machines", "Machine"))}
	h.installRelease(providers...)
	h.officiallySettled("4.22.0-1")
	old := newOldInstaller(h)
	phases := old.phases(providers...)
	before := old.identities(phases)
	h.stop()

	old.install(2, phases)
	h.forgetBookkeeping()
	old.report(2, 2)
	if diff := cmp.Diff(before, old.identities(phases)); diff != "" {
		t.Errorf("on the way back objects were replaced or rolled out (-before +after):\n%s", diff)
	}

	h.reapply()
	h.start("4.22.0")
	h.settled("4.22.0-3")
	if diff := cmp.Diff(before, old.identities(phases)); diff != "" {
		t.Errorf("objects were replaced or rolled out (-before +after):\n%s", diff)
	}
}

// forgetBookkeeping deletes the ClusterAPI object and the revision ConfigMaps while
// no installer runs, as docs/openshift.md describes. The objects stay.
func (h *harness) forgetBookkeeping() {
	h.Helper()
	for _, name := range []string{"keep-crds", "marks", "inputs", "transport"} {
		h.deleteBinding("openshift-capi-installer-" + name)
	}
	h.eventually("the ClusterAPI object has no finalizer", func() error { // until the policies have no effect
		return h.Patch(context.Background(), h.clusterAPI(), client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))
	})
	h.must(h.Delete(context.Background(), h.clusterAPI()))
	configMaps := &corev1.ConfigMapList{}
	h.must(h.List(context.Background(), configMaps, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.HasLabels{v1alpha1.RevisionLabel}))
	for i := range configMaps.Items {
		h.eventually("revision ConfigMap "+configMaps.Items[i].Name+"is deleted", func() error {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
			if err := h.Patch(context.Background(), configMaps.Items[i].DeepCopy(), patch); err != nil { // until the policies have no effect
				return client.IgnoreNotFound(err)
			}
			return errors.New("it may still exist")
		})
	}
}
