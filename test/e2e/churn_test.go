// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImages_Changed100Times changes images.json between two releases 100 times, most of
// them before the installer has read it.
func TestImages_Changed100Times(t *testing.T) {
	h := newHarness(t)
	releases := [2]map[string]string{
		h.imagesOf(core("v1.0.0", configMap("first")), aws("v1.0.0")),
		h.imagesOf(core("v2.0.0", configMap("second")), aws("v2.0.0")),
	}
	h.writeImages(releases[0])
	h.start("4.22.0").settle("4.22.0-1", h)
	first, installed := h.version(), h.names()
	for i := range 100 {
		h.writeImages(releases[(i+1)%2])
		if i%10 == 0 {
			h.eventually("a version has the changed images", func() error {
				if now := h.version(); now.ContentID == first.ContentID {
					return fmt.Errorf("version %s has the content of the first version", now.Name)
				}
				return nil
			})
		}
	}
	h.within(2*patience, "only the last written release is installed", func() error {
		if now := h.version(); now.ContentID != first.ContentID {
			return fmt.Errorf("version %s has other content", now.Name)
		}
		return h.unsettled(h.version().Name)
	})
	last := h.version()
	if last.Revision < first.Revision+2 {
		t.Errorf("last version %s: want one for the changed images, and one for the original ones", last.Name)
	}
	if diff := cmp.Diff(installed, h.names()); diff != "" {
		t.Errorf("installed (-before +after):\n%s", diff)
	}
	h.owned(last.Name)
	if names := h.revisions(); !slices.Equal(names, []string{last.Name}) {
		t.Errorf("revision ConfigMaps: %v", names)
	}
	h.quiet()
}
