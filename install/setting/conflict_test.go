// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// templated is a manager whose arguments have variables.
const templated = `apiVersion: apps/v1
kind: Deployment
metadata: {name: capi, namespace: capi-system}
spec:
  template:
    spec:
      containers:
      - name: manager
        image: capi
        args: ["--feature-gates=MachinePool=${EXP_MACHINE_POOL:=false},ClusterTopology=${CLUSTER_TOPOLOGY:=false}", "--v=${LOGLEVEL:=0}"]
`

// applied returns the errors of settings that are applied to manifests with the values of a cluster.
func applied(t *testing.T, own Component, manifests string, cluster map[string]string, openShift bool) field.ErrorList {
	t.Helper()
	values, errs := own.Values(cluster, []byte(manifests), openShift)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	render := func(values map[string]string) []*unstructured.Unstructured {
		return objectsOf(t, string(variable.Substitute([]byte(manifests), values, func(_ int, err error) { t.Error(err) })))
	}
	var marked []*unstructured.Unstructured
	if set := own.Marked(values, openShift); set != nil {
		marked = render(set)
	}
	_, errs = own.Apply(render(values), marked, false)
	return errs
}

// Two settings of one argument or of one feature gate conflict, and settings of different ones do not.
func TestApply_ConflictsByArgumentAndGate(t *testing.T) {
	t.Parallel()
	gate := func(name string) []v1alpha1.FeatureGate { return []v1alpha1.FeatureGate{{Name: name, Enabled: true}} }
	args := func(args ...string) *v1alpha1.DeploymentSettings { return &v1alpha1.DeploymentSettings{Args: args} }
	patch := func(text string) []v1alpha1.Patch {
		return []v1alpha1.Patch{{Target: v1alpha1.PatchTarget{Group: "apps", Kind: "Deployment"}, Patch: text}}
	}
	variables := []v1alpha1.Variable{{Name: "CLUSTER_TOPOLOGY", Value: new("true")}, {Name: "LOGLEVEL", Value: new("5")}}
	for name, test := range map[string]struct {
		own  v1alpha1.ComponentSettings
		want string
	}{
		"a variable and its gate":                 {v1alpha1.ComponentSettings{FeatureGates: []v1alpha1.FeatureGate{{Name: "ClusterTopology"}}}, "featureGates[ClusterTopology]: Forbidden: spec.components[1].variables[CLUSTER_TOPOLOGY] also sets spec.template.spec.containers[0].args.feature-gates.ClusterTopology"},
		"a variable and its gate, with one value": {v1alpha1.ComponentSettings{FeatureGates: gate("ClusterTopology")}, ""},
		"a variable and another gate":             {v1alpha1.ComponentSettings{FeatureGates: gate("MachinePool")}, ""},
		"a variable and its argument":             {v1alpha1.ComponentSettings{Deployment: args("--v=4")}, "deployment.args: Forbidden: spec.components[1].variables[LOGLEVEL] also sets spec.template.spec.containers[0].args.v"},
		"a variable and another argument":         {v1alpha1.ComponentSettings{Deployment: args("--watch-filter=a")}, ""},
		"a gate and an added argument":            {v1alpha1.ComponentSettings{FeatureGates: gate("MachinePool"), Deployment: args("--watch-filter=a")}, ""},
		"a gate and all gates, with another one":  {v1alpha1.ComponentSettings{FeatureGates: gate("MachinePool"), Deployment: args("--feature-gates=MachinePool=false,ClusterTopology=true", "--x=y")}, "spec.components[1].featureGates[MachinePool] also sets spec.template.spec.containers[0].args.feature-gates.MachinePool"},
		"a variable and a patch of its argument":  {v1alpha1.ComponentSettings{Patches: patch(`[{"op": "replace", "path": "/spec/template/spec/containers/0/args/1", "value": "--v=9"}]`)}, "patches[0]: Forbidden: spec.components[1].variables[LOGLEVEL] also sets"},
		"resources and a patch of them": {
			v1alpha1.ComponentSettings{
				Deployment: &v1alpha1.DeploymentSettings{Resources: &v1alpha1.Resources{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}},
				Patches:    patch("spec: {template: {spec: {containers: [{name: manager, resources: {limits: {memory: 2Gi}}}]}}}"),
			}, "patches[0]: Forbidden: spec.components[1].deployment.resources also sets spec.template.spec.containers[0].resources.limits.memory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.own.Variables = variables
			errs := applied(t, settingsOf(test.own), templated, nil, false)
			if test.want == "" && len(errs) > 0 || test.want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), test.want)) {
				t.Errorf("got %v, want %q", errs, test.want)
			}
		})
	}
}

// In OpenShift no setting replaces a value of the cluster's configuration. A setting beside it is applied.
func TestApply_PlatformValuesStay(t *testing.T) {
	t.Parallel()
	manifests := strings.Replace(templated, `"--v=${LOGLEVEL:=0}"]`, `"--v=${LOGLEVEL:=0}", "--tls-min-version=${TLS_MIN_VERSION}"]
        env:
        - {name: HTTPS_PROXY, value: "${HTTPS_PROXY}"}`, 1)
	manifests = strings.Replace(manifests, "MachinePool=${EXP_MACHINE_POOL:=false}", "BootstrapFormatIgnition=${EXP_BOOTSTRAP_FORMAT_IGNITION},MachinePool=${EXP_MACHINE_POOL:=false}", 1)
	cluster := map[string]string{"TLS_MIN_VERSION": "VersionTLS12", "HTTPS_PROXY": "http://proxy", "EXP_BOOTSTRAP_FORMAT_IGNITION": "true"}
	environment := func(name string) []v1alpha1.Patch {
		return []v1alpha1.Patch{{
			Target: v1alpha1.PatchTarget{Group: "apps", Kind: "Deployment"},
			Patch:  "spec: {template: {spec: {containers: [{name: manager, env: [{name: " + name + ", value: mine}]}]}}}",
		}}
	}
	for name, test := range map[string]struct {
		own  v1alpha1.ComponentSettings
		want string
	}{
		"a gate":                  {v1alpha1.ComponentSettings{FeatureGates: []v1alpha1.FeatureGate{{Name: "BootstrapFormatIgnition"}}}, "the cluster's configuration (EXP_BOOTSTRAP_FORMAT_IGNITION) also sets"},
		"another gate":            {v1alpha1.ComponentSettings{FeatureGates: []v1alpha1.FeatureGate{{Name: "MachinePool", Enabled: true}}}, ""},
		"an argument":             {v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Args: []string{"--tls-min-version=VersionTLS10"}}}, "the cluster's configuration (TLS_MIN_VERSION) also sets"},
		"another argument":        {v1alpha1.ComponentSettings{Deployment: &v1alpha1.DeploymentSettings{Args: []string{"--v=4"}}}, ""},
		"a patch of the proxy":    {v1alpha1.ComponentSettings{Patches: environment("HTTPS_PROXY")}, "the cluster's configuration (HTTPS_PROXY) also sets"},
		"a patch beside of it":    {v1alpha1.ComponentSettings{Patches: environment("AAA")}, ""},
		"a variable and its gate": {v1alpha1.ComponentSettings{Variables: []v1alpha1.Variable{{Name: "CLUSTER_TOPOLOGY", Value: new("true")}}, FeatureGates: []v1alpha1.FeatureGate{{Name: "ClusterTopology"}}}, "variables[CLUSTER_TOPOLOGY] also sets"},
	} {
		for _, openShift := range []bool{true, false} {
			errs := applied(t, settingsOf(test.own), manifests, cluster, openShift)
			want := test.want
			if !openShift && strings.HasPrefix(want, "the cluster") {
				want = ""
			}
			if want == "" && len(errs) > 0 || want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), want)) {
				t.Errorf("%s, OpenShift %t: got %v, want %q", name, openShift, errs, want)
			}
		}
	}
}
