// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mount writes files as the kubelet mounts a ConfigMap.
func mount(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "..2026"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..2026", filepath.Join(dir, mountedData)); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, "..2026", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(mountedData, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestImages_FlatConfigMap(t *testing.T) {
	reference := "quay.io/openshift/a@sha256:" + strings.Repeat("a", 64)
	dir := mount(t, map[string]string{"aws-cluster-api-controllers": reference + "\n", "cluster-capi-controllers": reference})
	images, err := parsed(&Reconciler{ImagesJSON: filepath.Join(dir, "images.json"), Release: "4.22.0"})
	if err != nil {
		t.Fatal(err)
	}
	if len(images) != 2 || images[0].Reference != reference {
		t.Errorf("got images %v", images)
	}
}

// TestImages_FlatConfigMapMissing: a directory without an image list is an error and not an empty list.
func TestImages_FlatConfigMapMissing(t *testing.T) {
	for name, dir := range map[string]string{
		"empty": mount(t, nil), "only the release": mount(t, map[string]string{releaseFile: "4.22.0"}), "not mounted": t.TempDir(),
	} {
		if _, err := parsed(&Reconciler{ImagesJSON: filepath.Join(dir, "images.json"), Release: "4.22.0"}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestImages_FlatConfigMapInvalid(t *testing.T) {
	dir := mount(t, map[string]string{"aws-cluster-api-controllers": "quay.io/openshift/a:latest"})
	_, err := parsed(&Reconciler{ImagesJSON: filepath.Join(dir, "images.json"), Release: "4.22.0"})
	if err == nil || !strings.Contains(err.Error(), "aws-cluster-api-controllers") {
		t.Errorf("error does not contain the key: %v", err)
	}
}
