// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
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
