// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// changes is the number of changes of TestStatusWait_EveryKindOfInput: each kind of input once, or 50 of them.
func changes(kinds int) int {
	if full {
		return 50
	}
	return kinds
}

// TestStatusWait_EveryKindOfInput changes one input after the other, and runs "capi-manifests status --wait" at once after each change: it
// ends only when the change is installed, with 0, or with 2 if an entry names nothing.
func TestStatusWait_EveryKindOfInput(t *testing.T) {
	h := newHarness(t)
	w := &waiter{harness: h, release: "4.22.0", versions: map[string]string{"cluster-api": "0", "cluster-api-provider-aws": "0"}}
	w.must(w.Create(t.Context(), w.secret("0")))
	h.Cleanup(func() {
		w.must(w.Delete(context.Background(), w.secret("")))
	})
	w.kubelet = h.deploy(w.release, w.images())
	w.wait("the first installation", 0, func() error { return nil })
	kinds := []struct {
		name   string
		change func(value string) (installed func() error)
		code   int // of status
	}{
		{"images.json", w.changeImage, 0},
		{"a setting", w.changeVariable, 0},
		{"a Secret", w.changeSecret, 0},
		{"the release and the program", w.upgrade, 0},
		{"an override", w.changeOverride, 0},
		{"the release, without its content", w.rename, 0},
		{"a patch", w.changePatch, 0},
		{"the proxy", w.changeProxy, 0},
		{"the unmanaged CRDs", w.changeUnmanaged, 2},
		{"images.json and a setting", w.changeBoth, 0},
		{"the placement", w.changePlacement, 0},
	}
	for i := range changes(len(kinds)) {
		kind, value := kinds[i%len(kinds)], fmt.Sprint(i+1)
		w.wait(fmt.Sprintf("change %s of %s", value, kind.name), kind.code, kind.change(value))
	}
}

// waiter changes inputs.
type waiter struct {
	*harness
	kubelet  *kubelet
	release  string
	versions map[string]string // of the providers, by name
}

// wait runs status --wait, and fails the test unless it ends with the code after the change was installed.
func (w *waiter) wait(what string, want int, installed func() error) {
	w.Helper()
	began := time.Now()
	var stdout, stderr strings.Builder
	code := command.Run(w.Context(), "", []string{"status", "--wait", "--for-version", w.release, "--timeout", "2m", "--kubeconfig", w.Cluster.Kubeconfig}, strings.NewReader(""), &stdout, &stderr)
	if code != want {
		w.Fatalf("%s: exit code %d, want %d\n%s%s", what, code, want, &stdout, &stderr)
	}
	if err := installed(); err != nil {
		w.Fatalf("%s: ended after %s although %v\n%s", what, time.Since(began), err, &stdout)
	}
	w.Logf("%s: installed after %s", what, time.Since(began).Round(time.Millisecond))
}

// images pushes the images of the providers.
func (w *waiter) images() map[string]string {
	w.Helper()
	out := map[string]string{}
	for name, version := range w.versions {
		maps.Copy(out, w.imagesOf(w.provider(name, version)))
	}
	return out
}

// provider returns a provider whose ConfigMaps show its version, a variable and the proxy.
func (w *waiter) provider(name, version string) fixture.Synthetic {
	shown := configMap("shown-"+name) + "data: {image: \"" + version + "\", variable: \"${SHOWN:=0}\", secret: \"${SECRET:=0}\", patched: \"0\"}\n"
	if name == "cluster-api" {
		return core("v1.0.0", shown)
	}
	return aws("v1.0.0", shown+"---\n"+configMap("proxy")+"data: {proxy: \"${HTTP_PROXY}\"}\n")
}

// shows returns a check that an installed ConfigMap has a value.
func (w *waiter) shows(name, key, value string) func() error {
	return func() error {
		object := &corev1.ConfigMap{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return err
		}
		if object.Data[key] != value {
			return fmt.Errorf("ConfigMap %s has %s %q, want %q", name, key, object.Data[key], value)
		}
		return nil
	}
}

// patchSpec changes a field of the spec.
func (w *waiter) patchSpec(field string, value any) {
	w.Helper()
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Name = v1alpha1.ClusterAPIName
	w.must(w.Patch(w.Context(), cluster, client.RawPatch(types.MergePatchType, []byte(encode(w.T, map[string]any{"spec": map[string]any{field: value}})))))
}

func (w *waiter) apply() {
	w.Helper()
	w.must(w.Update(w.Context(), w.kubelet.requested(w.release, w.images())))
}

func (w *waiter) changeImage(value string) func() error {
	w.versions["cluster-api"] = value
	w.apply()
	return w.shows("shown-cluster-api", "image", value)
}

// settings are the settings of the AWS provider.
func (w *waiter) settings(variable, patched string) {
	w.Helper()
	secret := v1alpha1.VariableSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "settings", Key: "value"}}
	w.patchSpec("components", []v1alpha1.ComponentSettings{{
		Name:      "cluster-api-provider-aws",
		Variables: []v1alpha1.Variable{{Name: "SHOWN", Value: &variable}, {Name: "SECRET", ValueFrom: &secret}},
		Patches: []v1alpha1.Patch{{
			Target: v1alpha1.PatchTarget{Kind: "ConfigMap", Name: "shown-cluster-api-provider-aws"}, Patch: "data: {patched: \"" + patched + "\"}",
		}},
	}})
}

func (w *waiter) changeVariable(value string) func() error {
	w.settings(value, "0")
	return w.shows("shown-cluster-api-provider-aws", "variable", value)
}

func (w *waiter) changePatch(value string) func() error {
	w.settings("0", value)
	return w.shows("shown-cluster-api-provider-aws", "patched", value)
}

func (w *waiter) secret(value string) *corev1.Secret {
	out := &corev1.Secret{StringData: map[string]string{"value": "secret-" + value}}
	out.Namespace, out.Name = v1alpha1.OpenShiftNamespaces.Operator, "settings"
	return out
}

func (w *waiter) changeSecret(value string) func() error {
	w.must(w.Update(w.Context(), w.secret(value)))
	return w.shows("shown-cluster-api-provider-aws", "secret", "secret-"+value)
}

func (w *waiter) changeOverride(value string) func() error {
	image := w.imagesOf(w.provider("cluster-api", "override-"+value))["cluster-api"]
	w.patchSpec("imageOverrides", []v1alpha1.ImageOverride{{Name: "cluster-api", Image: v1alpha1.ImageReference(image)}})
	return func() error {
		err := w.shows("shown-cluster-api", "image", "override-"+value)()
		w.patchSpec("imageOverrides", nil)
		return err
	}
}

// upgrade changes the ConfigMap and the Deployment to another release.
func (w *waiter) upgrade(value string) func() error {
	w.release, w.versions["cluster-api"] = "4.22."+value, value
	w.apply()
	return w.updateDeployment(w.release)
}

// rename replaces the pod by one of the next release, with the same images: there is no new version.
func (w *waiter) rename(value string) func() error {
	w.release = "4.22." + value
	w.apply()
	w.updateDeployment(w.release)
	return func() error {
		cluster, err := w.clusterAPI()
		if observed := cluster.Status.ObservedRelease; err == nil && (observed == nil || observed.Version != w.release) {
			err = fmt.Errorf("the installer has read release %v, want %s", observed, w.release)
		}
		return err
	}
}

func (w *waiter) updateDeployment(release string) func() error {
	w.Helper()
	deployment := &appsv1.Deployment{}
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(w.kubelet.deployment(release)), deployment))
	deployment.Spec.Template.Spec.Containers[0].Env[0].Value = release
	w.must(w.Update(w.Context(), deployment))
	return func() error {
		cluster, err := w.clusterAPI()
		if err == nil && !strings.HasPrefix(cluster.Status.CurrentVersion, release+"-") {
			err = fmt.Errorf("the current version is %s, want release %s", cluster.Status.CurrentVersion, release)
		}
		return err
	}
}

func (w *waiter) changeProxy(value string) func() error {
	address := "http://proxy.example.com:" + value
	proxy := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": map[string]any{"name": "cluster"}}}
	proxy.Object["spec"] = map[string]any{}
	w.must(client.IgnoreAlreadyExists(w.Create(w.Context(), proxy.DeepCopy())))
	w.Cleanup(func() { _ = w.Delete(context.Background(), proxy.DeepCopy()) })
	w.must(w.Status().Patch(w.Context(), proxy, client.RawPatch(types.MergePatchType, []byte(`{"status":{"httpProxy":"`+address+`"}}`))))
	return w.shows("proxy", "proxy", address)
}

func (w *waiter) changeUnmanaged(value string) func() error {
	name := "x" + value + ".example.com.test"
	w.patchSpec("unmanagedCRDs", []string{name})
	return func() error {
		cluster, err := w.clusterAPI()
		if err == nil && strings.Join(cluster.Status.Version(cluster.Status.CurrentVersion).UnmanagedCRDs, ",") != name {
			err = fmt.Errorf("the current version has other unmanaged CRDs than %s", name)
		}
		w.patchSpec("unmanagedCRDs", nil)
		return err
	}
}

func (w *waiter) changeBoth(value string) func() error {
	image, variable := w.changeImage(value), w.changeVariable(value)
	return func() error {
		if err := image(); err != nil {
			return err
		}
		return variable()
	}
}

func (w *waiter) changePlacement(value string) func() error {
	w.patchSpec("placement", v1alpha1.Placement{Tolerations: []corev1.Toleration{{Key: "key-" + value, Operator: corev1.TolerationOpExists}}})
	return func() error {
		deployments := &appsv1.DeploymentList{}
		if err := w.List(w.Context(), deployments, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, deployment := range deployments.Items {
			if got := deployment.Spec.Template.Spec.Tolerations; len(got) == 0 || got[len(got)-1].Key != "key-"+value {
				return fmt.Errorf("Deployment %s has other tolerations", deployment.Name)
			}
		}
		return nil
	}
}

// encode returns a value as JSON.
func encode(t *testing.T, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Error(err)
	}
	return string(content)
}

// fromUnstructured converts an object into its Go type.
func fromUnstructured(object *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}
