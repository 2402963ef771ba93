// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
			images, err := (&Reconciler{ImagesJSON: filepath.Join(dir, "images.json"), Release: "4.22.0"}).images(nil)
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
