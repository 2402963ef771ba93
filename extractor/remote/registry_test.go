// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/test/registry"
)

func TestRegistry_ReadsEveryFormat(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	for _, docker := range []bool{false, true} {
		for _, compression := range []registry.Compression{registry.Gzip, registry.Zstd, registry.None} {
			t.Run(fmt.Sprintf("docker=%t,compression=%d", docker, compression), func(t *testing.T) {
				layer := shipped(t, aws(manifests))
				layer.Compression = compression
				image, err := registry.Format{Docker: docker}.Image(layer, registry.Layer{Txtar: "-- usr/bin/manager --\nELF\n"})
				if err != nil {
					t.Fatal(err)
				}
				reference := reg.MustPush(t, "providers/aws", image)
				fetches(t, client(t), reference, from(aws(manifests), reference))
			})
		}
	}
}

// fetches checks what a reference gives.
func fetches(t *testing.T, fetcher extractor.Fetcher, reference string, want []extractor.Bundle) {
	t.Helper()
	got, err := fetcher.Fetch(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// reads checks which bundles an image has.
func reads(t *testing.T, image v1.Image, want []extractor.Bundle) {
	t.Helper()
	got, err := FromImage(t.Context(), image, extractor.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRegistry_ImageWithoutBundles(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	image := registry.MustImage(t, registry.Layer{Txtar: "-- capi-manifestsx/metadata.json --\n{}\n-- usr/capi-manifests/metadata.json --\n{}\n"})
	fetches(t, client(t), reg.MustPush(t, "operators/other", image), nil)
}

func TestRegistry_UppermostLayerWins(t *testing.T) {
	newer := aws("kind: Newer\n")
	entries := append([]registry.Entry{registry.Opaque("capi-manifests")}, filesIn(t, "capi-manifests", newer)...)
	image := registry.MustImage(t, shipped(t, aws(manifests)), registry.Layer{Txtar: "-- capi-manifests/manifests --\nold\n"}, registry.Layer{Entries: entries})
	reads(t, image, from(newer, ""))
}

func TestRegistry_DownloadsARepeatedLayerOnce(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	base := registry.Layer{Txtar: "-- etc/os-release --\n"}
	reference := reg.MustPush(t, "providers/aws", registry.MustImage(t, shipped(t, aws(manifests)), base, registry.Layer{Txtar: "-- a --\n"}, base))
	reg.Reset()
	fetches(t, client(t), reference, from(aws(manifests), reference))
	for path, n := range reg.Paths() {
		if strings.Contains(path, "/blobs/") && n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	want := map[registry.Key]int{{Method: "GET", Kind: "ping"}: 1, {Method: "GET", Kind: "manifests"}: 1, {Method: "GET", Kind: "blobs"}: 3}
	if diff := cmp.Diff(want, reg.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestRegistry_PicksThePlatformOfAnIndex(t *testing.T) {
	other := "riscv64"
	bundle := func(platform string) extractor.Bundle { return aws("# " + platform + "\n") }
	for _, test := range []struct {
		name      string
		platforms []string
		platform  v1.Platform
		want      string
		err       string
	}{
		{name: "the process's own", platforms: []string{"linux/" + other, "linux/" + runtime.GOARCH}, want: "linux/" + runtime.GOARCH},
		{name: "the first for linux", platforms: []string{"windows/amd64", "linux/" + other, "linux/mips"}, want: "linux/" + other},
		{name: "the one that is asked for", platforms: []string{"linux/" + runtime.GOARCH, "linux/" + other}, platform: v1.Platform{OS: "linux", Architecture: other}, want: "linux/" + other},
		{name: "no other than the one asked for", platforms: []string{"linux/mips"}, platform: v1.Platform{OS: "linux", Architecture: other}, err: "no image for linux/riscv64, only for: linux/mips"},
		{name: "none for linux", platforms: []string{"windows/amd64"}, err: "only for: windows/amd64"},
	} {
		for _, docker := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,docker=%t", test.name, docker), func(t *testing.T) {
				format := registry.Format{Docker: docker}
				var children []registry.Child
				for _, p := range test.platforms {
					format.Platform = p
					image, err := format.Image(shipped(t, bundle(p)))
					if err != nil {
						t.Fatal(err)
					}
					children = append(children, registry.Child{Platform: p, Image: image})
				}
				index, err := format.Index(children...)
				if err != nil {
					t.Fatal(err)
				}
				reference := registry.New(t, registry.Options{}).MustPush(t, "providers/aws", index)
				c := client(t)
				c.Platform = test.platform
				if test.err == "" {
					fetches(t, c, reference, from(bundle(test.want), reference))
					return
				}
				_, err = c.Fetch(t.Context(), reference)
				if !errors.Is(err, extractor.ErrInvalid) || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want an ErrInvalid with %q", err, test.err)
				}
			})
		}
	}
}

func TestRegistry_RejectsAReferenceWithoutDigest(t *testing.T) {
	for _, reference := range []string{
		"", "quay.io/a/b", "quay.io/a/b:v1", "quay.io/a/b@sha256:abc",
		"quay.io/a/b@sha512:" + strings.Repeat("a", 128), "quay.io/a/b@md5:" + strings.Repeat("a", 32),
		"quay.io/a/b@sha256:" + strings.Repeat("A", 64), "b@sha256:" + strings.Repeat("a", 64),
	} {
		_, err := client(t).Fetch(t.Context(), reference)
		var e *extractor.Error
		if !errors.As(err, &e) || e.Image != reference {
			t.Errorf("%q: got %v", reference, err)
		}
	}
}

func TestLimit_BoundsConcurrentFetches(t *testing.T) {
	running, most := atomic.Int32{}, atomic.Int32{}
	release := make(chan struct{})
	f := Limit(fetcherFunc(func(context.Context, string) ([]extractor.Bundle, error) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		<-release
		return nil, nil
	}), 2)
	done := make(chan error)
	for range 5 {
		go func() {
			_, err := f.Fetch(context.Background(), "ref")
			done <- err
		}()
	}
	for running.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Fetch(ctx, "waiting")
	if e, ok := errors.AsType[*extractor.Error](err); !ok || e.Image != "waiting" || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that waiting ended with its context", err)
	}
	close(release)
	for range 5 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := most.Load(); got != 2 {
		t.Errorf("%d ran at once, want 2", got)
	}
}

type fetcherFunc func(context.Context, string) ([]extractor.Bundle, error)

func (f fetcherFunc) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	return f(ctx, reference)
}

func TestMetrics_CountRequestsAndBytes(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	reference := reg.MustPush(t, "providers/aws", registry.MustImage(t, shipped(t, aws(manifests))))
	reg.Fail(registry.Fault{Path: "/manifests/", Status: 503, Times: 1})
	metrics := prometheus.NewPedanticRegistry()
	c := client(t)
	c.Client.Metrics = fetch.NewMetrics(metrics)
	fetches(t, c, reference, from(aws(manifests), reference))
	want := strings.ReplaceAll(`
# HELP capi_installer_registry_failures_total Failed reads from registries, by registry and HTTP status ("error" if there was none).
# TYPE capi_installer_registry_failures_total counter
capi_installer_registry_failures_total{code="503",host="HOST"} 1
# HELP capi_installer_registry_requests_total Requests to registries and their token servers, by registry and kind.
# TYPE capi_installer_registry_requests_total counter
capi_installer_registry_requests_total{host="HOST",kind="blobs"} 1
capi_installer_registry_requests_total{host="HOST",kind="manifests"} 2
capi_installer_registry_requests_total{host="HOST",kind="ping"} 4
`, "HOST", reg.Host())
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "capi_installer_registry_requests_total", "capi_installer_registry_failures_total"); err != nil {
		t.Error(err)
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "capi_installer_registry_received_bytes_total" && family.GetMetric()[0].GetCounter().GetValue() < 300 {
			t.Errorf("bytes: %v", family)
		}
	}
}
