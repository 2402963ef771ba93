// SPDX-License-Identifier: Apache-2.0

package imagesjson_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/imagesjson"
)

const (
	released = "quay.io/example/capa@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	mine     = "quay.io/me/capa@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func release() imagesjson.Images {
	return imagesjson.Images{{Name: "aws", Reference: released}, {Name: "core", Reference: released}}
}

func TestOverride_ReplacesOrAddsAnImage(t *testing.T) {
	before := release()
	got, err := before.Override([]v1alpha1.ImageOverride{{Name: "new", Image: mine}, {Name: "aws", Image: mine}, {Name: "core", Image: released}})
	if err != nil {
		t.Fatal(err)
	}
	want := imagesjson.Images{
		{Name: "aws", Reference: mine, Overridden: true},
		{Name: "core", Reference: released, Overridden: true},
		{Name: "new", Reference: mine, Overridden: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(release(), before); diff != "" {
		t.Errorf("the release's images were changed (-want +got)\n%s", diff)
	}
}

func TestOverride_None(t *testing.T) {
	got, err := release().Override(nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(release(), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOverride_NamesAllInvalidEntries(t *testing.T) {
	_, err := release().Override([]v1alpha1.ImageOverride{
		{Name: "aws", Image: "quay.io/me/capa:latest"},
		{Name: "", Image: mine},
		{Name: "core", Image: mine},
		{Name: "core", Image: mine},
	})
	want := strings.Join([]string{
		`"aws": "quay.io/me/capa:latest": missing digest (tags are mutable); want <registry>/<repository>@sha256:<64 hex digits>`,
		`"": "` + mine + `": empty key`,
		`"core": "` + mine + `": duplicate override; keep one`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got error\n%v\nwant\n%s", err, want)
	}
	entry, ok := errors.AsType[*imagesjson.EntryError](err)
	if !ok || entry.Name != "aws" || entry.Line != 0 {
		t.Errorf("the first error is %#v, not the entry aws", entry)
	}
}
