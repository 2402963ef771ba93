// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"time"

	registryname "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/test/registry"
)

func index(ts *testscript.TestScript, args []string) {
	layer := layerOf(ts, args[2])
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
	reference, err := ts.Value(registryKey{}).(*registry.Registry).PushTag(args[0], args[1], attested)
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

func slow(ts *testscript.TestScript, args []string) {
	image(ts, args)
	reg := ts.Value(registryKey{}).(*registry.Registry)
	reference, err := registryname.NewDigest(ts.Getenv(args[0]))
	ts.Check(err)
	pushed, err := ggcr.Image(reference)
	ts.Check(err)
	layers, err := pushed.Layers()
	ts.Check(err)
	digest, err := layers[0].Digest()
	ts.Check(err)
	ts.Setenv(args[0]+"_layer", "/v2/"+reference.RepositoryStr()+"/blobs/"+digest.String())
	reg.Fail(registry.Fault{Path: digest.String(), Method: http.MethodGet, Chunk: 1, Pause: time.Hour})
}
