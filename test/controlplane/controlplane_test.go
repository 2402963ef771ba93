// SPDX-License-Identifier: Apache-2.0

package controlplane

import "testing"

func TestMain(m *testing.M) { Main(m) }

func TestShared(t *testing.T) {
	c := Shared(t)
	t.Log(c.Namespace(t))
}
