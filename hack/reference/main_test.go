// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/capi-installer/capi-installer/hack/generated"
)

func TestGenerate_PagesAreUpToDate(t *testing.T) {
	pages := generated.Committed(t, generate)
	committed, err := filepath.Glob(filepath.Join("../..", folder, "*.md"))
	if err != nil || len(committed) != len(pages) || len(pages) != 5 {
		t.Errorf("%d pages are committed, %d generated, %v", len(committed), len(pages), err)
	}
}
