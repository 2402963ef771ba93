// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// leaves returns the paths of the fields of a type of the API, down to types of other packages.
func leaves(of reflect.Type, path string) (paths []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[v1alpha1.ClusterAPI]().PkgPath() {
		return []string{path}
	}
	for i := range of.NumField() {
		name, options, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		below := path + "." + name
		if options == "inline" {
			below = path
		}
		paths = append(paths, leaves(of.Field(i).Type, below)...)
	}
	return paths
}

// misspelt is a spec with a wrong value of a field, and a part of the answer: of the API server, or of the status.
type misspelt struct{ spec, answer string }

const (
	ofCore     = "components: [{name: cluster-api, "
	ofDeployed = ofCore + "deployment: "
	ofPatch    = ofCore + "patches: [{patch: '{}', target: "
	ofIgnored  = "driftPolicy: {ignoredFields: [{"
)

// misspelts have each field of the spec.
var misspelts = map[string]misspelt{
	".installerMode":                                    {"installerMode: Pause", `Unsupported value: "Pause"`},
	".unmanagedCRDs":                                    {"unmanagedCRDs: [testmachine.infrastructure.cluster.x-k8s.io]", "no component has CRD testmachine.infrastructure.cluster.x-k8s.io (did you mean testmachines."},
	".imageOverrides.name":                              {"imageOverrides: [{name: cluster-apii, image: IMAGE}]", "provider cluster-api (core) is defined by both image cluster-api ("},
	".imageOverrides.image":                             {"imageOverrides: [{name: cluster-api, image: 'quay.io/core:latest'}]", "must be an image reference by digest"},
	".placement.nodeSelector":                           {"placement: {nodeSelector: {node-role.kubernetes.io/infraa: ''}}", "Unschedulable: 0/1 nodes are available"},
	".placement.tolerations":                            {"placement: {tolerations: [{key: infra, operator: Exist}]}", `tolerations[0].operator: Unsupported value: "Exist"`},
	".components.name":                                  {"components: [{name: cluster-apii, featureGates: [{name: MachinePool, enabled: true}]}]", `spec.components[0].name: Unsupported value: "cluster-apii": supported values: "cluster-api", "cluster-api-provider-aws"`},
	".components.namespace":                             {ofCore + "namespace: capi-sytem}]", "spec.components[0].namespace: Forbidden: in OpenShift all providers have one namespace"},
	".components.variables.name":                        {ofCore + "variables: [{name: REGIO, value: us}]}]", `spec.components[0].variables[0].name: Unsupported value: "REGIO"`},
	".components.variables.value":                       {ofCore + "variables: [{name: REGION, value: 5}]}]", "must be of type string"},
	".components.variables.valueFrom.secretKeyRef.name": {ofCore + "variables: [{name: REGION, valueFrom: {secretKeyRef: {name: missing, key: region}}}]}]", "Secret openshift-cluster-api-operator/missing: not found"},
	".components.variables.valueFrom.secretKeyRef.key":  {ofCore + "variables: [{name: REGION, valueFrom: {secretKeyRef: {name: present, key: regio}}}]}]", `Secret openshift-cluster-api-operator/present: key "regio" not found`},
	".components.variablesFrom.secretRef.name":          {ofCore + "variablesFrom: {secretRef: {name: other}}}]", `spec.components[0].variablesFrom: Invalid value: "other": the Secret has no key`},
	".components.featureGates.name":                     {ofCore + "featureGates: [{name: MachinePol, enabled: true}]}]", `featureGates[0].name: Unsupported value: "MachinePol": supported values: "MachinePool"`},
	".components.featureGates.enabled":                  {ofCore + "featureGates: [{name: MachinePool, enabled: yess}]}]", "must be of type boolean"},
	".components.deployment.nodeSelector":               {ofDeployed + "{nodeSelector: {disk: sdd}}}]", "node(s) didn't match Pod's node affinity/selector"},
	".components.deployment.tolerations":                {ofDeployed + "{tolerations: [{key: infra, effect: NoShedule}]}}]", `tolerations[0].effect: Unsupported value: "NoShedule"`},
	".components.deployment.replicas":                   {ofDeployed + "{replicas: 1000}}]", "should be less than or equal to 100"},
	".components.deployment.affinity":                   {ofDeployed + "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Inn, values: [a]}]}]}}}}}]", `"Inn"`},
	".components.deployment.topologySpreadConstraints":  {ofDeployed + "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotShedule}]}}]", `Unsupported value: "DoNotShedule"`},
	".components.deployment.resources.requests":         {ofDeployed + "{resources: {requests: {memry: 1Gi}}}}]", "must be a standard resource"},
	".components.deployment.resources.limits":           {ofDeployed + "{resources: {limits: {memory: 1Gb}}}}]", "spec.components[0].deployment.resources.limits.memory"},
	".components.deployment.priorityClassName":          {ofDeployed + "{priorityClassName: system-cluster-critica}}]", "no PriorityClass with name system-cluster-critica was found"},
	".components.deployment.args":                       {ofDeployed + "{args: [--v=4, --v=5]}}]", "spec.components[0].deployment.args: Forbidden: Deployment openshift-cluster-api/gated: --v=4 and --v=5 set the same argument"},
	".components.deployment.env":                        {ofDeployed + "{env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.nam}}}]}}]", "metadata.nam"},
	".components.deployment.imagePullSecrets":           {ofDeployed + "{imagePullSecrets: ['']}}]", "imagePullSecrets[0]"}, // the kubelet names a Secret that does not exist, if it needs one
	".components.patches.target.group":                  {ofPatch + "{group: app, kind: Deployment}}]}]", `spec.components[0].patches[0].target: Not found: "Deployment of group \"app\"; the component has gated of group \"apps\""`},
	".components.patches.target.kind":                   {ofPatch + "{group: apps, kind: Deploymnt}}]}]", `"Deploymnt of group`},
	".components.patches.target.name":                   {ofPatch + "{group: apps, kind: Deployment, name: gate}}]}]", `"Deployment gate of group`},
	".components.patches.patch":                         {ofCore + "patches: [{patch: 'spec: {replica: 2}', target: {group: apps, kind: Deployment}}]}]", `unknown field "spec.replica"`},
	".driftPolicy.ignoredFields.group":                  {ofIgnored + "group: app, kind: Deployment, name: gated, fields: [/spec/replicas]}]}", "no component has Deployment.app gated"},
	".driftPolicy.ignoredFields.kind":                   {ofIgnored + "group: apps, kind: Deploymnt, name: gated, fields: [/spec/replicas]}]}", "no component has Deploymnt.apps gated"},
	".driftPolicy.ignoredFields.name":                   {ofIgnored + "group: apps, kind: Deployment, name: gate, fields: [/spec/replicas]}]}", "no component has Deployment.apps gate"},
	".driftPolicy.ignoredFields.fields":                 {ofIgnored + "group: apps, kind: Deployment, name: gated, fields: [/spec/replica]}]}", "Deployment.apps gated has no field /spec/replica"},
	".acceptedRisks.name":                               {"acceptedRisks: [{name: BreakingCRD, release: 4.22.0}]", `Unsupported value: "BreakingCRD"`},
	".acceptedRisks.release":                            {"acceptedRisks: [{name: SkippedVersions, release: ''}]", "acceptedRisks[0].release"}, // a risk of another release stays in InstallerDegraded
}

// No entry of the spec is without effect silently: the API server rejects each misspelt name of a field, and it, or a condition that oc get
// and status show, names each misspelt value. An entry for another platform is named as such.
func TestSpec_EachFieldMisspelt(t *testing.T) {
	h := newHarness(t)
	gated := strings.Replace(deployment("gated", placeholder), "image: ", "args: [\"--feature-gates=MachinePool=false\", \"--region=${REGION:=eu}\"]\n        image: ", 1)
	azure := provider{name: "cluster-api-provider-azure", kind: "infrastructure", platform: "Azure", manifests: []string{configMap("azure", "")}}
	h.installRelease(provider{name: "cluster-api", kind: "core", manifests: []string{gated}}, aws(crd("testmachines", "TestMachine")), azure)
	h.secret("present", map[string]string{"region": "us"})
	h.secret("other", map[string]string{"REGIO": "us"})
	cases := maps.Clone(misspelts)
	cases["a component of another platform"] = misspelt{"components: [{name: cluster-api-provider-azure, featureGates: [{name: A, enabled: true}]}]", "is for platform Azure, and this cluster has platform AWS"}
	cases["an override for another platform"] = misspelt{"imageOverrides: [{name: cluster-api-provider-azure, image: AZURE}]", "spec.imageOverrides[cluster-api-provider-azure]: Invalid value"}
	images := strings.NewReplacer("IMAGE", h.images["cluster-api"], "AZURE", h.images["cluster-api-provider-azure"])
	for _, path := range leaves(reflect.TypeFor[v1alpha1.ClusterAPISpec](), "") {
		if _, found := cases[path]; !found {
			t.Errorf("spec%s is never misspelt", path)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		var spec map[string]any
		h.must(yaml.Unmarshal([]byte(images.Replace(cases[name].spec)), &spec))
		if field := name[strings.LastIndex(name, ".")+1:]; strings.HasPrefix(name, ".") {
			if err := h.patchSpec(strings.Replace(encoded(t, spec), `"`+field+`":`, `"`+field+`x":`, 1)); err == nil || !strings.Contains(err.Error(), `unknown field "spec.`) {
				t.Errorf("%s: the misspelt name: %v", name, err)
			}
		}
		err := h.patchSpec(encoded(t, spec))
		if err != nil {
			if !strings.Contains(err.Error(), cases[name].answer) || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("%s: rejected: %v", name, err)
			}
			continue
		}
		h.eventually(name+" is named", func() error {
			if cluster := h.clusterAPI(); !strings.Contains(cluster.Status.Message, cases[name].answer) {
				return fmt.Errorf("%s: the status has the message %q, want %q", name, cluster.Status.Message, cases[name].answer)
			}
			return nil
		})
		h.must(h.patchSpec(`null`))
		h.eventually("no entry is wrong after "+name, func() error {
			if cluster := h.clusterAPI(); cluster.Status.Message != "" || !cluster.Status.Settled() {
				return fmt.Errorf("the status has the message %q", cluster.Status.Message)
			}
			return nil
		})
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// patchSpec replaces the spec, and has the API server reject unknown fields, as kubectl does.
func (h *harness) patchSpec(spec string) error {
	strict := client.WithFieldValidation(h, metav1.FieldValidationStrict)
	return strict.Patch(h.Context(), h.clusterAPI(), client.RawPatch(types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec", "value": `+strings.Replace(spec, "null", "{}", 1)+`}]`)))
}
