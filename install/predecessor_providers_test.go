// SPDX-License-Identifier: Apache-2.0

//go:build providers

package install_test

import (
	"testing"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// The shipped bundles of core and AWS are adopted without a change.
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
	h := newHarness(t)
	h.replacesPredecessor(shipped["openshift-capi"], shipped["openshift-aws"])
}
