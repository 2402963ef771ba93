// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// versionOperator is a client with the identity of the cluster version operator, the only writer of transport
// ConfigMaps. When the test ends, it removes them.
func (h *harness) versionOperator() client.Client {
	h.Helper()
	config := rest.CopyConfig(h.Cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:openshift-cluster-version:default", Groups: []string{"system:masters", "system:authenticated"}}
	operator, err := client.New(config, client.Options{})
	h.must(err)
	h.inForce()
	h.Cleanup(func() {
		h.must(operator.DeleteAllOf(context.Background(), &corev1.ConfigMap{}, client.InNamespace(namespace), client.HasLabels{configmap.BundleLabel}))
	})
	return operator
}

// transported returns the ConfigMaps of a provider whose image is in the release, divided into slices.
func (h *harness) transported(provider fixture.Synthetic, release string, slices int) []*corev1.ConfigMap {
	h.Helper()
	image := h.push(provider)
	provider.ImageName = image
	bundle := provider.Bundle()
	bundle.Metadata.ImageName = ""
	written, err := configmap.ConfigMaps(bundle, release)
	h.must(err)
	text := written[0].Data[configmap.Manifests]
	var configMaps []*corev1.ConfigMap
	for i := range slices {
		part := written[0].DeepCopy()
		part.Name = fmt.Sprintf("%s-%02d", provider.Name, i)
		part.Data[configmap.Manifests] = text[len(text)*i/slices : len(text)*(i+1)/slices]
		part.Annotations[configmap.Slice], part.Annotations[configmap.Slices] = fmt.Sprint(i), fmt.Sprint(slices)
		configMaps = append(configMaps, part)
	}
	return configMaps
}

// write replaces the existing ConfigMaps.
func put(h *harness, operator client.Client, configMaps ...*corev1.ConfigMap) {
	h.Helper()
	for _, configMap := range configMaps {
		h.must(client.IgnoreNotFound(operator.Delete(h.Context(), configMap.DeepCopy())))
		h.must(operator.Create(h.Context(), configMap.DeepCopy()))
	}
}

func TestTransport_MoveToImagesWritesNothing(t *testing.T) {
	h := newHarness(t)
	operator := h.versionOperator()
	coreMaps, awsMaps := h.transported(core("v1.0.0"), "4.22.0", 1), h.transported(aws("v1.0.0"), "4.22.0", 3)
	images := h.imagesOf(core("v1.0.0"))
	h.writeImages(images)
	p := h.start("4.22.0")
	h.reports("VersionDegraded", "ComponentMissing", "type infrastructure")
	put(h, operator, awsMaps[0], awsMaps[2])
	h.reports("VersionDegraded", "TransportIncomplete", "cluster-api-provider-aws-00", "missing slices 1 of 3")
	put(h, operator, awsMaps[1])
	h.settled("4.22.0-1") // one provider from an image, one from ConfigMaps
	version := h.version()
	if version.Components[0].Image == "" || !slices.Equal(version.Components[1].ConfigMaps, []string{"cluster-api-provider-aws-00", "cluster-api-provider-aws-01", "cluster-api-provider-aws-02"}) {
		t.Errorf("components: %+v", version.Components)
	}
	h.installedOnce(append(providerObjects("cluster-api", "apicluster"), providerObjects("cluster-api-provider-aws", "awscluster")...))
	p.terminate()

	h.writeImages(map[string]string{}) // the other one from ConfigMaps too, and both of the next release
	for _, configMap := range append(coreMaps, awsMaps...) {
		configMap.Annotations[configmap.ReleaseVersion] = "4.22.1"
	}
	before := h.fingerprints()
	put(h, operator, append(coreMaps, awsMaps...)...)
	p = h.start("4.22.1").settle("4.22.1-2", h)
	h.untouched(before)
	if version := h.version(); version.InstalledAs != "4.22.0-1" || len(version.Components[0].ConfigMaps) != 1 {
		t.Errorf("version 2: %+v", version)
	}
	p.terminate()

	h.writeImages(h.imagesOf(core("v1.0.0"), aws("v1.0.0"))) // to images, while the ConfigMaps of the previous release still exist
	h.start("4.22.2").settle("4.22.2-3", h)
	h.untouched(before)
	version = h.version()
	if version.InstalledAs != "4.22.0-1" || version.Components[0].Image == "" || version.Components[1].Image == "" {
		t.Errorf("version 3: %+v", version)
	}
	h.release(core("v2.0.0"), aws("v1.0.0", configMap("added")))
	h.settled("4.22.2-4") // later releases use images only
	h.owned("4.22.2-4")
	h.quiet()
}

const transportGuard = "openshift-capi-installer-transport"

func guard(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("admissionregistration.k8s.io/v1")
	object.SetKind(kind)
	object.SetName(transportGuard)
	return object
}

// inForce waits until the installer uses transport ConfigMaps that are created now.
func (h *harness) inForce() {
	h.Helper()
	binding := guard("ValidatingAdmissionPolicyBinding")
	h.must(h.Get(context.Background(), client.ObjectKeyFromObject(binding), binding))
	time.Sleep(time.Until(binding.GetCreationTimestamp().Add(4 * time.Second)))
}
