// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/registry"
)

// pushed returns an image in a registry.
func pushed(t *testing.T, at *registry.Registry, repository string) string {
	t.Helper()
	image, err := registry.Image()
	if err != nil {
		t.Fatal(err)
	}
	return at.MustPush(t, repository, image)
}

// clientOf returns a client with settings.
func clientOf(settings fetch.Settings) *fetch.Client {
	return &fetch.Client{Settings: func(context.Context) (fetch.Settings, error) { return settings, nil }}
}

// withPassword returns settings with the credentials of a host.
func withPassword(t *testing.T, host, password string) fetch.Settings {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
	file := filepath.Join(t.TempDir(), "auth.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, host, auth), 0o600); err != nil {
		t.Fatal(err)
	}
	return fetch.Settings{AuthFiles: []string{file}, Places: fetch.Places{Credentials: "Secret a/b"}}
}

// TestImages_NamesImageRegistryCauseAndStep has one image of each kind, which are all checked.
func TestImages_NamesImageRegistryCauseAndStep(t *testing.T) {
	open := registry.New(t, registry.Options{})
	private := registry.New(t, registry.Options{Username: "me", Password: "right"})
	closed, err := fixture.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	good, secret := pushed(t, open, "core"), pushed(t, private, "aws")
	missing := strings.Replace(good, "/core@", "/other@", 1)
	unreachable := closed + good[strings.Index(good, "/"):]
	images := imagesjson.Images{{Name: "good", Reference: good}, {Name: "missing", Reference: missing}, {Name: "unreachable", Reference: unreachable}, {Name: "secret", Reference: secret}}
	for _, c := range []struct {
		settings fetch.Settings
		details  []string
	}{
		{fetch.Settings{}, []string{"", "status 404", "connection refused: check the connection to the registry", "there are no credentials for this repository: add them to the auth file"}},
		{withPassword(t, private.Host(), "wrong"), []string{"", "status 404", "refused", "Secret a/b: the registry rejects them for this repository"}},
		{withPassword(t, private.Host(), "right"), []string{"", "status 404", "refused", ""}},
	} {
		checks := Images(t.Context(), clientOf(c.settings), images)
		for i, check := range checks {
			verdict := map[bool]Verdict{true: OK, false: Failed}[c.details[i] == ""]
			host, _, _ := strings.Cut(images[i].Reference, "/")
			if check.Verdict != verdict || !strings.Contains(check.Details, c.details[i]) || !strings.HasPrefix(check.Name, "image "+images[i].Name+" ("+host+"/") {
				t.Errorf("got %+v, want %q", check, c.details[i])
			}
			if verdict == Failed && !strings.Contains(check.Details, host) {
				t.Errorf("%q does not name %s", check.Details, host)
			}
			if strings.Contains(check.Details, "wrong") {
				t.Errorf("%q has a password", check.Details)
			}
		}
	}
	if requests := open.Requests(); requests[registry.Key{Method: "GET", Kind: "blobs"}] > 0 {
		t.Errorf("layers were read: %v", requests)
	}
}

// TestImages_ReadFromAMirror names the mirror that fails while the registry has the image.
func TestImages_ReadFromAMirror(t *testing.T) {
	at, copies := registry.New(t, registry.Options{}), registry.New(t, registry.Options{})
	image := pushed(t, at, "core")
	file := filepath.Join(t.TempDir(), "registries.conf")
	err := os.WriteFile(file, fmt.Appendf(nil, "[[registry]]\nprefix = %q\nlocation = %[1]q\ninsecure = true\n[[registry.mirror]]\nlocation = %q\ninsecure = true\n", at.Host(), copies.Host()), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	images := imagesjson.Images{{Name: "core", Reference: image}}
	check := Images(t.Context(), clientOf(fetch.Settings{RegistriesConf: file}), images)[0]
	if check.Verdict != OK || !strings.Contains(check.Details, "read from another source: getting the manifest from "+copies.Host()) {
		t.Errorf("got %+v", check)
	}
	pushed(t, copies, "core")
	at.Fail(registry.Fault{Status: 503})
	if check := Images(t.Context(), clientOf(fetch.Settings{RegistriesConf: file}), images)[0]; check.Verdict != OK || check.Details != "" {
		t.Errorf("got %+v", check)
	}
}

// TestImages_EndsWithinItsLimit has a registry that never responds.
func TestImages_EndsWithinItsLimit(t *testing.T) {
	silent, open := registry.New(t, registry.Options{}), registry.New(t, registry.Options{})
	images := imagesjson.Images{{Name: "good", Reference: pushed(t, open, "core")}, {Name: "silent", Reference: pushed(t, silent, "core")}}
	silent.Fail(registry.Fault{Delay: time.Hour})
	start := time.Now()
	checks := imagesWithin(t.Context(), 2*time.Second, clientOf(fetch.Settings{}), images)
	if checks[0].Verdict != OK || checks[1].Verdict != Failed || !strings.Contains(checks[1].Details, silent.Host()+": no answer within 2s: check the connection") {
		t.Errorf("got %+v", checks)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("took %s", took)
	}
}
