// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// TestPickPlatform: the expected choices are the ones of skopeo 1.20 and containers/image 5.42 (ChooseInstance); "-" is none.
// For the zero platform, images for other architectures of linux are better than none.
func TestPickPlatform(t *testing.T) {
	for _, test := range []struct {
		entries   string // platforms; "none" has no platform, a "!" marks another media type than an image's
		arm, zero string // the position chosen for linux/arm64, and for the zero platform on amd64
	}{
		{"linux/arm64 linux/" + runtime.GOARCH, "0", "1"},
		{"linux/" + runtime.GOARCH + " linux/arm64", "1", "0"},
		{"none", "0", "0"},
		{"none linux/arm64", "1", "0"},
		{"linux/arm64 none", "0", "1"},
		{"none none", "0", "0"},
		{"windows/arm64 none", "1", "1"},
		{"linux/s390x none", "1", "1"},
		{"linux/arm64/v8", "0", "0"},
		{"linux/arm64/v8 linux/arm64", "1", "0"},
		{"linux/arm64/v9", "-", "0"},
		{"linux/s390x", "-", "0"},
		{"windows/amd64", "-", "-"},
		{"unknown/unknown linux/arm64", "1", "1"},
		{"unknown/unknown", "-", "-"},
		{"none! linux/arm64", "1", "-"},
		{"", "-", "-"},
	} {
		raw, index := indexOf(t, test.entries)
		for want, platform := range map[string]v1.Platform{"arm64 " + test.arm: {OS: "linux", Architecture: "arm64"}, "zero " + test.zero: {}} {
			_, want, _ := strings.Cut(want, " ")
			got := "-"
			child, err := pickPlatform(raw, index, platform)
			if err == nil {
				got = strings.TrimLeft(child.Digest.Hex, "0")
				got = map[string]string{"": "0"}[got] + got
			}
			if got != want {
				t.Errorf("%q for %q: got %s, %v, want %s", test.entries, platform.String(), got, err, want)
			}
			if err != nil && strings.HasSuffix(err.Error(), ":") {
				t.Errorf("%q: the message ends early: %v", test.entries, err)
			}
		}
	}
}

// indexOf returns an index whose entries have their position as digest.
func indexOf(t *testing.T, entries string) ([]byte, *v1.IndexManifest) {
	t.Helper()
	index := &v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	for n, entry := range strings.Fields(entries) {
		d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: 7, Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%064d", n)}}
		if name, other := strings.CutSuffix(entry, "!"); other {
			entry, d.MediaType = name, types.OCIImageIndex
		}
		if entry != "none" {
			platform, err := v1.ParsePlatform(entry)
			if err != nil {
				t.Fatal(err)
			}
			d.Platform = platform
		}
		index.Manifests = append(index.Manifests, d)
	}
	raw, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	return raw, index
}
