// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/object"
)

const crd = "apiextensions.k8s.io/v1/CustomResourceDefinition"

// describePhases lists each phase with the kinds and names of its objects.
func describePhases(phases []Phase) []string {
	var out []string
	for _, phase := range phases {
		line := phase.Name + ":"
		for _, obj := range phase.Objects {
			line += " " + obj.GetKind() + "/" + obj.GetName()
		}
		out = append(out, line)
	}
	return out
}

func operandOf(name string, providerType extractor.ProviderType, objects ...*unstructured.Unstructured) operand.Operand {
	return operand.Operand{Name: name, Type: providerType, Objects: objects}
}

func withParameters(policy *unstructured.Unstructured) *unstructured.Unstructured {
	policy.Object["spec"] = map[string]any{"paramKind": map[string]any{"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure"}}
	return policy
}

func TestPhases(t *testing.T) {
	policy, binding := "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding"
	webhook := "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration"
	tests := map[string]struct {
		operands  []operand.Operand
		unmanaged []string
		want      []string
	}{
		"each component has its CRDs before its other objects": {
			operands: []operand.Operand{
				operandOf("core", extractor.Core, newObject("v1/Service", "a", "s"), newObject(crd, "", "x"), newObject(crd, "", "b")),
				operandOf("aws", extractor.Infrastructure, newObject("v1/Service", "a", "t"), newObject(crd, "", "y")),
			},
			want: []string{
				"core-crds: CustomResourceDefinition/x CustomResourceDefinition/b", "core: Service/s",
				"aws-crds: CustomResourceDefinition/y", "aws: Service/t",
			},
		},
		"objects are ranked, and stay in the order of the manifests within a rank": {
			operands: []operand.Operand{operandOf("core", extractor.Core,
				newObject(webhook, "", "webhook"), newObject("apps/v1/Deployment", "a", "deployment"), newObject("batch/v1/Job", "a", "job"), newObject("policy/v1/PodDisruptionBudget", "a", "z"),
				newObject(binding, "", "binding"), newObject(policy, "", "policy"), newObject("v1/Service", "a", "service"), newObject("v1/Secret", "a", "secret"), newObject("v1/ConfigMap", "a", "config"),
				newObject("rbac.authorization.k8s.io/v1/RoleBinding", "a", "role-binding"), newObject("rbac.authorization.k8s.io/v1/ClusterRole", "", "role"), newObject("v1/ServiceAccount", "a", "account"),
				newObject("v1/Namespace", "", "a"), newObject("example.com/v1/Service", "a", "y"))},
			want: []string{"core: Namespace/a ServiceAccount/account ClusterRole/role RoleBinding/role-binding Secret/secret ConfigMap/config Service/service " +
				"ValidatingAdmissionPolicy/policy ValidatingAdmissionPolicyBinding/binding PodDisruptionBudget/z Service/y Deployment/deployment Job/job ValidatingWebhookConfiguration/webhook"},
		},
		"a policy with parameters is in the phase of the CRDs, because its binding is rejected while the policy does not exist": {
			operands: []operand.Operand{operandOf("aws", extractor.Infrastructure,
				newObject("v1/Service", "a", "s"), newObject(binding, "", "binding"), withParameters(newObject(policy, "", "policy")), newObject(policy, "", "other"), newObject(crd, "", "x"))},
			want: []string{"aws-crds: CustomResourceDefinition/x ValidatingAdmissionPolicy/policy", "aws: Service/s ValidatingAdmissionPolicy/other ValidatingAdmissionPolicyBinding/binding"},
		},
		"a mutating policy with parameters is too": {
			operands: []operand.Operand{operandOf("aws", extractor.Infrastructure,
				newObject("v1/Service", "a", "s"), withParameters(newObject("admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy", "", "policy")), withParameters(newObject("example.com/v1/ValidatingAdmissionPolicy", "", "other")))},
			want: []string{"aws-crds: MutatingAdmissionPolicy/policy", "aws: Service/s ValidatingAdmissionPolicy/other"},
		},
		"unmanaged CRDs are only checked, before everything else": {
			operands: []operand.Operand{
				operandOf("core", extractor.Core, newObject(crd, "", "clusters.x"), newObject(crd, "", "machines.x"), newObject("v1/ConfigMap", "a", "clusters.x")),
				operandOf("aws", extractor.Infrastructure, newObject(crd, "", "awsclusters.x")),
			},
			unmanaged: []string{"awsclusters.x", "clusters.x", "absent.x"},
			want:      []string{"preflight: CompatibilityRequirement/clusters.x-6 CompatibilityRequirement/awsclusters.x-6", "core-crds: CustomResourceDefinition/machines.x", "core: ConfigMap/clusters.x"},
		},
		"a phase without objects is omitted": {
			operands: []operand.Operand{operandOf("a", extractor.Core), operandOf("b", extractor.IPAM, newObject(crd, "", "x"))}, want: []string{"b-crds: CustomResourceDefinition/x"},
		},
		"an empty set has no phases": {},
		"components with one name differ by their type": {
			operands: []operand.Operand{
				operandOf("kubeadm", extractor.Bootstrap, newObject("v1/Service", "a", "s")),
				operandOf("kubeadm", extractor.ControlPlane, newObject("v1/Service", "a", "t")),
			},
			want: []string{"kubeadm: Service/s", "controlplane-kubeadm: Service/t"},
		},
		"no component has the name of another phase": {
			operands: []operand.Operand{
				operandOf("preflight", extractor.IPAM, newObject("v1/Service", "a", "s")),
				operandOf("x", extractor.Addon, newObject("v1/Service", "a", "t")),
				operandOf("x-crds", extractor.Addon, newObject("v1/Service", "a", "u")),
			},
			want: []string{"ipam-preflight: Service/s", "x: Service/t", "addon-x-crds: Service/u"},
		},
		"three names of one label": {
			operands: []operand.Operand{
				operandOf("a.b", extractor.Addon, newObject("v1/Service", "a", "s")),
				operandOf("a-b", extractor.Addon, newObject("v1/Service", "a", "t")),
				operandOf("A.B", extractor.Addon, newObject("v1/Service", "a", "u")),
			},
			want: []string{"a-b: Service/s", "addon-a-b: Service/t", "addon-a-b-c1fca98b: Service/u"},
		},
		"names become labels": {
			operands: []operand.Operand{
				operandOf("Provider.Example_1", extractor.Addon, newObject("v1/Service", "a", "s")),
				operandOf("3scale", extractor.Addon, newObject("v1/Service", "a", "t")),
				operandOf(strings.Repeat("long-", 20), extractor.Addon, newObject(crd, "", "u")),
			},
			want: []string{"provider-example-1: Service/s", "c-3scale: Service/t", "long-long-long-long-long-long-long-long-long-long-cd9ddee2-crds: CustomResourceDefinition/u"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			phases, err := Phases("4.22.3-6", 6, operand.Set{Operands: test.operands}, test.unmanaged)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, describePhases(phases)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompatibilityRequirement_WholeCRD(t *testing.T) {
	original := newObject(crd, "", "clusters.cluster.x-k8s.io")
	original.Object["spec"] = map[string]any{"group": "cluster.x-k8s.io", "scope": "Namespaced", "description": "next\u0085line, \x7f, \t"}
	set := operand.Set{Operands: []operand.Operand{operandOf("core", extractor.Core, original)}}
	phases, err := Phases("4.22.3-6", 6, set, []string{original.GetName()})
	if err != nil {
		t.Fatal(err)
	}
	got := phases[0].Objects[0].Object
	data, _, _ := unstructured.NestedString(got, "spec", "compatibilitySchema", "customResourceDefinition", "data")
	var held map[string]any
	if err := yaml.UnmarshalStrict([]byte(data), &held); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(original.Object, held); diff != "" {
		t.Errorf("CRD in the requirement (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"apiVersion": "apiextensions.openshift.io/v1alpha1",
		"kind":       "CompatibilityRequirement",
		"metadata":   map[string]any{"name": "clusters.cluster.x-k8s.io-6"},
		"spec": map[string]any{
			"compatibilitySchema": map[string]any{
				"customResourceDefinition": map[string]any{"type": "YAML", "data": data},
				"requiredVersions":         map[string]any{"defaultSelection": "AllServed"},
			},
			"customResourceDefinitionSchemaValidation": map[string]any{"action": "Deny"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRequirementName(t *testing.T) {
	long := strings.Repeat("a.", 125) + "aaa"
	name := RequirementName(long, 6)
	if problems := validation.IsDNS1123Subdomain(name); problems != nil || !strings.HasSuffix(name, "-6") {
		t.Errorf("%s: %v", name, problems)
	}
}

func TestPhases_UnmanagedCRDTooLarge(t *testing.T) {
	large := newObject(crd, "", "clusters.x")
	large.Object["spec"] = strings.Repeat("a", maxCRDData)
	set := operand.Set{Operands: []operand.Operand{operandOf("core", extractor.Core, large)}}
	_, err := Phases("4.22.3-6", 6, set, []string{"clusters.x"})
	if err == nil || !strings.Contains(err.Error(), "version 4.22.3-6: CustomResourceDefinition clusters.x cannot be unmanaged: it has ") {
		t.Errorf("unexpected error %v", err)
	}
}

// Every object is in exactly one phase, except unmanaged CRDs: they have a
// CompatibilityRequirement instead; names are unique labels; objects are in apply
// order.
func TestPhases_EveryObjectOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := anySet().Draw(t, "set")
		identify(set)
		unmanaged := rapid.SliceOf(rapid.SampledFrom([]string{"object-0", "object-1", "object-2", "object-3"})).Draw(t, "unmanaged")
		before := describeSet(set)
		phases, err := Phases("4.22.3-6", 6, set, unmanaged)
		if err != nil {
			t.Fatal(err)
		}
		checkNames(t, phases)
		var got []string
		for _, phase := range phases {
			if len(phase.Objects) == 0 {
				t.Fatalf("phase %s is empty", phase.Name)
			}
			if !slices.IsSortedFunc(phase.Objects, object.CompareRank[*unstructured.Unstructured]) {
				t.Fatalf("objects of phase %s are out of order", phase.Name)
			}
			for _, obj := range phase.Objects {
				name := obj.GetName()
				if obj.GetKind() == "CompatibilityRequirement" {
					name = strings.TrimSuffix(name, "-6")
				}
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(before, got); diff != "" {
			t.Fatalf("objects (-in the set +in phases):\n%s", diff)
		}
	})
}

// identify gives each object of a set a unique name.
func identify(set operand.Set) {
	number := 0
	for _, component := range set.Operands {
		for _, obj := range component.Objects {
			obj.SetName(fmt.Sprintf("object-%d", number))
			number++
		}
	}
}

func describeSet(set operand.Set) []string {
	var out []string
	for _, component := range set.Operands {
		for _, obj := range component.Objects {
			out = append(out, obj.GetName())
		}
	}
	slices.Sort(out)
	return out
}

func checkNames(t *rapid.T, phases []Phase) {
	seen := map[string]bool{}
	for _, phase := range phases {
		if problems := validation.IsDNS1035Label(phase.Name); problems != nil {
			t.Fatalf("phase %s: %v", phase.Name, problems)
		}
		if seen[phase.Name] {
			t.Fatalf("two phases are named %s", phase.Name)
		}
		seen[phase.Name] = true
	}
}
