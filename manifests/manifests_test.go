// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/manifests"
	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/fixture"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

func objects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests.Objects()
	must(t, err)
	return objects
}

// install applies the manifests as a release does, and returns clients with the
// identities of an administrator and of the installer.
func install(t *testing.T) (admin, installer client.Client) {
	t.Helper()
	cluster := controlplane.Shared(t)
	if _, err := (fixture.Preparation{WithDeployment: true}).Apply(t.Context(), cluster.Config); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(cluster.Config, client.Options{})
	must(t, err)
	config, err := fixture.InstallerConfig(t.Context(), cluster)
	must(t, err)
	installer, err = client.New(config, client.Options{})
	must(t, err)
	return admin, installer
}

func TestPermissions_NoWildcardAndFewSecrets(t *testing.T) {
	for _, object := range objects(t) {
		if object.GetKind() != "Role" && object.GetKind() != "ClusterRole" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role))
		for _, rule := range role.Rules {
			if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Verbs, "*") {
				t.Errorf("%s %s: a wildcard in %v", object.GetKind(), object.GetName(), rule)
			}
			pullSecret := object.GetKind() == "Role" && object.GetNamespace() == "openshift-config" && slices.Equal(rule.ResourceNames, []string{"pull-secret"}) && slices.Equal(rule.Verbs, []string{"get", "list", "watch"})
			own := object.GetKind() == "Role" && object.GetNamespace() == v1alpha1.OpenShiftNamespaces.Operator && slices.Equal(rule.Verbs, []string{"get", "list", "watch", "create", "delete"})
			if !pullSecret && !own && slices.Contains(rule.APIGroups, "") && (slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*")) {
				t.Errorf("%s %s: Secrets in %v", object.GetKind(), object.GetName(), rule)
			}
		}
	}
}

func TestPermissions_FewSecretsAreReadable(t *testing.T) {
	_, installer := install(t)
	secret := &unstructured.Unstructured{}
	secret.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	if err := installer.Get(t.Context(), client.ObjectKey{Namespace: "openshift-config", Name: "pull-secret"}, secret); !apierrors.IsNotFound(err) {
		t.Errorf("the pull secret: %v, want not found", err)
	}
	if err := installer.Get(t.Context(), client.ObjectKey{Namespace: "openshift-config", Name: "other"}, secret); !apierrors.IsForbidden(err) {
		t.Errorf("another Secret: %v, want it forbidden", err)
	}
	secrets := &unstructured.UnstructuredList{}
	secrets.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	if err := installer.List(t.Context(), secrets, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator)); err != nil {
		t.Errorf("listing the Secrets that settings refer to: %v", err)
	}
	for _, namespace := range []string{"", v1alpha1.OpenShiftNamespaces.Operand, "openshift-config"} {
		if err := installer.List(t.Context(), secrets, client.InNamespace(namespace)); !apierrors.IsForbidden(err) {
			t.Errorf("listing the Secrets of namespace %q: %v, want it forbidden", namespace, err)
		}
	}
	if err := installer.List(t.Context(), secrets, client.InNamespace("openshift-config"), client.MatchingFields{"metadata.name": "pull-secret"}); err != nil {
		t.Errorf("listing the pull secret alone: %v", err)
	}
}

func TestPermissions_InstallerMayEscalate(t *testing.T) {
	_, installer := install(t)
	role := &rbacv1.ClusterRole{}
	role.Name = "test-provider"
	role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	must(t, installer.Create(t.Context(), role))
	must(t, installer.Delete(t.Context(), role))
}

func TestKustomization_ListsEveryFile(t *testing.T) {
	content, err := os.ReadFile("kustomization.yaml")
	must(t, err)
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	must(t, yaml.Unmarshal(content, &kustomization))
	files, err := filepath.Glob("0000_30_*.yaml")
	must(t, err)
	files = slices.DeleteFunc(files, func(name string) bool {
		return strings.HasSuffix(name, "_tombstones.yaml") || strings.HasSuffix(name, "_clusterapi.yaml")
	})
	if !slices.Equal(kustomization.Resources, files) {
		t.Errorf("kustomization.yaml lists %q; there are %q", kustomization.Resources, files)
	}
}

// placeholder matches the images in manifests that a release replaces.
var placeholder = regexp.MustCompile(`registry\.ci\.openshift\.org/[a-z:-]+`)

func TestImageReferences_ListEveryImage(t *testing.T) {
	references, err := os.ReadFile("image-references")
	must(t, err)
	files, err := filepath.Glob("*.yaml")
	must(t, err)
	components, err := filepath.Glob("components/*/*.yaml")
	must(t, err)
	images := 0
	for _, file := range append(files, components...) {
		content, err := os.ReadFile(file)
		must(t, err)
		for _, image := range placeholder.FindAllString(string(content), -1) {
			images++
			if !strings.Contains(string(references), `"`+image+`"`) {
				t.Errorf("%s: %s is not in image-references, so a release would not replace it", file, image)
			}
		}
	}
	if images == 0 {
		t.Error("no manifest has an image")
	}
}

// TestPages_KubectlExamplesWork runs the lines of README.md and of pages about an installation that begin with kubectl, in order, in the root
// folder.
// kubectl and a release write different fields of the Deployment, so that it cannot be both's.
func TestPages_KubectlExamplesWork(t *testing.T) {
	admin, _ := install(t)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: "capi-installer"}}
	must(t, admin.Delete(t.Context(), deployment))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), deployment) })
	t.Cleanup(func() { // two installations in a cluster exclude each other
		_, err := controlplane.Shared(t).Kubectl(context.Background(), "delete", "-k", "../deploy/kubernetes", "--ignore-not-found", "--selector=app.kubernetes.io/component!=namespace", "--timeout=1m")
		if err != nil {
			t.Error(err)
		}
	})
	binary := controlplane.Binary(t)
	path := t.TempDir()
	must(t, os.Symlink(binary, filepath.Join(path, "kubectl")))
	run := func(line string) {
		command := exec.CommandContext(t.Context(), "sh", "-c", line)
		command.Dir = ".."
		command.Env = append(os.Environ(), "KUBECONFIG="+controlplane.Shared(t).Kubeconfig, "PATH="+path+":"+os.Getenv("PATH"), "EDITOR=true")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	prometheus, err := fixture.Pinned(t.Context(), "github.com/prometheus-operator/prometheus-operator")
	must(t, err)
	crds := filepath.Join(prometheus, "example", "prometheus-operator-crd", "monitoring.coreos.com_")
	run("kubectl create -f " + crds + "servicemonitors.yaml -f " + crds + "prometheusrules.yaml && kubectl wait --for=condition=Established crd/servicemonitors.monitoring.coreos.com crd/prometheusrules.monitoring.coreos.com --timeout=1m")
	run("kubectl create namespace capi-system")
	run("kubectl create deployment capi-controller-manager --namespace=capi-system --image=example.com/capi")
	run("kubectl apply -f manifests/testdata/retained.yaml && kubectl wait --for=condition=Established crd/machines.cluster.x-k8s.io --timeout=1m")
	run("kubectl create -f manifests/testdata/machine.yaml")
	examples := 0
	for _, page := range []string{"README.md", "SECURITY.md", "docs/conditions.md", "docs/metrics.md", "docs/settings.md", "docs/try-a-change.md", "docs/uninstall.md"} {
		content, err := os.ReadFile(filepath.Join("..", page))
		must(t, err)
		// Other tests run the lines of the plugin and of the uninstall; the log needs a pod.
		others := []string{"kubectl capi-manifests ", " logs "}
		if page == "docs/uninstall.md" {
			others = []string{"clusterapi", " -k "}
		}
		for line := range strings.Lines(string(content)) {
			elsewhere := func(word string) bool { return strings.Contains(line, word) }
			if !strings.HasPrefix(line, "kubectl ") || slices.ContainsFunc(others, elsewhere) {
				continue
			}
			examples++
			run(strings.NewReplacer(" --watch", "", "<name>", "name --ignore-not-found", "KIND NAME", "clusterapi cluster", "NAMESPACE:NAME", "default:default", "default NAME", "default kept").Replace(strings.TrimSpace(line)))
		}
	}
	run("kubectl delete namespace capi-system --wait=false")
	run("kubectl delete crd servicemonitors.monitoring.coreos.com prometheusrules.monitoring.coreos.com")
	run("kubectl delete clusterrolebinding clusterapi-admin capi-installer-metrics-reader")
	run("kubectl delete clusterrole clusterapi-admin")
	if examples < 27 {
		t.Errorf("%d examples of kubectl", examples)
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
