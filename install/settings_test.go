// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// setComponents replaces the settings of the components.
func (h *harness) setComponents(settings ...v1alpha1.ComponentSettings) {
	h.Helper()
	h.setSpec(func(spec *v1alpha1.ClusterAPISpec) { spec.Components = settings })
}

// A setting makes a new version that only changes its component, and a wrong one changes nothing.
func TestSettings_RolledOutAndReverted(t *testing.T) {
	h := newHarness(t)
	gated := strings.Replace(deployment("gated", placeholder), "image: ", "args: [\"--feature-gates=MachinePool=false\"]\n        image: ", 1)
	h.installRelease(core(gated), aws(configMap("settings", "${REGION:=eu}")))
	before := h.installed()

	h.setComponents(v1alpha1.ComponentSettings{Name: "cluster-api-provider-azure"},
		v1alpha1.ComponentSettings{Name: "cluster-api", FeatureGates: []v1alpha1.FeatureGate{{Name: "MachinePol", Enabled: true}}})
	h.reports("VersionDegraded", "SettingsInvalid", `spec.components[0].name: Unsupported value: "cluster-api-provider-azure"`, `spec.components[1].featureGates[0].name`, `supported values: "MachinePool"`)
	h.unchangedSince(before)

	h.setComponents(
		v1alpha1.ComponentSettings{Name: "cluster-api", FeatureGates: []v1alpha1.FeatureGate{{Name: "MachinePool", Enabled: true}}},
		v1alpha1.ComponentSettings{Name: "cluster-api-provider-aws", Variables: []v1alpha1.Variable{{Name: "REGION", Value: new("us")}}, Deployment: &v1alpha1.DeploymentSettings{Replicas: new(int32(2))}},
	)
	h.settled("4.22.0-2")
	h.eventually("the settings are installed", func() error {
		containers := object.Containers(h.object("apps/v1/Deployment", namespace, "gated"))
		replicas, _, _ := unstructured.NestedInt64(h.object("apps/v1/Deployment", namespace, "capa").Object, "spec", "replicas")
		if got := fmt.Sprintf("%v, %d, %s", containers[0]["args"], replicas, h.value("settings")); got != "[--feature-gates=MachinePool=true], 2, us" {
			return fmt.Errorf("installed: %s", got)
		}
		return nil
	})
	components := h.clusterAPI().Status.Version("4.22.0-2").Components
	if !slices.Equal(components[0].Settings, []string{"featureGates[MachinePool]"}) || !slices.Equal(components[1].Settings, []string{"variables[REGION]", "deployment.replicas"}) {
		t.Errorf("settings in the status: %q, %q", components[0].Settings, components[1].Settings)
	}

	h.setComponents()
	h.settled("4.22.0-3")
	after := h.installed()
	if len(after) != len(before) {
		t.Errorf("installed: %v", h.names())
	}
}

// secret writes a Secret in the operator's namespace, which goes at the end of the test.
func (h *harness) secret(name string, data map[string]string) {
	h.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: name}}
	_, err := controllerutil.CreateOrUpdate(h.Context(), h, secret, func() error {
		secret.StringData, secret.Data = data, nil
		return nil
	})
	h.must(err)
	h.Cleanup(func() { h.must(client.IgnoreNotFound(h.Delete(context.Background(), secret))) })
}

// awaits waits until the version controller reports a missing reference with every part. That is no error at first.
func (h *harness) awaits(parts ...string) {
	h.Helper()
	h.reports("VersionDegraded", "ReferenceMissing", parts...)
	if c := meta.FindStatusCondition(h.clusterAPI().Status.Conditions, "VersionDegraded"); c.Status == metav1.ConditionTrue {
		h.Errorf("the version controller is degraded at once: %s", c.Message)
	}
}

// environment returns the value of the only environment variable of a Deployment.
func (h *harness) environment(name string) string {
	h.Helper()
	deployment := h.object("apps/v1/Deployment", namespace, name)
	if deployment == nil {
		return ""
	}
	value, _, _ := unstructured.NestedString(object.MapsAt(object.Containers(deployment)[0], "env")[0], "value")
	return value
}

// visible returns all texts in which a value must not be: ConfigMaps, the status, events, and the log.
func (h *harness) visible() map[string]string {
	h.Helper()
	texts := map[string]string{"log": strings.Join(h.log.lines(), "\n")}
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &eventsv1.EventList{}, &corev1.EventList{}, &v1alpha1.ClusterAPIList{}, &configv1.ClusterOperatorList{}} {
		h.must(h.List(h.Context(), list))
		encoded, err := json.Marshal(list)
		h.must(err)
		texts[fmt.Sprintf("%T", list)] = string(encoded)
	}
	configMaps := &corev1.ConfigMapList{}
	h.must(h.List(h.Context(), configMaps, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator)))
	for _, version := range h.clusterAPI().Status.Versions {
		stored, err := revision.FromConfigMaps(version.Name, configMaps.Items)
		h.must(err)
		set, err := stored.Decode()
		h.must(err)
		texts["stored objects of "+version.Name] = fmt.Sprintf("%+v", set)
	}
	return texts
}

// The value of a Secret is in the installed object and in Secrets only. A change makes a new version, and a Secret that is missing is
// awaited, without consequences for the installed version.
func TestSettings_ValuesOfSecrets(t *testing.T) {
	h := newHarness(t)
	withToken := strings.Replace(deployment("credentialed", placeholder), "image: ", "env: [{name: TOKEN, value: \"${TOKEN}\"}]\n        image: ", 1)
	withToken = strings.Replace(withToken, "metadata: {name: credentialed,", "metadata: {labels: {token: \"${LABEL:=none}\"}, name: credentialed,", 1)
	h.release(core(), aws(withToken))
	reference := func(key string) *v1alpha1.VariableSource {
		return &v1alpha1.VariableSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "credentials", Key: key}}
	}
	token := v1alpha1.Variable{Name: "TOKEN", ValueFrom: reference("token")}
	h.setComponents(v1alpha1.ComponentSettings{Name: "cluster-api-provider-aws", Variables: []v1alpha1.Variable{token}})
	h.start("4.22.0")
	h.awaits("Secret " + v1alpha1.OpenShiftNamespaces.Operator + "/credentials: not found")
	h.secret("credentials", map[string]string{"other": "x"})
	h.awaits(`key "token" not found`)

	const first, second, invalid = "hunter2: {\n\"innermost\" & <more>\n", "second-value-of-the-token", "third value, which is not a label"
	h.secret("credentials", map[string]string{"token": first})
	h.settled("4.22.0-1")
	if got := h.environment("credentialed"); got != first {
		t.Errorf("the Deployment has %q, want %q", got, first)
	}
	if settings := h.clusterAPI().Status.Version("4.22.0-1").Components[1].Settings; !slices.Equal(settings, []string{"variables[TOKEN]"}) {
		t.Errorf("settings in the status: %q", settings)
	}

	h.secret("credentials", map[string]string{"token": second, "unused": "changed"})
	h.settled("4.22.0-2")
	h.eventually("the new value is installed", func() error {
		if got := h.environment("credentialed"); got != second {
			return fmt.Errorf("the Deployment has %q", got)
		}
		return nil
	})
	if components := h.clusterAPI().Status.Version("4.22.0-2").Components; components[0].InstalledAs != "4.22.0-1" || components[1].InstalledAs != "" {
		t.Errorf("the core provider is installed as %q, the AWS provider as %q", components[0].InstalledAs, components[1].InstalledAs)
	}
	h.secret("credentials", map[string]string{"token": second, "unused": "changed again"}) // no new version

	source := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: "credentials"}}
	h.must(h.Delete(h.Context(), source))
	h.awaits("not found")
	if version := h.clusterAPI().Status.CurrentVersion; version != "4.22.0-2" || h.environment("credentialed") != second {
		t.Errorf("without the Secret, version %s is installed, with value %q", version, h.environment("credentialed"))
	}
	h.secret("credentials", map[string]string{"token": second})
	h.settled("4.22.0-2")

	ofVersion := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: "4.22.0-2"}}
	h.must(h.Delete(h.Context(), ofVersion))
	h.settled("4.22.0-3")

	h.secret("credentials", map[string]string{"token": second, "label": invalid})
	h.setComponents(v1alpha1.ComponentSettings{Name: "cluster-api-provider-aws", Variables: []v1alpha1.Variable{token, {Name: "LABEL", ValueFrom: reference("label")}}})
	h.reports("InstallerDegraded", "ObjectsRefused", "<secret:credentials/label>") // the API server quotes the value
	for where, text := range h.visible() {
		for _, value := range []string{first, second, invalid, "innermost", "third value"} {
			quoted := strings.Trim(strconv.Quote(value), `"`)
			if strings.Contains(text, value) || strings.Contains(text, quoted) {
				t.Errorf("%s contains %q", where, value)
			}
		}
	}
	h.setComponents(v1alpha1.ComponentSettings{Name: "cluster-api-provider-aws", Variables: []v1alpha1.Variable{token}})
	h.settled("4.22.0-5")
	h.eventually("only the Secrets of existing versions are left", func() error {
		secrets := &corev1.SecretList{}
		h.must(h.List(h.Context(), secrets, client.InNamespace(v1alpha1.OpenShiftNamespaces.Operator), client.HasLabels{v1alpha1.RevisionPartLabel}))
		if len(secrets.Items) != 1 || secrets.Items[0].Name != "4.22.0-5" {
			return fmt.Errorf("%d Secrets", len(secrets.Items))
		}
		return nil
	})
	h.must(h.Delete(h.Context(), source))
}

// The keys of a Secret that the manifests use are variables: a change of such a key makes a new version, a change of another key does not.
func TestSettings_AllKeysOfASecret(t *testing.T) {
	h := newHarness(t)
	h.release(core(), aws(strings.Replace(deployment("credentialed", placeholder), "image: ", "env: [{name: TOKEN, value: \"${TOKEN}\"}]\n        image: ", 1)))
	h.setComponents(v1alpha1.ComponentSettings{Name: "cluster-api-provider-aws", VariablesFrom: &v1alpha1.VariablesSource{SecretRef: v1alpha1.SecretReference{Name: "credentials"}}})
	h.start("4.22.0")
	h.awaits("Secret " + v1alpha1.OpenShiftNamespaces.Operator + "/credentials: not found")
	const first, second, other = "first-value-of-the-token", "second-value-of-the-token", "a-value-without-a-variable"
	h.secret("credentials", map[string]string{"TOKEN": first, "OTHER": other})
	h.settled("4.22.0-1")
	h.secret("credentials", map[string]string{"TOKEN": first, "OTHER": "changed"})
	h.secret("credentials", map[string]string{"TOKEN": second, "OTHER": other})
	h.settled("4.22.0-2")
	h.eventually("the new value is installed", func() error {
		if got := h.environment("credentialed"); got != second {
			return fmt.Errorf("the Deployment has %q", got)
		}
		return nil
	})
	if settings := h.clusterAPI().Status.Version("4.22.0-2").Components[1].Settings; !slices.Equal(settings, []string{"variables[TOKEN]"}) {
		t.Errorf("settings in the status: %q", settings)
	}
	for where, text := range h.visible() {
		for _, value := range []string{first, second, other} {
			if strings.Contains(text, value) {
				t.Errorf("%s contains %q", where, value)
			}
		}
	}
}
