// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pkg.package-operator.run/boxcutter/machinery"
)

func TestReconcile_SecretStringData(t *testing.T) {
	c := newCluster(t)
	secret := object(t, `{apiVersion: v1, kind: Secret, metadata: {name: keys, namespace: default}, data: {a: QQ==, b: Qg==}, stringData: {b: x, c: "y"}}`)
	before := secret.DeepCopy()
	want := map[string]any{"a": "QQ==", "b": "eA==", "c": "eQ=="}
	healthy := func(action machinery.Action) {
		t.Helper()
		if got := c.reconcile(t, 1, secret).Action(); got != action {
			t.Errorf("action is %s, want %s", got, action)
		}
		if diff := cmp.Diff(want, c.get(t, secret).Object["data"]); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}
	}
	healthy(machinery.ActionCreated)
	healthy(machinery.ActionIdle)
	c.edit(t, secret, `{"data":{"b":"RVZJTA=="}}`)
	healthy(machinery.ActionRecovered)
	healthy(machinery.ActionIdle)
	if diff := cmp.Diff(before, secret); diff != "" {
		t.Errorf("the caller's object has changed (-want +got):\n%s", diff)
	}
}
