// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// flagged is the manifest of a ConfigMap with the flags of OpenShift's providers.
const flagged = `apiVersion: v1
kind: ConfigMap
metadata: {name: flags, namespace: openshift-cluster-api}
data:
  tls: "--tls-min-version=${TLS_MIN_VERSION} --tls-cipher-suites=${TLS_CIPHER_SUITES}"
  level: "--v=${LOGLEVEL:=2}"
  kept: "$$ $(POD) $${ESCAPED} ${ spaced } self.x == '${' && $"
`

// setting returns one of the flags.
func (h *harness) setting(key string) string {
	h.Helper()
	flags := &corev1.ConfigMap{}
	h.must(h.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "flags"}, flags))
	return flags.Data[key]
}

func TestOpenShiftAPIs_AreUsedOnceTheyExist(t *testing.T) {
	h := newVanillaHarness(t)
	h.release(core("v1.0.0", flagged), aws("v1.0.0"))
	h.start("4.22.0", "--platform=AWS").settle("4.22.0-1", h).terminate()
	h.release(core("v2.0.0", flagged), aws("v2.0.0"))
	p := h.start("4.22.0") // the platform is unknown
	h.reports("VersionProgressing", "PlatformUnknown")
	crds, err := fixture.OpenShiftCRDs(t.Context())
	h.must(err)
	h.must(fixture.InstallCRDs(t.Context(), h.Cluster.Config, crds))
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	infrastructure.Spec.PlatformSpec.Type = configv1.AWSPlatformType
	h.during(infrastructure)
	infrastructure.Status = configv1.InfrastructureStatus{
		PlatformStatus:       &configv1.PlatformStatus{Type: configv1.AWSPlatformType},
		ControlPlaneTopology: configv1.HighlyAvailableTopologyMode, InfrastructureTopology: configv1.HighlyAvailableTopologyMode,
	}
	h.must(h.Status().Update(t.Context(), infrastructure))
	h.settled("4.22.0-2")
	h.eventually("the ClusterOperator reports too", func() error {
		operator := &configv1.ClusterOperator{}
		if err := h.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator); err != nil {
			return err
		}
		for _, condition := range operator.Status.Conditions {
			if condition.Type == configv1.OperatorAvailable && condition.Status == configv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", operator.Status.Conditions)
	})
	server := &configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	server.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType, Modern: &configv1.ModernTLSProfile{}}
	h.during(server)
	h.settled("4.22.0-3")
	if got := h.setting("tls"); !strings.Contains(got, "VersionTLS13") {
		t.Errorf("TLS: %q", got)
	}
	p.terminate()
}
