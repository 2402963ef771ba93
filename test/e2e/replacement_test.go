// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// installAsPredecessor applies the objects of providers in the form of cluster-capi-operator: with its labels and as
// the owner of their fields.
func (h *harness) installAsPredecessor(providers ...fixture.Synthetic) {
	h.Helper()
	images := h.imagesOf(providers...)
	var bundles []extractor.Bundle
	for _, provider := range providers {
		bundle := provider.Bundle()
		bundle.Origin = extractor.Origin{Name: provider.Name, Image: images[provider.Name]}
		bundles = append(bundles, bundle)
	}
	set, err := operand.Render(operand.Inputs{Bundles: bundles, Variables: nil})
	h.must(err)
	phases, err := revision.Phases("old", 1, set, nil)
	h.must(err)
	config := rest.CopyConfig(h.Cluster.Config) // the policy of marks lets only cluster-capi-operator and the installer write them
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:openshift-cluster-api-operator:capi-installer", Groups: []string{"system:masters", "system:authenticated"}}
	former, err := client.New(config, client.Options{Scheme: h.Scheme()})
	h.must(err)
	for _, phase := range phases {
		for _, object := range phase.Objects {
			labels := map[string]string{predecessor.ManagedByLabel: predecessor.ManagedBy, predecessor.ComponentLabel: phase.Name}
			maps.Copy(labels, object.GetLabels())
			object.SetLabels(labels)
			object.SetAnnotations(map[string]string{v1alpha1.RevisionAnnotation: "7"})
			h.must(former.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(predecessor.FieldOwner)))
		}
	}
}

// fenced returns the first block in a language after a phrase in a document.
func fenced(t *testing.T, file, phrase, language string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", file))
	must(t, err)
	_, text, found := strings.Cut(string(page), phrase)
	_, text, fenced := strings.Cut(text, "```"+language+"\n")
	if !found || !fenced {
		t.Fatalf("%s has no block in %s after %q", file, language, phrase)
	}
	text, _, _ = strings.Cut(text, "```")
	return text
}

// documented returns the lines of the first block of commands after a phrase in a document.
func documented(t *testing.T, file, phrase string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(fenced(t, file, phrase, "sh")), "\n")
}

// shell runs commands with kubectl as an administrator, and returns their output.
func (h *harness) shell(commands ...string) string {
	h.Helper()
	dir := h.TempDir()
	h.must(os.Symlink(controlplane.Binary(h.T), filepath.Join(dir, "kubectl")))
	ctx, stop := context.WithTimeout(h.Context(), patience)
	defer stop()
	command := exec.CommandContext(ctx, "sh", "-e", "-c", strings.Join(commands, "\n"))
	command.Env = append(os.Environ(), "KUBECONFIG="+h.Cluster.Kubeconfig, "KUBECACHEDIR="+filepath.Join(dir, "cache"), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	if err != nil {
		h.Fatalf("%s: %v: %s", strings.Join(commands, "; "), err, output)
	}
	return string(output)
}

// ofBothReleases are the objects that cluster-capi-operator's release has under the same names, with the fields that can conflict.
const ofBothReleases = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: capi-installer, namespace: openshift-cluster-api-operator}
spec:
  selector: {matchLabels: {k8s-app: capi-installer}}
  template: {spec: {containers: [{name: capi-installer, ports: [{name: health, containerPort: 9440}, {name: diagnostics, containerPort: 8443}]}]}}
---
apiVersion: v1
kind: Service
metadata: {name: capi-installer-metrics, namespace: openshift-cluster-api-operator}
spec: {clusterIP: None, selector: {k8s-app: capi-installer}}
`

// updatedInPlace fails the test unless the cluster version operator and cluster-capi-operator can update the objects of this release to the other one.
func (h *harness) updatedInPlace() {
	h.Helper()
	objects, err := yamldoc.Objects([]byte(ofBothReleases))
	h.must(err)
	for _, object := range objects {
		h.must(h.Apply(h.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("cluster-version-operator"), client.ForceOwnership, client.DryRunAll))
	}
}

// TestReplacement_DocumentedCommands runs the commands of docs/openshift.md about replacing
// cluster-capi-operator: they list its events and the objects that the release does not contain, and the way back
// deletes no object.
func TestReplacement_DocumentedCommands(t *testing.T) {
	h := newHarness(t)
	h.installAsPredecessor(core("v1.0.0"), aws("v1.0.0", configMap("only-theirs")))
	h.release(core("v1.0.0"), aws("v1.0.0"))
	p := h.start("4.22.0")
	h.settled("4.22.0-1")
	const heading = "\n## Replacing cluster-capi-operator\n"
	lists := documented(t, "docs/openshift.md", heading)
	if events := h.shell(lists[0]); !strings.Contains(events, "ConfigMap "+namespace+"/cluster-api-config") {
		t.Errorf("the events do not name the adopted objects:\n%s", events)
	}
	if listed := h.shell(lists[1:]...); !strings.Contains(listed, "configmap/only-theirs") || strings.Contains(listed, "cluster-api-config") {
		t.Errorf("the commands must list only ConfigMap only-theirs:\n%s", listed)
	}

	p.terminate()
	_, err := fixture.Preparation{WithDeployment: true}.Apply(h.Context(), h.Cluster.Config)
	h.must(err)
	h.updatedInPlace()
	installed := h.installed()
	commands := documented(t, "docs/openshift.md", wayBack)
	handOver := slices.IndexFunc(commands, func(line string) bool { return strings.HasPrefix(line, "kinds=") })
	h.shell(commands[:handOver]...)
	// Without the policies, cluster-capi-operator adopts objects with the annotation adopt-existing at once.
	h.shell("until kubectl label configmap cluster-api-config -n openshift-cluster-api --overwrite app.kubernetes.io/managed-by=boxcutter; do sleep 1; done")
	h.shell(commands[handOver:]...)
	h.eventually("the bookkeeping is removed", func() error {
		left := &corev1.ConfigMapList{}
		err := h.List(h.Context(), left, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.HasLabels{v1alpha1.RevisionLabel})
		if _, found := h.clusterAPI(); err == nil && (!apierrors.IsNotFound(found) || len(left.Items) > 0) {
			err = fmt.Errorf("ClusterAPI: %w; %d revision ConfigMaps", found, len(left.Items))
		}
		return err
	})
	h.handedOver(installed)
	for _, object := range installed {
		h.must(client.IgnoreNotFound(h.Delete(h.Context(), object)))
	}
	if left := h.shell("kubectl get deployments -n openshift-cluster-api-operator", "kubectl delete configmap only-theirs -n openshift-cluster-api"); strings.Contains(left, "capi-installer") {
		t.Errorf("cluster-capi-operator would add its fields to this Deployment:\n%s", left)
	}
}

// wayBack is the heading of the commands that hand the objects over to cluster-capi-operator.
const wayBack = "\n### The way back\n"

// handedOver expects that objects still exist, with the marks of cluster-capi-operator.
func (h *harness) handedOver(objects map[string]*unstructured.Unstructured) {
	h.Helper()
	for _, object := range objects {
		uid := object.GetUID()
		h.must(h.Get(h.Context(), client.ObjectKeyFromObject(object), object))
		if object.GetUID() != uid {
			h.Errorf("%s %s was deleted and recreated", object.GetKind(), object.GetName())
		}
		if _, owned := object.GetAnnotations()[v1alpha1.OwnersAnnotation]; owned || object.GetLabels()[predecessor.ManagedByLabel] != predecessor.ManagedBy {
			h.Errorf("%s %s is not handed over: labels %v, annotations %v", object.GetKind(), object.GetName(), object.GetLabels(), object.GetAnnotations())
		}
	}
}

// ofMachines is an admission policy with parameters of a kind that a cluster without the capability MachineAPI lacks.
const ofMachines = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: machines.example.com}
spec:
  paramKind: {apiVersion: machine.openshift.io/v1beta1, kind: Machine}
  matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]}
  validations: [{expression: "true"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: machines.example.com}
spec:
  policyName: machines.example.com
  paramRef: {namespace: openshift-machine-api, selector: {}, parameterNotFoundAction: Allow}
  validationActions: [Deny]
`

// TestWayBack_FromEveryState runs the documented commands in each state of an installation that has ended without warning. They end, keep the
// objects of the providers, and leave no object of the installer. The cluster lacks the CRDs of the Machine API.
func TestWayBack_FromEveryState(t *testing.T) {
	t.Parallel()
	h := connect(t, controlplane.Fresh(t))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "maintainers", "openshift-objects.md"))
	h.must(err)
	listed := strings.ReplaceAll(string(page), ": ", "\n") // without the role of a binding
	handOver, cleanUp := documented(t, "docs/openshift.md", wayBack), documented(t, "docs/openshift.md", "No release\ndeletes them:\n")
	for i := range cleanUp {
		cleanUp[i] = strings.Replace(cleanUp[i], " prometheusrule/capi-installer", "", 1) // the cluster lacks the kind
	}
	running := func(until func() error) {
		h.dropLease() // of a killed process
		p := h.start("4.22.0")
		h.eventually("the state is reached", until)
		p.end()
	}
	for _, state := range []struct {
		name  string
		reach func()
		empty bool // no object is installed
	}{
		{"before the first version", func() {}, true},
		{"unsupported platform", func() {
			h.must(h.SetPlatform(h.Context(), "Nutanix"))
			running(func() error { return h.HasReason(h.Context(), "VersionProgressing", "UnsupportedPlatform") })
			h.must(h.SetPlatform(h.Context(), "AWS"))
		}, true},
		{"in the middle", func() {
			h.release(core("v1.0.0"), aws("v1.0.0"))
			running(func() error {
				if len(h.names()) == 0 {
					return errors.New("no object is installed")
				}
				return nil
			})
		}, false},
		{"installed", func() {
			h.release(core("v1.0.0"), aws("v1.0.0", ofMachines))
			running(func() error {
				cluster, err := h.clusterAPI()
				if err == nil && !cluster.Status.Settled() {
					err = fmt.Errorf("current version %q: %s", cluster.Status.CurrentVersion, h.conditions())
				}
				return err
			})
		}, false},
	} {
		h.prepare()
		state.reach()
		installed := h.installed()
		if (len(installed) == 0) != state.empty {
			t.Errorf("%s: %d objects are installed", state.name, len(installed))
		}
		h.shell(handOver...)
		h.shell(cleanUp...)
		h.handedOver(installed)
		for _, object := range installed { // cluster-capi-operator, which would adopt them, does not run
			h.must(client.IgnoreNotFound(h.Delete(h.Context(), object)))
		}
		objects, err := manifests.Objects()
		h.must(err)
		for _, object := range objects {
			name := object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
			if object.GetKind() == "Namespace" || object.GetKind() != "ClusterAPI" && strings.Contains(listed, "\n- "+name+"\n") {
				continue
			}
			h.eventually(state.name+": "+name+" is gone", func() error {
				err := h.Get(h.Context(), client.ObjectKeyFromObject(object), object)
				if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
					return nil
				}
				return fmt.Errorf("it still exists: %w", err)
			})
		}
	}
}
