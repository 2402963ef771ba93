// SPDX-License-Identifier: Apache-2.0

package mirror_test

import (
	"fmt"
	"os"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
)

const image = "quay.io/example/provider@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func ExampleCluster() {
	sets := []configv1.ImageDigestMirrorSet{{Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{{
		Source: "quay.io/example", Mirrors: []configv1.ImageMirror{"mirror.example.com:5000/ocp"},
	}}}}}
	rules, err := mirror.Cluster{DigestMirrors: sets}.Rules(os.TempDir())
	if err != nil {
		panic(err)
	}
	sources, err := rules.Sources(image)
	if err != nil {
		panic(err)
	}
	for _, s := range sources {
		fmt.Println(s.Image.Context(), s.Mirror)
	}
	// Output:
	// mirror.example.com:5000/ocp/provider true
	// quay.io/example/provider false
}

func ExampleRules_Sources_blocked() {
	rules, err := mirror.Parse(os.TempDir(), []byte("[[registry]]\nlocation = \"quay.io/example\"\nblocked = true\n"))
	if err != nil {
		panic(err)
	}
	_, err = rules.Sources(image)
	fmt.Println(err)
	// Output: all sources are blocked: quay.io/example/provider; configure a mirror, or unblock a source
}
