// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
)

// parsed reads the files of the release and returns its images.
func parsed(r *Reconciler) (imagesjson.Images, error) {
	return r.source().read().parse(r.ImagesJSON, nil)
}

// TestReleaseFiles_AreRecorded also if they belong to another release than the program: status then waits for the program.
func TestReleaseFiles_AreRecorded(t *testing.T) {
	dir := t.TempDir()
	r := &Reconciler{ImagesJSON: filepath.Join(dir, "images.json"), Release: "4.22.0", Platforms: operand.Platforms{"AWS", "Docker"}}
	before := v1alpha1.ObservedRelease{Version: "4.21.0", ImagesDigest: "sha256:1"}
	status := v1alpha1.ClusterAPIStatus{ObservedRelease: &before}
	record := func() {
		r.record(&status, r.source().read(), clusterInputs{})
	}
	if record(); *status.ObservedRelease != before {
		t.Errorf("without files: got %+v", status.ObservedRelease)
	}
	for release, want := range map[string]string{"": "4.22.0", "4.22.1\n": "4.22.1"} {
		err := os.WriteFile(r.ImagesJSON, []byte("{}"), 0o600)
		if release != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, releaseFile), []byte(release), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		record()
		if got, want := *status.ObservedRelease, (v1alpha1.ObservedRelease{Version: want, ImagesDigest: v1alpha1.Digest(digest.FromString("{}")), Platform: "AWS,Docker"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		_ = os.Remove(filepath.Join(dir, releaseFile)) // missing in one case
	}
}

// A program without a release of its own has the release of the files, also after they have changed.
func TestRelease_OfTheFiles(t *testing.T) {
	dir := t.TempDir()
	r := &Reconciler{ImagesJSON: filepath.Join(dir, "images.json")}
	if err := os.WriteFile(r.ImagesJSON, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := parsed(r); err == nil || !strings.Contains(err.Error(), "must name the release") {
		t.Errorf("without release: %v", err)
	}
	for _, release := range []string{"1.0.0", "1.1.0"} {
		if err := os.WriteFile(filepath.Join(dir, releaseFile), []byte(release), 0o600); err != nil {
			t.Fatal(err)
		}
		files := r.source().read()
		if _, err := parsed(r); err != nil || files.release != release {
			t.Errorf("release %s, %v; want %s", files.release, err, release)
		}
	}
	r.Release = "1.0.0"
	if _, err := parsed(r); !errors.As(err, new(*StaleError)) {
		t.Errorf("a program with another release: %v", err)
	}
}

// TestImages_OfTheRelease: images.json of another release must not be used.
func TestImages_OfTheRelease(t *testing.T) {
	reference := "quay.io/openshift/a@sha256:" + strings.Repeat("a", 64)
	for name, test := range map[string]struct {
		release string // content of the file; "" means no file
		want    string // of the other release
	}{
		"the same": {"4.22.0", ""}, "the same, with white space": {" 4.22.0\n", ""}, "no file": {"", ""},
		"another": {"4.22.1\n", "4.22.1"}, "a longer one": {"4.22.0-rc.1", "4.22.0-rc.1"}, "empty": {"\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := os.WriteFile(filepath.Join(dir, "images.json"), []byte(`{"core": "`+reference+`"}`), 0o600)
			if test.release != "" {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, releaseFile), []byte(test.release), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			images, err := parsed(&Reconciler{ImagesJSON: filepath.Join(dir, "images.json"), Release: "4.22.0"})
			stale, isStale := errors.AsType[*StaleError](err)
			if wantStale := test.want != "" || name == "empty"; isStale != wantStale || !isStale && (err != nil || len(images) != 1) {
				t.Fatalf("got %v, %v", images, err)
			}
			if isStale && (stale.Is != test.want || stale.Want != "4.22.0") {
				t.Errorf("got %+v", stale)
			}
		})
	}
}
