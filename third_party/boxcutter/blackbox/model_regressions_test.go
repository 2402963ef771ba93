// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The tests in this file are reduced random sequences that have failed.

func TestTeardown_OwnerlessLeavesControlledObjects(t *testing.T) {
	b := newEnv(t, envOptions{ownership: ownerless})
	taken, kept := b.configMap("taken", "red"), b.configMap("kept", "red")
	revision := b.revision(1, nil, nil, phase("only", taken, kept))
	b.install(revision)

	other := b.createOwner("other")
	now := b.get(taken)
	now.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ServiceAccount", Name: other.GetName(), UID: other.GetUID(), Controller: ptr.To(true),
	}})
	b.must(b.user.Update(b.Context(), now))
	b.catchUp(revision)

	b.eventually("the revision is gone", func() bool { return b.teardown(revision).IsComplete() })
	if b.get(taken) == nil {
		t.Error("an object of another owner was deleted")
	}
	if b.get(kept) != nil {
		t.Error("an object of the revision still exists")
	}
}
