// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// coreWith returns the objects of a core provider that matter to Runtime Extensions.
func coreWith(t *testing.T, hooks, gates string) []*unstructured.Unstructured {
	t.Helper()
	crd := read(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: extensionconfigs.runtime.cluster.x-k8s.io}, spec: {group: runtime.cluster.x-k8s.io, names: {kind: ExtensionConfig}, versions: [{name: v1beta2, served: true, storage: true}]}}")
	if hooks != "" {
		crd.SetAnnotations(map[string]string{v1alpha1.RuntimeHooksAnnotation: hooks})
	}
	return []*unstructured.Unstructured{crd, read(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: capi, namespace: providers}, spec: {template: {spec: {containers: [{name: manager, args: [--v=2, '"+gates+"']}]}}}}")}
}

func TestCheck_RuntimeHooks(t *testing.T) {
	t.Parallel()
	const (
		v1, on, off = "hooks.runtime.cluster.x-k8s.io/v1alpha1", "--feature-gates=A=true,RuntimeSDK=true", "--feature-gates=A=true,RuntimeSDK=false"
		unlisted    = "ExtensionConfig hooks: Cluster API would no longer call handlers create (BeforeClusterCreate of " + v1 + "), delete (BeforeClusterDelete of " + v1 +
			"): annotation capi-operator.openshift.io/runtime-hooks of its CRD does not list the hooks; register a server with listed hooks, or delete the ExtensionConfig"
		disabled = "ExtensionConfig hooks: Cluster API would no longer call handlers create (BeforeClusterCreate of " + v1 + "), delete (BeforeClusterDelete of " + v1 +
			"): feature gate RuntimeSDK of Deployment capi is disabled; enable it in spec.components, or delete the ExtensionConfig"
		one = "ExtensionConfig hooks: Cluster API would no longer call handlers create (BeforeClusterCreate of " + v1 +
			"): annotation capi-operator.openshift.io/runtime-hooks of its CRD does not list the hooks; register a server with listed hooks, or delete the ExtensionConfig"
	)
	config := read(t, "{apiVersion: runtime.cluster.x-k8s.io/v1beta2, kind: ExtensionConfig, metadata: {name: hooks}, status: {handlers: ["+
		"{name: create, requestHook: {apiVersion: "+v1+", hook: BeforeClusterCreate}}, {name: delete, requestHook: {apiVersion: "+v1+", hook: BeforeClusterDelete}}]}}")
	unreadable := apierrors.NewInternalError(errors.New("conversion webhook failed"))
	for name, test := range map[string]struct {
		before, now []*unstructured.Unstructured
		beside      []*unstructured.Unstructured // unchanged objects of the release
		configs     []*unstructured.Unstructured
		listing     error
		want        []string
	}{
		"nothing is known":                      {before: coreWith(t, "", ""), now: coreWith(t, "", ""), configs: []*unstructured.Unstructured{config}},
		"the version is listed":                 {now: coreWith(t, "other/v1 "+v1, on), configs: []*unstructured.Unstructured{config}},
		"each hook is listed":                   {now: coreWith(t, v1+"/BeforeClusterCreate "+v1+"/BeforeClusterDelete", on), configs: []*unstructured.Unstructured{config}},
		"the version is not listed":             {before: coreWith(t, v1, on), now: coreWith(t, "hooks.runtime.cluster.x-k8s.io/v1beta1", on), configs: []*unstructured.Unstructured{config}, want: []string{unlisted}},
		"a hook is not listed":                  {before: coreWith(t, "", on), now: coreWith(t, v1+"/BeforeClusterDelete", on), configs: []*unstructured.Unstructured{config}, want: []string{one}},
		"it was not listed before either":       {before: coreWith(t, "other/v1", on), now: coreWith(t, "other/v1", on), configs: []*unstructured.Unstructured{config}},
		"the feature gate is disabled":          {before: coreWith(t, "", on), now: coreWith(t, "", off), configs: []*unstructured.Unstructured{config}, want: []string{disabled}},
		"the feature gate was disabled before":  {before: coreWith(t, "", off), now: coreWith(t, "", off), configs: []*unstructured.Unstructured{config}},
		"an adopted core provider":              {now: coreWith(t, "", off), configs: []*unstructured.Unstructured{config}, want: []string{disabled}},
		"no ExtensionConfig":                    {before: coreWith(t, "", on), now: coreWith(t, "", off)},
		"an ExtensionConfig that is changed":    {before: append(coreWith(t, "", on), config), now: append(coreWith(t, "", off), config), configs: []*unstructured.Unstructured{config}},
		"an ExtensionConfig that is removed":    {before: append(coreWith(t, "", on), config), now: coreWith(t, "", off), configs: []*unstructured.Unstructured{config}},
		"an ExtensionConfig that is unchanged":  {before: append(coreWith(t, "", on), config), now: coreWith(t, "", off), beside: []*unstructured.Unstructured{config}, configs: []*unstructured.Unstructured{config}, want: []string{disabled}},
		"ExtensionConfigs cannot be converted":  {before: coreWith(t, "", on), now: coreWith(t, "", off), listing: unreadable},
		"an unchanged core provider is no risk": {before: coreWith(t, "", on), now: []*unstructured.Unstructured{read(t, deployment("", "a"))}, beside: coreWith(t, "", on), configs: []*unstructured.Unstructured{config}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{objects: coreWith(t, "", ""), listed: test.configs, listing: test.listing}
			for _, obj := range c.objects {
				obj.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
			}
			found, _, err := Check(t.Context(), c, Release{
				Namespace: v1alpha1.OpenShiftNamespaces.Operator, Version: "1.0.0", InstalledObjects: revision.ByIdentity([]revision.Phase{{Objects: test.before}}),
				Phases: []revision.Phase{{Name: "x", Objects: test.now}}, Unchanged: []revision.Phase{{Objects: test.beside}},
			})
			var got []string
			for _, finding := range found {
				if finding.Risk == v1alpha1.UncalledRuntimeHook && finding.Blocks() {
					got = append(got, finding.Message)
				}
			}
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("\n got %q, %v\nwant %q", got, err, test.want)
			}
		})
	}
}
