// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The aggregation controller applies the rules of a ClusterRole without checking that
// the role still exists. It recreates a role that is deleted at that moment, with the
// rules of the aggregated roles that still existed.
func TestAggregatedRole_AdoptedAfterRecreation(t *testing.T) {
	t.Parallel()
	for name, manifest := range map[string]string{
		"with rules":  `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: shared-aggregate}, rules: [{apiGroups: [example.com], resources: [shareds], verbs: [get]}]}`,
		"without any": `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: shared-aggregate}}`,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.release(core(shared...), aws())
			role := &unstructured.Unstructured{}
			h.must(decode(manifest, role))
			h.must(h.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(role), client.FieldOwner("clusterrole-aggregation-controller"), client.ForceOwnership))
			h.start("4.22.0")
			h.settled("4.22.0-1")
		})
	}
}
