// SPDX-License-Identifier: Apache-2.0

package main

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/test/registry"
)

// index is a command of scripts; see TestScripts.
func index(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: index NAME DIR")
	}
	layer := layerOf(ts, args[1])
	var children []registry.Child
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		child, err := registry.Format{Platform: platform}.Image(layer)
		ts.Check(err)
		children = append(children, registry.Child{Platform: platform, Image: child})
	}
	base, err := registry.Format{}.Index(children...)
	ts.Check(err)
	attested, err := attest(base, children[0].Image)
	ts.Check(err)
	reference, err := ts.Value(registryKey{}).(*registry.Registry).Push("images/"+args[0], attested)
	ts.Check(err)
	ts.Setenv(args[0], reference)
}

// attest adds an attestation about image to an index, as BuildKit does.
func attest(index v1.ImageIndex, image v1.Image) (v1.ImageIndex, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	attestation, err := registry.Image(registry.Layer{Txtar: "-- provenance.json --\n{}\n"})
	return mutate.AppendManifests(index, mutate.IndexAddendum{Add: attestation, Descriptor: v1.Descriptor{
		Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"},
		Annotations: map[string]string{
			"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": digest.String(),
		},
	}}), err
}
