// SPDX-License-Identifier: Apache-2.0

package operand

import "testing"

func TestAReferenceIsNamedOnlyByItself(t *testing.T) {
	const reference = "registry.example.com/openshift:aws"
	tests := map[string]bool{
		reference:                                true,
		"--image=" + reference:                   true,
		"a=" + reference + ",b=c":                true,
		reference + "-pause," + reference:        true,
		"run '" + reference + "'":                true,
		reference + "-pause":                     false,
		reference + "@sha256:0123":               false,
		"mirror.example.com/" + reference:        false,
		reference + reference:                    false,
		"registry.example.com/openshift:azure":   false,
		"":                                       false,
		"x" + reference + " " + reference + "-y": false,
	}
	for text, want := range tests {
		if got := names(text, reference); got != want {
			t.Errorf("%q: named is %v, want %v", text, got, want)
		}
	}
}

func TestOnlyADigestPins(t *testing.T) {
	const hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	tests := map[string]bool{
		"quay.io/x@sha256:" + hash:     true,
		"quay.io/x:v1@sha256:" + hash:  true,
		"quay.io/x:v1":                 false,
		"quay.io/x":                    false,
		"@sha256:" + hash:              false,
		"quay.io/x@sha256:" + hash[1:]: false,
		"quay.io/x@md5:" + hash[:32]:   false,
		"quay.io/x@" + hash:            false,
		"sha256:" + hash:               false,
		"":                             false,
	}
	for image, want := range tests {
		if got := pinned(image); got != want {
			t.Errorf("%q: pinned is %v, want %v", image, got, want)
		}
	}
}
