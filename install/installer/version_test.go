// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/snapshot"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

const machinesCRD = "machines.x.io"

// settings returns a ConfigMap.
func settings(name, color string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"color": color},
	}}
}

// storedVersion returns the entry and the ConfigMap of a version with one component.
func storedVersion(t *testing.T, name string, objects ...*unstructured.Unstructured) (v1alpha1.Version, corev1.ConfigMap) {
	t.Helper()
	number, err := revision.Number(name)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := revision.Encode(operand.Set{Operands: []operand.Operand{{Name: "core", Type: "core", Objects: objects}}})
	if err != nil {
		t.Fatal(err)
	}
	configMap := revision.ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, name, metav1.OwnerReference{}, stored)[0]
	return v1alpha1.Version{
		Name: name, Revision: number, ManifestsDigest: v1alpha1.Digest(stored.Digest), Components: []v1alpha1.Component{{Name: "core", Type: "core"}},
	}, *configMap
}

// machines returns a CRD.
func machines() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": machinesCRD},
		"spec": map[string]any{"group": "x.io", "names": map[string]any{"kind": "Machine", "plural": "machines"}, "versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}}},
	}}
}

// stateOf returns the state of a cluster with versions. The last one is desired, the first one current.
func stateOf(versions []v1alpha1.Version, configMaps ...corev1.ConfigMap) state {
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	cluster.Status = v1alpha1.ClusterAPIStatus{Versions: versions, CurrentVersion: versions[0].Name, DesiredVersion: versions[len(versions)-1].Name}
	return state{namespaces: v1alpha1.OpenShiftNamespaces, Snapshot: snapshot.Snapshot{Cluster: cluster, ConfigMaps: configMaps}}
}

func TestLoad_OfTheStatus(t *testing.T) {
	first, firstMap := storedVersion(t, "4.22.0-1", settings("a", "red"))
	second, secondMap := storedVersion(t, "4.22.0-2", settings("a", "blue"))
	first.UnmanagedCRDs, second.UnmanagedCRDs = []string{"c", "b"}, []string{"d"}
	secondMap.Annotations[v1alpha1.InstalledAsAnnotation] = "4.22.0-1"
	s := stateOf([]v1alpha1.Version{first, second}, firstMap, secondMap)
	s.Cluster.Spec.UnmanagedCRDs = []string{"a", "b"}
	rev, err := s.load(first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, rev.unmanaged); diff != "" || rev.owner != "4.22.0-1" || rev.number != 1 {
		t.Errorf("unmanaged (-want +got):\n%s\nowner %s, number %d", diff, rev.owner, rev.number)
	}
	if diff := cmp.Diff([]string{"a"}, rev.added); diff != "" {
		t.Errorf("added to the unmanaged CRDs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d"}, rev.released); diff != "" {
		t.Errorf("unmanaged in newer versions (-want +got):\n%s", diff)
	}
	rev, err = s.loadNumber(2)
	if err != nil {
		t.Fatal(err)
	}
	if rev.name != "4.22.0-2" || rev.owner != "4.22.0-1" || rev.number != 1 {
		t.Errorf("version %s of owner %s and number %d", rev.name, rev.owner, rev.number)
	}
	if _, err := s.loadNumber(3); err == nil {
		t.Error("a version is loaded that the status does not have")
	}
}

// Only objects with the digest in the status are installed, even if the ConfigMap is consistent.
func TestLoad_ConfigMapOfOtherObjects(t *testing.T) {
	version, _ := storedVersion(t, "4.22.0-1", settings("a", "red"))
	_, forged := storedVersion(t, "4.22.0-1", settings("a", "forged"))
	if _, err := stateOf([]v1alpha1.Version{version}, forged).load(version); err == nil || !strings.Contains(err.Error(), string(version.ManifestsDigest)) {
		t.Errorf("error is %v, want one with the digest %s", err, version.ManifestsDigest)
	}
	if _, err := stateOf([]v1alpha1.Version{version}).load(version); err == nil {
		t.Error("a version without ConfigMap is loaded")
	}
}

// names returns the names of phases.
func names(phases []revision.Phase) (out []string) {
	for _, phase := range phases {
		out = append(out, phase.Name)
	}
	return out
}

// A CRD that becomes unmanaged is removed from the phases of a running version too.
func TestPlanner_FollowsTheUnmanagedCRDs(t *testing.T) {
	version, configMap := storedVersion(t, "4.22.0-1", machines(), settings("a", "red"))
	s, r := stateOf([]v1alpha1.Version{version}, configMap), &Applier{}
	for _, test := range []struct{ unmanaged, want []string }{
		{nil, []string{"core-crds", "core"}}, {[]string{machinesCRD}, []string{"preflight", "core"}}, {nil, []string{"core-crds", "core"}},
	} {
		s.Cluster.Spec.UnmanagedCRDs = test.unmanaged
		p := planOf(t, r, s, version)
		if diff := cmp.Diff(test.want, names(p.phases)); diff != "" {
			t.Errorf("unmanaged %v: phases (-want +got):\n%s", test.unmanaged, diff)
		}
		checking := p.checking()
		if diff := cmp.Diff(test.want, names(checking.all())); diff != "" || len(checking.checks) != len(test.unmanaged) || len(names(p.phases)) != len(test.want) {
			t.Errorf("unmanaged %v: %d checks; phases with them (-want +got):\n%s", test.unmanaged, len(checking.checks), diff)
		}
	}
}

// After a change of the authority, the phases are compared again: they contain its CA bundle. The plan that is kept does not.
func TestTrust_IsPartOfTheKey(t *testing.T) {
	webhook := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "a"},
		"webhooks": []any{map[string]any{"clientConfig": map[string]any{"service": map[string]any{"name": "a"}}}},
	}}
	webhook.SetAnnotations(map[string]string{v1alpha1.InjectCABundleAnnotation: "true"})
	p, before := plan{phases: []revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{webhook}}}}, webhook.DeepCopy()
	keys := sets.New(p.key())
	for range 2 { // each has another authority
		cluster := fake.NewClientBuilder().Build()
		applier := &Applier{Certificates: servingcert.Issuer{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Reader: cluster, Writer: cluster}}
		if err := applier.Certificates.Prepare(t.Context(), p.requesting()); err != nil {
			t.Fatal(err)
		}
		trusting, err := p.trusting(t.Context(), applier.Certificates)
		if err != nil || trusting.authority == "" || object.ClientConfigs(trusting.phases[0].Objects[0])[0]["caBundle"] == nil {
			t.Fatalf("authority %q, object %v: %v", trusting.authority, trusting.phases[0].Objects[0], err)
		}
		keys.Insert(trusting.revision().Key)
	}
	if len(keys) != 3 {
		t.Error("the key is the same with another authority")
	}
	if diff := cmp.Diff(before, webhook); diff != "" {
		t.Errorf("the plan is changed:\n%s", diff)
	}
}

// A phase of another version is not applied, but its objects belong to the version.
func TestPlan_WithoutParts(t *testing.T) {
	core, aws := revision.Part{Owner: "4.22.0-1", Component: "core/cluster-api"}, revision.Part{Owner: "4.22.0-2", Component: "infrastructure/aws"}
	p := plan{version: version{name: "4.22.0-2"}, phases: []revision.Phase{{Name: "core-crds", Part: core, Objects: []*unstructured.Unstructured{machines()}}, {Name: "core", Part: core}, {Name: "aws", Part: aws}}}
	got := p.without(sets.New(core, revision.Part{Owner: "4.22.0-1", Component: "infrastructure/aws"}))
	if diff := cmp.Diff([]string{"aws"}, names(got.revision().Phases)); diff != "" || len(p.phases) != 3 || got.revision().Key == "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(p.related(), got.related()); diff != "" || len(got.related()) == 0 {
		t.Errorf("related objects (-want +got):\n%s", diff)
	}
	// At rest, the phases in the status do not depend on whether the version was rolled out or is maintained.
	done := attempt{plan: got, scope: rollout, applied: true, result: engine.Result{Phases: []engine.Phase{{Name: "aws", Complete: true}}}}
	all := attempt{plan: p, scope: maintenance, applied: true, result: engine.Result{Phases: []engine.Phase{
		{Name: "core-crds", Complete: true, Objects: []engine.Object{{Ready: true}}}, {Name: "core", Complete: true}, {Name: "aws", Complete: true},
	}}}
	rolledOut := versionResult{phases: done.phases(), inherited: got.others, complete: true}
	maintained := versionResult{phases: all.phases(), outcome: status.Outcome{Message: "waiting for a pod"}}
	result := rolledOut.inheriting(maintained)
	if diff := cmp.Diff(all.phases(), result.phases); diff != "" || !result.complete || result.outcome.Message != "" {
		t.Errorf("complete: %t, %+v, phases (-maintained +rolled out):\n%s", result.complete, result.outcome, diff)
	}
	// The version is not complete while the current version waits for an inherited phase.
	maintained.phases[0].State = v1alpha1.PhaseProgressing
	if result := rolledOut.inheriting(maintained); result.complete || result.outcome.Message != maintained.outcome.Message {
		t.Errorf("with a phase in progress: %+v", result)
	}
	done.result.Phases[0].Complete = false
	if phases := done.phases(); len(phases) != 1 {
		t.Errorf("phases of a rollout: %+v", phases)
	}
}

// What is known of a part of a version is not kept.
func TestPlan_ControlledHasNoKey(t *testing.T) {
	p := plan{version: version{name: "4.22.0-1", digest: "x"}, checks: []*unstructured.Unstructured{settings("x", "")}}
	if got := p.controlled(engine.Revision{Phases: []revision.Phase{{Name: "core"}}}); got.revision().Key != "" || got.checks != nil || len(got.phases) != 1 || p.revision().Key == "" {
		t.Errorf("got %+v", got)
	}
}
