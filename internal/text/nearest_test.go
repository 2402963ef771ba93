// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"testing"

	"github.com/capi-installer/capi-installer/internal/text"
)

func TestNearest_FindsTypingErrors(t *testing.T) {
	names := []string{"machines.cluster.x-k8s.io", "clusters.cluster.x-k8s.io", "clusterclasses.cluster.x-k8s.io", "awsmachines.infrastructure.cluster.x-k8s.io"}
	for word, want := range map[string]string{
		"cluster.cluster.x-k8s.io":                    "clusters.cluster.x-k8s.io",
		"clustres.cluster.x-k8s.io":                   "clusters.cluster.x-k8s.io",
		"machines.cluster.x-k8s.i":                    "machines.cluster.x-k8s.io",
		"certificates.cert-manager.x":                 "",
		"gcpmachines.infrastructure.cluster.x-k8s.io": "",
		"": "",
	} {
		if got := text.Nearest(word, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}
