// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

// unreadable waits until the installer reports that it cannot read an image, with a reason.
func (h *harness) unreadable(why string) {
	h.Helper()
	h.eventually("the installer reports "+why, func() error {
		cluster, err := h.clusterAPI()
		if err != nil {
			return err
		}
		for _, kind := range []string{"VersionProgressing", "VersionDegraded"} {
			if c := meta.FindStatusCondition(cluster.Status.Conditions, kind); c != nil && strings.Contains(c.Message, why) {
				return nil
			}
		}
		return fmt.Errorf("%s", h.conditions())
	})
}

func TestMirrorSet_ReplacesAnUnreachableRegistry(t *testing.T) {
	h := newHarness(t)
	providers := []fixture.Synthetic{core("v1.0.0"), aws("v1.0.0")}
	h.release(providers...)
	ca, err := registry.NewCA()
	h.must(err)
	mirror := registry.New(t, registry.Options{Address: "127.0.0.2:0", CA: ca})
	for _, provider := range providers {
		image, err := pack.Pack(nil, provider.Bundle())
		h.must(err)
		mirror.MustPush(t, "mirrored/"+provider.Name, image)
	}
	mirror.Reset()
	h.must(h.Registry.Close())
	h.start("4.22.0")
	h.unreadable("connection refused")

	trusted := &corev1.ConfigMap{Data: map[string]string{strings.Replace(mirror.Host(), ":", "..", 1): string(ca.PEM())}}
	trusted.Namespace, trusted.Name = "openshift-config", "registry-cas"
	h.during(trusted)
	config := &configv1.Image{}
	config.Name, config.Spec.AdditionalTrustedCA.Name = "cluster", trusted.Name
	h.during(config)
	set := &configv1.ImageDigestMirrorSet{}
	set.Name = "release"
	set.Spec.ImageDigestMirrors = []configv1.ImageDigestMirrors{{
		Source: h.Registry.Host() + "/test", Mirrors: []configv1.ImageMirror{configv1.ImageMirror(mirror.Host() + "/mirrored")}, MirrorSourcePolicy: configv1.NeverContactSource,
	}}
	h.during(set)
	h.settled("4.22.0-1")
	if len(mirror.Paths()) == 0 {
		t.Error("no requests to the mirror")
	}
	cluster, err := h.clusterAPI()
	h.must(err)
	for _, component := range cluster.Status.Versions[0].Components {
		if component.Image != "" && !strings.HasPrefix(string(component.Image), h.Registry.Host()+"/") {
			t.Errorf("component %s has the reference %s of its mirror", component.Name, component.Image)
		}
	}
}
