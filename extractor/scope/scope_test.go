// SPDX-License-Identifier: Apache-2.0

package scope_test

import (
	"slices"
	"strings"
	"testing"

	"go.podman.io/image/v5/docker/policyconfiguration"
	"go.podman.io/image/v5/docker/reference"

	"github.com/capi-installer/capi-installer/extractor/scope"
)

var (
	hosts       = []string{"r.example.com", "r.example.com:5000", "*.example.com", "example.com", "localhost:5000"}
	paths       = []string{"", "/a", "/a/b", "/ab"}
	identifiers = []string{"", ":v1", "@sha256:" + strings.Repeat("a", 64)}
)

// all returns all combinations of a host, a path and an identifier.
func all() []string {
	var out []string
	for _, host := range hosts {
		for _, path := range paths {
			for _, identifier := range identifiers {
				out = append(out, host+path+identifier)
			}
		}
	}
	return out
}

// TestContains_AsContainersImage compares all pairs with the code of containers/image that selects the signature policy of an image.
func TestContains_AsContainersImage(t *testing.T) {
	compared := 0
	for _, image := range all() {
		named, err := reference.ParseNamed(image)
		if err != nil || reference.IsNameOnly(named) {
			continue
		}
		identity, err := policyconfiguration.DockerReferenceIdentity(named)
		if err != nil {
			t.Fatal(err)
		}
		want := append([]string{identity}, policyconfiguration.DockerReferenceNamespaces(named)...)
		if got := scope.Of(image); !slices.Equal(got, want) {
			t.Errorf("scopes of %s: %q, want %q", image, got, want)
		}
		for _, in := range all() {
			if got := scope.Contains(in, image); got != slices.Contains(want, in) {
				t.Errorf("%s in %s: %t", image, in, got)
			}
			compared++
		}
	}
	if compared < 1000 {
		t.Errorf("compared only %d pairs", compared)
	}
}

// TestNested: the verdicts of ScopeIsNestedInsideScope in github.com/openshift/runtime-utils at 7bdb5b9.
func TestNested(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for _, test := range []struct {
		inner, outer string
		want         bool
	}{
		{"r.example.com", "r.example.com", true},
		{"r.example.com:5000", "r.example.com", false},
		{"r.example.com:5000/a", "r.example.com", false},
		{"r.example.com/a/b", "r.example.com/a", true},
		{"r.example.com/ab", "r.example.com/a", false},
		{"r.example.com/a", "r.example.com/a/b", false},
		{"r.example.com/a:v1", "r.example.com/a", false},
		{"r.example.com/a" + digest, "r.example.com", true},
		{"r.example.com/a/b:v1", "r.example.com/a", true},
		{"r.example.com/a" + digest, "r.example.com/a", false},
		{"r.example.com/a" + digest, "r.example.com/a" + digest, true},
		{"r.example.com/a", "*.example.com", true},
		{"r.example.com:5000/a", "*.example.com", true},
		{"*.r.example.com", "*.example.com", true},
		{"*.example.com", "*.example.com", true},
		{"example.com", "*.example.com", false},
		{"r.example.com/a:v1", "*.example.com", false},
		{"r.example.com:5000/a:v1", "*.example.com", true},
		{"quay.io/r.example.com", "*.example.com", false},
	} {
		if got := scope.Nested(test.inner, test.outer); got != test.want {
			t.Errorf("%s nested in %s: %t", test.inner, test.outer, got)
		}
	}
}
