// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGenerate_PagesAreUpToDate(t *testing.T) {
	pages, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	committed, err := filepath.Glob(filepath.Join("../..", folder, "*.md"))
	if err != nil || len(committed) != len(pages) || len(pages) < 20 {
		t.Errorf("%d pages are committed, %d generated, %v", len(committed), len(pages), err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join("../..", folder, name))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs; run make generate (-want +got):\n%s", name, diff)
		}
	}
}
