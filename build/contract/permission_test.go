// SPDX-License-Identifier: Apache-2.0

package contract

import "testing"

// A rule with resourceNames allows neither list nor watch nor create, because they have no name. So it does not
// grant a permission for all objects.
func TestGrants_ResourceNames(t *testing.T) {
	rule := grant{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"*"}}
	named := rule
	named.ResourceNames = []string{"only"}
	if !(Grants{rule}).Allow("cluster.x-k8s.io", "clusters", "watch") {
		t.Error("a rule for all objects does not allow watch")
	}
	if (Grants{named}).Allow("cluster.x-k8s.io", "clusters", "watch") {
		t.Error("a rule for one object allows watch")
	}
}
