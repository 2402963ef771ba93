// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"testing"

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
		equal(t, "data", want, c.get(t, secret).Object["data"])
	}
	healthy(machinery.ActionCreated)
	healthy(machinery.ActionIdle)
	c.edit(t, secret, `{"data":{"b":"RVZJTA=="}}`)
	healthy(machinery.ActionRecovered)
	healthy(machinery.ActionIdle)
	equal(t, "the caller's object has changed", before, secret)
}
