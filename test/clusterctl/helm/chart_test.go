// SPDX-License-Identifier: Apache-2.0

// Package helm_test lints and installs the Helm chart with Helm's own code.
package helm_test

import (
	"maps"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"images":                  map[string]any{"core": "registry.example.com/core@sha256:" + strings.Repeat("b", 64)},
		"platforms":               []any{"AWS", "Docker"},
		"releaseVersion":          "1.2.3",
		"providersNamespace":      "providers",
		"moreProvidersNamespaces": []any{"capa-system", "capd-system"},
		"extraArgs":               []any{"--lifecycle-hooks-limit=5m"},
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

func TestChart_InstallUpgradeUninstall(t *testing.T) {
	cluster := controlplane.Fresh(t)
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &cluster.Kubeconfig, new("installer")
	configuration := action.NewConfiguration()
	if err := configuration.Init(flags, "installer", "secrets"); err != nil {
		t.Fatal(err)
	}
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}

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

	later := values()
	later["releaseVersion"] = "1.3.0"
	upgrade := action.NewUpgrade(configuration)
	upgrade.Namespace, upgrade.WaitStrategy = "installer", kube.HookOnlyStrategy
	if _, err := upgrade.Run("capi-installer", chart, later); err != nil {
		t.Fatal(err)
	}
	check(t, admin, "1.3.0")

	uninstall := action.NewUninstall(configuration)
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run("capi-installer"); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "providers"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace of the providers after the uninstallation: %v", err)
	}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "installer", Name: "capi-installer"}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment after the uninstallation: %v", err)
	}
}

// check compares the installed objects with the values.
func check(t *testing.T, admin client.Client, release string) {
	t.Helper()
	deployment, images := &appsv1.Deployment{}, &corev1.ConfigMap{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "installer", Name: "capi-installer"}, deployment); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "installer", Name: "cluster-api-installer-images"}, images); err != nil {
		t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	if container.Image != values()["image"] {
		t.Errorf("image %s", container.Image)
	}
	arguments := strings.Join(container.Args, " ")
	for _, want := range []string{"--namespace=installer", "--providers-namespace=providers ", "--providers-namespace=capa-system --providers-namespace=capd-system", "--lifecycle-hooks-limit=5m"} {
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
	if images.Data["release-version"] != release || images.Data["platform"] != "AWS,Docker" || !strings.Contains(images.Data["images.json"], `"core": "registry.example.com/core@sha256:bbb`) {
		t.Errorf("images: %v", images.Data)
	}
}
