// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/test/registry"
)

func ExampleClient() {
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		panic(err)
	}
	defer reg.Close()
	image, err := registry.Image(registry.Layer{Txtar: "-- etc/motd --\nhello\n"})
	if err != nil {
		panic(err)
	}
	reference, err := reg.Push("example/provider", image)
	if err != nil {
		panic(err)
	}

	client := &fetch.Client{}
	ctx := context.Background()
	opened, err := client.Open(ctx, reference)
	if err != nil {
		panic(err)
	}
	defer opened.Close()
	raw, err := opened.Manifest(ctx, "manifest", v1.Descriptor{Digest: opened.Digest(), Size: -1}, 4<<20)
	if err != nil {
		panic(err)
	}
	manifest, _ := image.Manifest()
	err = opened.Blob(ctx, "layer", manifest.Layers[0], func(body io.Reader) error {
		n, err := io.Copy(io.Discard, body) // verified when it returns without error
		fmt.Println(len(raw) > 0, n == manifest.Layers[0].Size)
		return err
	})
	if err != nil {
		panic(err)
	}
	// Output: true true
}

func ExampleError() {
	var err error = &fetch.Error{
		Step: "manifest", Host: "mirror.example.com:5000", Status: 404,
		Err:    &fetch.StatusError{Status: 404, Code: "MANIFEST_UNKNOWN"},
		Advice: "check that the repository has this digest, or copy the image there",
	}
	var failed *fetch.Error
	fmt.Println(errors.As(err, &failed), failed.Host, failed.Status)
	fmt.Println(err)
	// Output:
	// true mirror.example.com:5000 404
	// getting the manifest from mirror.example.com:5000: the server responded with status 404 Not Found (MANIFEST_UNKNOWN): check that the repository has this digest, or copy the image there
}
