// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"go.uber.org/goleak"

	"github.com/capi-installer/capi-installer/test/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pull pulls an image with an independent client, and validates it completely.
func pull(t *testing.T, reference string, options ...remote.Option) error {
	t.Helper()
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, remote.WithTransport(rt), remote.WithRetryStatusCodes(), remote.WithRetryPredicate(func(error) bool { return false }))
	image, err := remote.Image(ref, options...)
	if err != nil {
		return err
	}
	if _, err := image.RawConfigFile(); err != nil {
		return err
	}
	return validate.Image(image)
}

func TestRegistry_PushAndPull(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	for _, format := range []registry.Format{{}, {Docker: true}, {Platform: "linux/arm64", Labels: map[string]string{"a": "b"}}} {
		image, err := format.Image(registry.Layer{Txtar: "-- a/b --\nc\n"}, registry.Layer{Entries: []registry.Entry{registry.Whiteout("a/b")}})
		if err != nil {
			t.Fatal(err)
		}
		if err := pull(t, reg.MustPush(t, "some/repository", image)); err != nil {
			t.Errorf("%+v: %v", format, err)
		}
		index, err := format.Index(registry.Child{Platform: "linux/arm64", Image: image})
		if err != nil {
			t.Fatal(err)
		}
		if err := pull(t, reg.MustPush(t, "some/repository", index), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"})); err != nil {
			t.Errorf("%+v: %v", format, err)
		}
	}
}

func TestLayer_Contents(t *testing.T) {
	image := registry.MustImage(t, registry.Layer{Txtar: "-- a/b --\nc\n"}, registry.Layer{Entries: []registry.Entry{registry.File("a/d", "e")}, Compression: registry.None})
	files := mutate.Extract(image)
	defer files.Close()
	all, err := io.ReadAll(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a/b\x00", "c\n\x00", "a/d\x00", "e\x00"} {
		if !bytes.Contains(all, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestRegistry_CountsRequests(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	reference, err := reg.PushTag("a", "v1", registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}))
	if err != nil {
		t.Fatal(err)
	}
	reg.Reset()
	repository, digest, _ := strings.Cut(reference, "@")
	rt := &http.Transport{}
	defer rt.CloseIdleConnections()
	base := "http://" + strings.Replace(repository, "/", "/v2/", 1)
	for _, url := range []string{"http://" + reg.Host() + "/v2/", base + "/manifests/v1", base + "/manifests/v1", base + "/manifests/" + digest, base + "/tags/list"} {
		resp, err := rt.RoundTrip(httptest.NewRequest("GET", url, nil))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != 200 {
			t.Errorf("%s: %s", url, resp.Status)
		}
	}
	want := map[registry.Key]int{{Method: "GET", Kind: "ping"}: 1, {Method: "GET", Kind: "manifests"}: 3, {Method: "GET", Kind: "tags"}: 1}
	if diff := cmp.Diff(want, reg.Requests()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := reg.Paths()["/v2/a/manifests/v1"]; n != 2 {
		t.Errorf("%d requests for the manifest, want 2", n)
	}
}

func TestRegistry_RequiresPasswords(t *testing.T) {
	reg := registry.New(t, registry.Options{Username: "robot", Password: "password"})
	reference := reg.MustPush(t, "a", registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}))
	if err := pull(t, reference, remote.WithAuth(&authn.Basic{Username: "robot", Password: "password"})); err != nil {
		t.Error(err)
	}
	if status := code(pull(t, reference, remote.WithAuth(&authn.Basic{Username: "robot", Password: "wrong"}))); status != 401 {
		t.Errorf("got status %d, want 401", status)
	}
}

func code(err error) int {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e.StatusCode
	}
	return 0
}

func TestFault(t *testing.T) {
	for name, test := range map[string]struct {
		fault registry.Fault
		good  func(error) bool
	}{
		"a status":            {registry.Fault{Path: "/manifests/", Status: 429}, func(err error) bool { return code(err) == 429 }},
		"a pattern":           {registry.Fault{Path: "/v2/*/blobs/*", Status: 404}, func(err error) bool { return code(err) == 404 }},
		"a pattern for other": {registry.Fault{Path: "/v2/*/tags/*", Status: 404}, func(err error) bool { return err == nil }},
		"another method":      {registry.Fault{Method: "PUT", Status: 404}, func(err error) bool { return err == nil }},
		"wrong bytes":         {registry.Fault{Path: "/manifests/", Body: []byte("{}")}, func(err error) bool { return err != nil && code(err) == 0 }},
		"a cut body":          {registry.Fault{Path: "/manifests/", CutAfter: 5}, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		"a slow body":         {registry.Fault{Pause: time.Millisecond, Chunk: 100}, func(err error) bool { return err == nil }},
		"a custom handler": {registry.Fault{Path: "/manifests/", Status: 200, Body: []byte("<html>")},
			func(err error) bool { return err != nil && code(err) == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			reg := registry.New(t, registry.Options{})
			reference := reg.MustPush(t, "a", registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}))
			reg.Fail(test.fault)
			if err := pull(t, reference); !test.good(err) {
				t.Errorf("got %v", err)
			}
			reg.Heal()
			if err := pull(t, reference); err != nil {
				t.Errorf("after Heal: %v", err)
			}
		})
	}
}

func TestFault_Times(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	reference := reg.MustPush(t, "a", registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}))
	reg.Fail(registry.Fault{Path: "/manifests/", Status: 503, Times: 2, Header: http.Header{"Retry-After": {"7"}}})
	for n, want := range []int{503, 503, 0} {
		if got := code(pull(t, reference)); got != want {
			t.Errorf("request %d: got status %d, want %d", n, got, want)
		}
	}
}
