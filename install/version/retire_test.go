// SPDX-License-Identifier: Apache-2.0

package version

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
)

// The entry of a version whose ConfigMap is gone is dropped, except the entries of the current and the desired version, also if another version
// became the desired one since the ConfigMaps were read.
func TestDropEntries(t *testing.T) {
	cluster := clusterAPI()
	for i, name := range []string{"4.22.0-1", "4.22.0-2", "4.22.0-3"} {
		cluster.Status.Versions = append(cluster.Status.Versions, v1alpha1.Version{Name: name, Revision: int64(i + 1)})
	}
	cluster.Status.CurrentVersion, cluster.Status.DesiredVersion = "4.22.0-2", "4.22.0-2"
	server := cluster.DeepCopy()
	server.Status.DesiredVersion = "4.22.0-3"
	r := reconcilerWith(t, server)
	r.Reporter = &status.Reporter{Client: r.Client, Live: r.Client}
	if err := (retirement{r.Client, r.Reporter}).dropEntries(t.Context(), cluster, []corev1.ConfigMap{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(server), server); err != nil {
		t.Fatal(err)
	}
	if got := server.Status.Versions; len(got) != 2 || got[0].Name != "4.22.0-2" || got[1].Name != "4.22.0-3" {
		t.Errorf("entries are %v, want those of the current and of the desired version", got)
	}
}
