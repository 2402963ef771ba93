// SPDX-License-Identifier: Apache-2.0

// Package helm_test lints and installs the Helm chart with Helm's own code.
package helm_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

const chartDir = "../../../deploy/helm/capi-installer"

// values are the values that every installation sets, and some others.
func values() map[string]any {
	return map[string]any{
		"image":                   "registry.example.com/capi-installer@sha256:" + strings.Repeat("a", 64),
		"images":                  map[string]any{"core": "127.0.0.1:9/core@sha256:" + strings.Repeat("b", 64)},
		"platforms":               []any{"AWS", "Docker"},
		"releaseVersion":          "1.2.3",
		"providersNamespace":      "providers",
		"moreProvidersNamespaces": []any{"capa-system", "capd-system"},
		"extraArgs":               []any{"--leader-elect-retry-period=20s"},
		"settings":                map[string]any{"installerMode": "Paused", "components": []any{map[string]any{"name": "cluster-api", "featureGates": []any{map[string]any{"name": "ClusterTopology", "enabled": true}}}}},
	}
}

func TestChart_Lint(t *testing.T) {
	lint := action.NewLint()
	lint.Strict = true
	result := lint.Run([]string{chartDir}, values())
	for _, message := range result.Messages {
		if !strings.Contains(message.Error(), "icon is recommended") {
			t.Error(message)
		}
	}
	if result.TotalChartsLinted != 1 {
		t.Errorf("%d charts", result.TotalChartsLinted)
	}
}

func TestChart_RejectsInvalidSettings(t *testing.T) {
	for name, settings := range map[string]map[string]any{
		"an unknown field":           {"installerMod": "Paused"},
		"an unknown value":           {"installerMode": "paused"},
		"a nested field":             {"components": []any{map[string]any{"name": "a", "replicas": 2}}},
		"a component without a name": {"components": []any{map[string]any{}}},
	} {
		invalid := values()
		invalid["settings"] = settings
		lint := action.NewLint()
		if errs := lint.Run([]string{chartDir}, invalid).Errors; len(errs) == 0 || !strings.Contains(errs[0].Error(), "/settings") {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

func TestChart_InstallUpgradeUninstall(t *testing.T) {
	cluster := controlplane.Fresh(t)
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &cluster.Kubeconfig, new("installer")
	configuration := action.NewConfiguration()
	must(t, configuration.Init(flags, "installer", "secrets"))
	chart, err := loader.Load(chartDir)
	must(t, err)
	admin, err := client.New(cluster.Config, client.Options{})
	must(t, err)

	for _, name := range []string{"capa-system", "capd-system"} { // the chart does not create them
		if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	install := action.NewInstall(configuration)
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.WaitStrategy = "capi-installer", "installer", true, kube.HookOnlyStrategy
	withoutImage := maps.Clone(values())
	delete(withoutImage, "image")
	if _, err := install.Run(chart, withoutImage); err == nil || !strings.Contains(err.Error(), "image is required") {
		t.Errorf("without an image: %v", err)
	}
	if _, err := install.Run(chart, values()); err != nil {
		t.Fatal(err)
	}
	check(t, admin, "1.2.3")
	created := firstStart(t, cluster, admin)
	if got := created.Object["spec"].(map[string]any); got["installerMode"] != "Paused" || len(got["components"].([]any)) != 1 {
		t.Errorf("the first start created the spec %v", got)
	}

	later := values()
	later["releaseVersion"], later["settings"] = "1.3.0", map[string]any{"installerMode": "Managed"}
	upgrade := action.NewUpgrade(configuration)
	upgrade.Namespace, upgrade.WaitStrategy = "installer", kube.HookOnlyStrategy
	for _, warned := range []bool{true, false} { // the second one has no other settings
		upgraded, err := upgrade.Run("capi-installer", chart, later)
		must(t, err)
		if notes := upgraded.(*release.Release).Info.Notes; strings.Contains(notes, "WARNING: The value settings has changed") != warned {
			t.Errorf("notes, want a warning: %t\n%s", warned, notes)
		}
	}
	check(t, admin, "1.3.0")
	unchanged(t, admin, created, "the upgrade")

	uninstall := action.NewUninstall(configuration)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run("capi-installer"); err != nil {
		t.Fatal(err)
	}
	unchanged(t, admin, created, "the uninstallation")
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "providers"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace of the providers after the uninstallation: %v", err)
	}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "installer", Name: "capi-installer"}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment after the uninstallation: %v", err)
	}
	for name, written := range map[string]client.Object{"capi-installer-first-start": &corev1.ConfigMap{}, "capi-installer-serving-ca": &corev1.Secret{}} {
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "installer", Name: name}, written); !apierrors.IsNotFound(err) {
			t.Errorf("%s after the uninstallation: %v", name, err)
		}
	}

	again := values()
	for _, o := range existing() { // as if another tool had created them
		must(t, admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}, "annotations": {"meta.helm.sh/release-name": null}}}`))))
	}
	if _, err := install.Run(chart, again); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("an installation over objects of another tool: %v", err)
	}
	again["createProvidersNamespace"], again["installCRD"] = false, false
	if _, err := install.Run(chart, again); err != nil {
		t.Fatal(err)
	}
	check(t, admin, "1.2.3")
	if _, err := uninstall.Run("capi-installer"); err != nil {
		t.Fatal(err)
	}
	for _, o := range existing() {
		must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	}
}

// existing returns the objects of the chart that a cluster can have from another tool.
func existing() []client.Object {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName("clusterapis.capi-operator.openshift.io")
	return []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "providers"}}, crd}
}

// firstStart runs the program as the Deployment describes until it has created the ClusterAPI object, and returns the object.
func firstStart(t *testing.T, cluster *controlplane.Cluster, admin client.Client) *unstructured.Unstructured {
	t.Helper()
	deployment, mounted := &appsv1.Deployment{}, &corev1.ConfigMap{}
	for name, o := range map[string]client.Object{"capi-installer": deployment, "cluster-api-installer-images": mounted} {
		must(t, admin.Get(t.Context(), client.ObjectKey{Namespace: "installer", Name: name}, o))
	}
	dir := t.TempDir()
	for name, content := range mounted.Data {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	program := filepath.Join(t.TempDir(), "capi-installer")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags=containers_image_openpgp", "-o", program, "./cmd/capi-installer")
	build.Dir = "../../.."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	kubeconfig, err := cluster.ServiceAccount(t.Context(), "installer", deployment.Spec.Template.Spec.ServiceAccountName)
	must(t, err)
	arguments := []string{"--kubeconfig=" + kubeconfig, "--platform=AWS,Docker", "--health-probe-bind-address=0", "--metrics-bind-address=0"}
	for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
		arguments = append(arguments, strings.NewReplacer("/etc/capi-installer/", dir+"/", "/var/cache/capi-installer", t.TempDir()).Replace(argument))
	}
	var log bytes.Buffer
	installer := exec.Command(program, arguments...)
	installer.Stderr, installer.Env = &log, []string{"HOME=" + t.TempDir()}
	must(t, installer.Start())
	created, failure := clusterAPI(), error(nil)
	for range 600 {
		if failure = admin.Get(t.Context(), client.ObjectKeyFromObject(created), created); failure == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	_ = installer.Process.Kill()
	_ = installer.Wait()
	if failure != nil {
		t.Fatalf("%v\n%s", failure, log.String())
	}
	return created
}

func clusterAPI() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("capi-operator.openshift.io/v1alpha1")
	o.SetKind("ClusterAPI")
	o.SetName("cluster")
	return o
}

// unchanged checks that Helm has not replaced, changed or deleted the ClusterAPI object: its deletion uninstalls the providers.
func unchanged(t *testing.T, admin client.Client, created *unstructured.Unstructured, after string) {
	t.Helper()
	now := clusterAPI()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
		t.Errorf("the ClusterAPI object after %s: %v", after, err)
	} else if now.GetUID() != created.GetUID() || now.GetGeneration() != created.GetGeneration() || now.GetDeletionTimestamp() != nil {
		t.Errorf("the ClusterAPI object after %s has UID %s, generation %d and deletion %v; before %s and %d", after, now.GetUID(), now.GetGeneration(), now.GetDeletionTimestamp(), created.GetUID(), created.GetGeneration())
	}
}

// check compares the installed objects with the values.
func check(t *testing.T, admin client.Client, release string) {
	t.Helper()
	deployment, images := &appsv1.Deployment{}, &corev1.ConfigMap{}
	must(t, admin.Get(t.Context(), client.ObjectKey{Namespace: "installer", Name: "capi-installer"}, deployment))
	must(t, admin.Get(t.Context(), client.ObjectKey{Namespace: "installer", Name: "cluster-api-installer-images"}, images))
	container := deployment.Spec.Template.Spec.Containers[0]
	if container.Image != values()["image"] {
		t.Errorf("image %s", container.Image)
	}
	arguments := strings.Join(container.Args, " ")
	for _, want := range []string{"--namespace=installer", "--providers-namespace=providers ", "--providers-namespace=capa-system --providers-namespace=capd-system", "--leader-elect-retry-period=20s"} {
		if !strings.Contains(arguments, want) {
			t.Errorf("arguments %s, want %s", arguments, want)
		}
	}
	for _, namespace := range []string{"providers", "capa-system", "capd-system"} {
		for _, name := range []string{"cluster-api-installer", "capi-installer-providers", "capi-installer-serving-certificates"} {
			binding := &rbacv1.RoleBinding{}
			if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, binding); err != nil {
				t.Error(err)
			} else if len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != "installer" {
				t.Errorf("subjects of RoleBinding %s/%s: %v", namespace, name, binding.Subjects)
			}
		}
	}
	if images.Data["release-version"] != release || images.Data["platform"] != "AWS,Docker" || !strings.Contains(images.Data["images.json"], `"core": "127.0.0.1:9/core@sha256:bbb`) {
		t.Errorf("images: %v", images.Data)
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
