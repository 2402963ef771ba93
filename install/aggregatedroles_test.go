// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controller that aggregates ClusterRoles does not look whether a role is still
// there when it applies the rules of it: one that is deleted in that moment is made
// again, with the rules that were left when the roles that it is made of went.
func TestAnAggregatedClusterRoleThatItsControllerHasMadeAgainIsTakenOver(t *testing.T) {
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

func TestAClusterRoleOfSomebodyElseIsNotTakenOver(t *testing.T) {
	h := newHarness(t)
	h.add("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: shared-aggregate}, rules: []}")
	h.release(core(shared...), aws())
	h.start("4.22.0")
	h.reports("InstallerDegraded", "Collision", "ClusterRole shared-aggregate")
}
