// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor/remote/transport"
	"github.com/capi-installer/capi-installer/test/registry"
	"github.com/capi-installer/capi-installer/test/registry/distribution"
)

// login returns a client that logs in to a registry.
func login(t *testing.T, reg *distribution.Registry, password string, options transport.Options) *Client {
	n := transport.New(options)
	t.Cleanup(n.Close)
	access := Settings{Transport: n, Keychain: logins{reg.Host(): {Username: "robot", Password: password, Key: "the key", Origin: "a test"}}}
	return &Client{Settings: func(context.Context) (Settings, error) { return access, nil }, Retry: Retry{Backoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond}}
}

// whole reads the manifest and the layer of an image.
func whole(ctx context.Context, p *Client, reference string, layer v1.Descriptor, pause func()) error {
	image, err := p.Open(ctx, reference)
	if err != nil {
		return err
	}
	if _, err := image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, 4<<20); err != nil {
		return err
	}
	return image.Blob(ctx, "layer", layer, layer.Size, func(body io.Reader) error {
		if _, err := io.CopyN(io.Discard, body, 100); err != nil {
			return err
		}
		pause()
		_, err := io.Copy(io.Discard, body)
		return err
	})
}

func noPause() {}

func pushedTo(t *testing.T, reg *distribution.Registry, repository string) (string, v1.Descriptor) {
	t.Helper()
	image := registry.MustImage(t, registry.Layer{Entries: []registry.Entry{registry.File("data", incompressible())}, Compression: registry.None})
	manifest, err := image.Manifest()
	must(t, err)
	return reg.Push(t, repository, image), manifest.Layers[0]
}

func TestToken_SharedByTheImagesOfARepository(t *testing.T) {
	ca, err := registry.NewCA()
	must(t, err)
	reg := distribution.New(t, distribution.Options{Username: "robot", Password: "s3cr3t", CA: ca})
	reference, layer := pushedTo(t, reg, "release/art")
	cas, err := transport.ParseCAs(nil, map[string]string{strings.Replace(reg.Host(), ":", "..", 1): string(ca.PEM())})
	must(t, err)
	p := login(t, reg, "s3cr3t", transport.Options{CAs: cas})
	done := make(chan error)
	for range 20 {
		go func() { done <- whole(t.Context(), p, reference, layer, noPause) }()
	}
	for range 20 {
		must(t, <-done)
	}
	if diff := cmp.Diff([]string{"repository:release/art:pull"}, reg.Tokens()); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	// One request more than two for each image: the first one, whose response is a challenge.
	want := map[registry.Key]int{{Method: "GET", Kind: "manifests"}: 21, {Method: "GET", Kind: "blobs"}: 20}
	if diff := cmp.Diff(want, reg.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestToken_RenewedWhenItExpires(t *testing.T) {
	reg := distribution.New(t, distribution.Options{Username: "robot", Password: "s3cr3t"})
	reference, layer := pushedTo(t, reg, "release/art")
	const lasts = 3 * time.Second
	reg.Lasts(lasts)
	reg.Fail(registry.Fault{Path: "/blobs/", CutAfter: 1000, Times: 1})
	p := login(t, reg, "s3cr3t", transport.Options{})
	err := whole(t.Context(), p, reference, layer, func() { time.Sleep(lasts + time.Second) }) // until the registry rejects the token
	if err != nil || len(reg.Tokens()) != 2 {
		t.Errorf("got %v with the tokens %v, want two", err, reg.Tokens())
	}
}

func TestToken_RejectedPasswordIsNamedNotShown(t *testing.T) {
	reg := distribution.New(t, distribution.Options{Username: "robot", Password: "s3cr3t"})
	reference, layer := pushedTo(t, reg, "release/art")
	err := whole(t.Context(), login(t, reg, "wr0ng", transport.Options{}), reference, layer, noPause)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Step != "token" || e.Status != 401 || e.Host == reg.Host() || !strings.Contains(e.Advice, `"the key" in a test`) || strings.Contains(fmt.Sprint(err), "wr0ng") {
		t.Errorf("got %v", err)
	}
}

func TestBody_ResumesBlobsOfDistribution(t *testing.T) {
	reg := distribution.New(t, distribution.Options{Username: "robot", Password: "s3cr3t"})
	reference, layer := pushedTo(t, reg, "release/art")
	p := login(t, reg, "s3cr3t", transport.Options{})
	for _, at := range []int{1, 1000, 299_999} {
		reg.Heal()
		reg.Fail(registry.Fault{Path: "/blobs/", CutAfter: at, Times: 1})
		meter := &Meter{}
		must(t, whole(WithMeter(t.Context(), meter), p, reference, layer, noPause))
		if extra := meter.Received.Load() - layer.Size; extra > 2000 {
			t.Errorf("interrupted at %d: %d bytes more than the layer", at, extra)
		}
	}
}
