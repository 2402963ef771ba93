// SPDX-License-Identifier: Apache-2.0

package buildinfo

import (
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModules_AfterReplacements(t *testing.T) {
	got := Modules(&debug.BuildInfo{Deps: []*debug.Module{
		{Path: "a", Version: "v1.0.0", Sum: "h1:a"},
		{Path: "b", Version: "v1.0.0", Replace: &debug.Module{Path: "c", Version: "v2.0.0", Sum: "h1:c"}},
		{Path: "d", Version: "v1.0.0", Replace: &debug.Module{Path: "./d"}},
	}})
	want := []Module{{Path: "a", Version: "v1.0.0", Sum: "h1:a"}, {Path: "c", Version: "v2.0.0", Sum: "h1:c"}, {Path: "d", Version: "v1.0.0"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOf_KeepsTheVersionOfTheLinker(t *testing.T) {
	if v := Of("v1.2.3"); v.Version != "v1.2.3" || v.Go == "" || v.Platform == "" {
		t.Errorf("got %+v", v)
	}
}
