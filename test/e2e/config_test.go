// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
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

// configured creates one of OpenShift's configuration objects for the duration of the test.
func (h *harness) configured(object client.Object) {
	h.Helper()
	object.SetName("cluster")
	h.must(h.Create(h.Context(), object))
	h.Cleanup(func() { h.must(client.IgnoreNotFound(h.Delete(context.Background(), object))) })
}

func TestVariables_TLSProfileAndProxyReachProviders(t *testing.T) {
	h := newHarness(t)
	h.release(core("v1.0.0", flagged), aws("v1.0.0"))
	h.start("4.22.0").settle("4.22.0-1", h)
	if got := h.setting("tls"); !strings.Contains(got, "VersionTLS12") || !strings.Contains(got, ",TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,") {
		t.Errorf("TLS without a profile: %q", got)
	}
	if got := h.setting("level"); got != "--v=2" {
		t.Errorf("got %q for a variable without value", got)
	}
	if got := h.setting("kept"); got != "$$ $(POD) $${ESCAPED} ${ spaced } self.x == '${' && $" {
		t.Errorf("text without variables was changed to %q", got)
	}
	server := &configv1.APIServer{}
	server.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType, Modern: &configv1.ModernTLSProfile{}}
	h.configured(server)
	h.settled("4.22.0-2")
	if got := h.setting("tls"); got != "--tls-min-version=VersionTLS13 --tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256" {
		t.Errorf("TLS with profile Modern: %q", got)
	}

	proxy := &configv1.Proxy{}
	h.configured(proxy)
	proxy.Status = configv1.ProxyStatus{HTTPSProxy: "http://proxy.example.com:3128", NoProxy: ".svc"}
	h.must(h.Status().Update(t.Context(), proxy))
	h.quiet()
	h.settled("4.22.0-2") // no request uses the proxy
	h.release(core("v1.0.0", flagged+"  proxy: \"${HTTPS_PROXY} ${HTTP_PROXY} ${NO_PROXY}\"\n"), aws("v1.0.0"))
	h.settled("4.22.0-3")
	if got := h.setting("proxy"); got != "http://proxy.example.com:3128  .svc" {
		t.Errorf("proxy: %q", got)
	}
	proxy.Status.NoProxy = ".svc,.cluster.local"
	h.must(h.Status().Update(t.Context(), proxy))
	h.settled("4.22.0-4")
	h.release(core("v1.0.0", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: bad\n  namespace: openshift-cluster-api\ndata:\n  a: ${UNKNOWN_VARIABLE}\n"), aws("v1.0.0"))
	h.reports("VersionDegraded", "RenderFailed", "image cluster-api", "line ", "UNKNOWN_VARIABLE has no value and no default")
	h.settledOn("4.22.0-4")
}

// settledOn fails the test unless a version is current and desired.
func (h *harness) settledOn(version string) {
	h.Helper()
	cluster, err := h.clusterAPI()
	h.must(err)
	if s := cluster.Status; s.CurrentVersion != version || s.DesiredVersion != version {
		h.Errorf("current %s, desired %s, want %s", s.CurrentVersion, s.DesiredVersion, version)
	}
}

func TestImageOverrides_AreReportedAndReverted(t *testing.T) {
	h := newHarness(t)
	images := h.imagesOf(core("v1.0.0"), aws("v1.0.0"))
	h.writeImages(images)
	p := h.start("4.22.0").settle("4.22.0-1", h)
	released := h.version()
	fork := h.push(aws("v9.9.9"))
	h.must(h.override(
		v1alpha1.ImageOverride{Name: "cluster-api-provider-aws", Image: v1alpha1.ImageReference(fork)},
		v1alpha1.ImageOverride{Name: "mine", Image: v1alpha1.ImageReference(h.push(ipam("v1.0.0")))},
	))
	h.settled("4.22.0-2")
	h.reports("Upgradeable", "ImageOverrides", "cluster-api-provider-aws", "mine", "spec.imageOverrides")
	for _, component := range h.version().Components {
		if want := component.Name != "cluster-api"; component.Overridden != want {
			t.Errorf("component %+v: want overridden %t", component, want)
		}
	}
	if names := h.names(); !slices.Contains(names, "Deployment cluster-api-provider-ipam-controller-manager") {
		t.Errorf("the added provider is not installed: %v", names)
	}
	h.eventually("an event names the overrides", func() error {
		events := &corev1.EventList{}
		if err := h.List(t.Context(), events, client.InNamespace(corev1.NamespaceDefault)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Type == corev1.EventTypeWarning && event.InvolvedObject.Kind == "ClusterAPI" && strings.Contains(event.Message, "mine") {
				return nil
			}
		}
		return fmt.Errorf("none of %d events does", len(events.Items))
	})
	h.eventually("a metric names the overrides", func() error {
		metrics, err := get(p.Metrics + "/metrics")
		if err == nil && !strings.Contains(metrics, `capi_installer_image_override_info{image="`+fork+`",name="cluster-api-provider-aws"} 1`) {
			err = errors.New("no metric does")
		}
		return err
	})
	h.must(h.override())
	h.settled("4.22.0-3")
	if now := h.version(); now.ContentID != released.ContentID || now.Components[1].Overridden {
		t.Errorf("version without overrides: %+v, version of the release: %+v", now, released)
	}
	h.reports("Upgradeable", "AsExpected")
	if names := h.names(); slices.Contains(names, "Deployment cluster-api-provider-ipam-controller-manager") {
		t.Errorf("the added provider is still installed: %v", names)
	}
	h.owned("4.22.0-3")
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
	infrastructure := &configv1.Infrastructure{}
	infrastructure.Spec.PlatformSpec.Type = configv1.AWSPlatformType
	h.configured(infrastructure)
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
	server := &configv1.APIServer{}
	server.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType, Modern: &configv1.ModernTLSProfile{}}
	h.configured(server)
	h.settled("4.22.0-3")
	if got := h.setting("tls"); !strings.Contains(got, "VersionTLS13") {
		t.Errorf("TLS: %q", got)
	}
	p.terminate()
}
