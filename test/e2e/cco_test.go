// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

// The tests of cluster-capi-operator that judge a release of OpenShift, except those that need a running pod of its controllers for each object.
const (
	judges    = "OCPFeatureGate:ClusterAPIMachineManagement|Cluster API Webhook"
	notJudges = "Management cluster"
)

// TestClusterCAPIOperator_TestsOfFeatureGates runs tests of cluster-capi-operator, whose checkout is CCO, against a release with this installer and OpenShift's
// bundles in PROVIDERS. docs/maintainers/openshift-objects.md lists the cases that fail, with the reasons: no other may fail, and none of them may pass.
func TestClusterCAPIOperator_TestsOfFeatureGates(t *testing.T) {
	checkout := os.Getenv("CCO")
	if checkout == "" {
		t.Skip("needs a checkout of cluster-capi-operator in CCO")
	}
	t.Parallel()
	h := connect(t, controlplane.Fresh(t))
	_, err := h.Prepare(h.Context(), fixture.Preparation{WithDeployment: true})
	h.must(err)
	h.asRelease("4.22.0")
	h.releaseOperator(checkout)
	h.must(h.AllowAllPods(h.Context()))
	images := map[string]string{}
	for operand, folder := range map[string]string{"cluster-capi-controllers": "openshift-capi", "aws-cluster-api-controllers": "openshift-aws"} {
		folder = filepath.Join(os.Getenv("PROVIDERS"), folder)
		images[operand] = h.pushProfiles(operand, map[string]string{"default/metadata.yaml": folder + "/metadata.yaml", "default/manifests.yaml": folder + "/components.yaml"})
	}
	profiles := map[string]string{}
	for _, name := range []string{"default/metadata.yaml", "default/manifests.yaml", "aws/metadata.yaml", "aws/manifests.yaml"} {
		profiles[name] = filepath.Join(checkout, "capi-operator-manifests", name)
	}
	images["cluster-capi-operator"] = h.pushProfiles("cluster-capi-operator", profiles)
	h.writeImages(images)
	h.start("4.22.0")
	h.settled("4.22.0-1")

	report := filepath.Join(t.TempDir(), "report.json")
	command := exec.CommandContext(h.Context(), "go", "test", "-mod=vendor", "-count=1", "-timeout=60m", "./e2e", "-ginkgo.focus="+judges, "-ginkgo.skip="+notJudges, "-ginkgo.json-report="+report)
	command.Dir, command.Env = checkout, append(os.Environ(), "GOFLAGS=", "KUBECONFIG="+h.Cluster.Kubeconfig)
	output, failed := command.CombinedOutput()
	content, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v: %v\n%s", err, failed, output)
	}
	h.compareCases(content, output)
}

// compareCases compares the results in a report of ginkgo with the documentation.
func (h *harness) compareCases(report, output []byte) {
	h.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "maintainers", "openshift-objects.md"))
	h.must(err)
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeText, LeafNodeType, State string
		}
	}
	h.must(json.Unmarshal(report, &suites))
	count := map[string]int{}
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if spec.LeafNodeType != "It" || spec.State == "skipped" || spec.State == "pending" {
				continue
			}
			count[spec.State]++
			listed := strings.Contains(string(page), "| "+spec.LeafNodeText+" |")
			if failed := spec.State != "passed"; failed != listed {
				h.Errorf("%s: %s: %s; listed as a failure: %t", strings.Join(spec.ContainerHierarchyTexts, ": "), spec.LeafNodeText, spec.State, listed)
			}
		}
	}
	h.Logf("cases: %v", count)
	if count["passed"] == 0 || h.Failed() {
		h.Errorf("%s", output)
	}
}

// asRelease writes what a cluster of a release of OpenShift knows about itself: its version, its feature gates and its name.
func (h *harness) asRelease(release string) {
	h.Helper()
	version := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}, Spec: configv1.ClusterVersionSpec{ClusterID: "4b1a8c3e-0f57-4a4a-9a3c-0123456789ab"}}
	h.must(h.Create(h.Context(), version))
	version.Status = configv1.ClusterVersionStatus{Desired: configv1.Release{Version: release, Image: "registry.example.com/release"}, VersionHash: "x", AvailableUpdates: []configv1.Release{}}
	h.must(h.Status().Update(h.Context(), version))
	h.gates(release, "AWS", true)
	gates := &configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	h.must(h.Get(h.Context(), client.ObjectKeyFromObject(gates), gates))
	gates.Status.FeatureGates[0].Enabled = append(gates.Status.FeatureGates[0].Enabled, configv1.FeatureGateAttributes{Name: "ClusterAPIMachineManagement"})
	h.must(h.Status().Update(h.Context(), gates))
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	h.must(h.Status().Patch(h.Context(), infrastructure, client.RawPatch(types.MergePatchType, []byte(`{"status":{"infrastructureName":"test-x1"}}`))))
}

// releaseOperator applies the manifests of cluster-capi-operator that stay in a release with this installer. Kinds that the cluster lacks are omitted.
func (h *harness) releaseOperator(checkout string) {
	h.Helper()
	h.shell("kubectl create namespace openshift-machine-api", "kubectl label nodes --all node-role.kubernetes.io/control-plane=")
	files, err := filepath.Glob(filepath.Join(checkout, "manifests", "0000_30_cluster-api_*.yaml"))
	h.must(err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		h.must(err)
		objects, err := yamldoc.Objects(content)
		h.must(err)
		for _, object := range objects {
			if object.GetKind() == "Namespace" || object.GetAnnotations()["release.openshift.io/delete"] != "" {
				continue
			}
			if err := h.Apply(h.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("cluster-version-operator"), client.ForceOwnership); !meta.IsNoMatchError(err) {
				h.must(err)
			}
		}
	}
}

// pushProfiles pushes an image of an operand as OpenShift builds it, with files by their paths in the folder of profiles, and returns the reference.
func (h *harness) pushProfiles(operand string, files map[string]string) string {
	h.Helper()
	var layer registry.Layer
	for name, file := range files {
		content, err := os.ReadFile(file)
		h.must(err)
		layer.Entries = append(layer.Entries, registry.File("capi-operator-manifests/"+name, string(content)))
	}
	image, err := registry.Image(layer)
	h.must(err)
	reference, err := h.Registry.Push("openshift/"+operand, image)
	h.must(err)
	return reference
}
