// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func TestScopeOf(t *testing.T) {
	for name, test := range map[string]struct {
		version, current, desired string
		want                      scope
	}{
		"a version that is rolled out":         {"4.22.0-2", "4.22.0-1", "4.22.0-2", rollout},
		"the first version":                    {"4.22.0-1", "", "4.22.0-1", rollout},
		"the current version during a rollout": {"4.22.0-1", "4.22.0-1", "4.22.0-2", maintenance},
		"the settled version":                  {"4.22.0-1", "4.22.0-1", "4.22.0-1", maintenance},
		"a superseded version":                 {"4.22.0-2", "4.22.0-1", "4.22.0-3", controlledOnly},
	} {
		t.Run(name, func(t *testing.T) {
			got := scopeOf(v1alpha1.Version{Name: test.version}, v1alpha1.ClusterAPIStatus{CurrentVersion: test.current, DesiredVersion: test.desired})
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestFormerlyUnmanaged(t *testing.T) {
	versions := []v1alpha1.Version{{Revision: 1, UnmanagedCRDs: []string{"a", "b"}}, {Revision: 2, UnmanagedCRDs: []string{"a"}}}
	got := formerlyUnmanaged(versions, []string{"b"})
	if len(got) != 1 || got["a"] != 2 {
		t.Errorf("got %v, want only a, of version 2", got)
	}
}

func TestDeletionPolicy_CoversEachCRD(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "cluster.x-k8s.io", "names": map[string]any{"plural": "machines"},
	}}}
	policy, binding := deletionPolicy("4.22.0-1", "id", []*unstructured.Unstructured{crd})
	rules := policy.Spec.MatchConstraints.ResourceRules
	if len(rules) != 2 || rules[1].APIGroups[0] != "cluster.x-k8s.io" || rules[1].Resources[0] != "machines" {
		t.Errorf("unexpected rules %v", rules)
	}
	for _, rule := range rules {
		if rule.APIVersions[0] != "*" || len(rule.Operations) != 1 || rule.Operations[0] != admissionv1.Create {
			t.Errorf("the rule %v does not cover the creation in every version, and nothing else", rule)
		}
	}
	if *policy.Spec.FailurePolicy != admissionv1.Fail || len(binding.Spec.ValidationActions) != 1 || binding.Spec.ValidationActions[0] != admissionv1.Deny {
		t.Errorf("failure policy %s, actions %v, want Fail and Deny", *policy.Spec.FailurePolicy, binding.Spec.ValidationActions)
	}
	if binding.Spec.PolicyName != policy.Name || policy.Spec.Validations[0].Expression != "false" {
		t.Errorf("the policy %s is not bound, or does not reject: %v", policy.Name, policy.Spec.Validations)
	}
}
