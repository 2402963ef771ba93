// SPDX-License-Identifier: Apache-2.0

//go:build providers

package install_test

import (
	"context"
	"testing"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// The shipped bundles of core and of each platform are adopted without a change.
func TestPredecessor_ShippedBundlesReplacedInPlace(t *testing.T) {
	rendered, err := fixture.RenderedProviders()
	if err != nil {
		t.Fatal(err)
	}
	shipped := map[string]provider{}
	for _, r := range rendered {
		shipped[r.Folder] = provider{name: r.Name, kind: string(r.Type), platform: r.Platform, imageName: r.ImageName, manifests: []string{string(r.Components)}}
	}
	if len(shipped) == 0 {
		t.Fatal("PROVIDERS is not set")
	}
	for platform, folder := range map[configv1.PlatformType]string{configv1.AWSPlatformType: "openshift-aws", configv1.GCPPlatformType: "openshift-gcp", configv1.BareMetalPlatformType: "openshift-metal3"} {
		t.Run(string(platform), func(t *testing.T) {
			h := newHarness(t)
			h.must(h.SetPlatform(t.Context(), platform))
			h.Cleanup(func() { h.must(h.SetPlatform(context.Background(), configv1.AWSPlatformType)) })
			h.replacesPredecessor(shipped["openshift-capi"], shipped[folder])
		})
	}
}
