// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	"github.com/capi-installer/capi-installer/test/controlplane"
)

func TestMain(m *testing.M) { controlplane.Main(m) }
